"""The study of a frozen network with logistic regression: same episodes as the study of adaptations."""

import numpy as np
import pytest
from toynets import toy

from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.meta.studies import first_try as study
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.device import Device

pytest.importorskip("sklearn")


def test_it_is_what_scikit_learn_says_of_the_unit_embeddings_of_the_same_episode(logged, rows, monkeypatch):
    from sklearn.linear_model import LogisticRegression

    network = toy("headed", size=32)
    monkeypatch.setattr(study, "whole_network", lambda: network)
    options = ["--packs", "signs", "--way", "3", "--shots", "2", "--queries", "4", "--episodes", "2"]
    assert study.main([*logged, *options]) == 0
    found = [row["forms"][study.FORM]["accuracy"] for row in rows()]
    dataset, device, want = open_dataset("signs"), Device(threads=1), []
    for k in range(2):
        drawn = sample_episode(dataset, 3, 2, 4, 7, k)
        support, query = (embed(network, side, device) for side in (drawn.support, drawn.query))
        model = LogisticRegression(max_iter=1000).fit(support, drawn.support.labels)
        want.append(float(np.mean(model.predict(query) == drawn.query.labels)))
    assert found == want and 0 < np.mean(found) <= 1
