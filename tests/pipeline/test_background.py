"""What `check` says of a background, against heads that really were fitted without an image."""

import numpy as np
import pytest
from headdata import embeddings
from toynets import toy

from tinytrain import kernels
from tinytrain.drift.refit import fitted
from tinytrain.heads.registry import find_head
from tinytrain.pipeline import check as checking
from tinytrain.pipeline.background import LEAST, measured
from tinytrain.pipeline.check import check
from tinytrain.pipeline.toy import toy_episode
from tinytrain.report.outlook import render

LAST = 2


def images(n, seed=0):
    x, labels = embeddings(n, seed=seed)
    return x.astype(np.float32), labels


@pytest.mark.parametrize("seed", [0, 1])
def test_images_left_out_are_judged_as_by_a_head_without_them_and_the_limit_of_all(seed):
    x, labels = images(60, seed)
    x = (0.5 * x + 0.5 * images(60, seed + 9)[0]).astype(np.float32)  # so alike that some are taken
    lda, table = find_head("lda"), kernels.load()
    limit = fitted(lda, table, x, labels, LAST).limit
    right = {True: [], False: []}
    for i, label in enumerate(labels):
        rest = np.arange(len(x)) != i
        logits = fitted(lda, table, x[rest], labels[rest], LAST).logits(x[i : i + 1])[0]
        named = limit.admits(logits) and int(logits.argmax())
        right[label == LAST].append(
            limit.admits(logits) if label == LAST else named is not False and named == label
        )
    found = measured(table, x, labels, LAST, 0)
    assert found.images == 20 and found.low <= found.taken <= found.high
    assert found.taken == pytest.approx(np.mean(right[True]), abs=0.06)
    assert found.kept == pytest.approx(np.mean(right[False]), abs=0.06)
    assert 0 < found.kept < 1 and found.half != found.kept, "the task is neither easy nor hopeless"


def test_too_few_images_of_a_background_say_nothing():
    x, labels = images(30)
    few = np.concatenate([np.flatnonzero(labels != LAST), np.flatnonzero(labels == LAST)[: LEAST - 1]])
    assert measured(kernels.load(), x[few], labels[few], LAST, 0) is None


def test_a_check_says_what_the_background_brings_and_asks_for_no_more_of_it_first():
    episode = toy_episode(4, 6, 0)
    object.__setattr__(episode, "class_names", ("ant", "background", "cat", "dog"))
    found = check(toy(), episode, others=False)
    said = render(found, verbose=True)
    assert "of images like these 6 are taken for a class now" in said
    assert "background" not in {row.name for row in found.by_class}
    assert all(suspect.given != "background" for suspect in found.suspects)
    assert found.to_json()["background"]["images"] == 6


def test_a_background_too_small_to_be_judged_is_said_to_be():
    episode = toy_episode(3, LEAST - 1, 0)
    object.__setattr__(episode, "class_names", ("ant", "background", "cat"))
    said = " ".join(render(check(toy(), episode, others=False), verbose=True).split())
    assert "background unknown: too few images of a class, or of it, which has 3 images; beside" in said
    object.__setattr__(episode, "class_names", ("ant", "bee", "cat"))
    assert "background" not in render(check(toy(), episode, others=False), verbose=True)


def test_more_images_are_told_from_other_classes_or_if_there_are_none_from_the_background(monkeypatch):
    for names, told_apart in ((("ant", "background"), 2), (("ant", "background", "cat"), 2)):
        episode, seen = toy_episode(len(names), 6, 0), []
        object.__setattr__(episode, "class_names", names)
        monkeypatch.setattr(checking, "expected_gain", lambda x, labels, seed, to=seen: to.extend(labels))
        check(toy(), episode, others=False)
        assert len(set(seen)) == told_apart
