"""Networks side by side: a small run of the study, and the rules on known figures."""

from dataclasses import replace

import numpy as np
import pytest
import toynets

from tinytrain.backbones.catalogue import TIERS
from tinytrain.meta.studies import committees as study
from tinytrain.pipeline.toy import toy_network

NAMES = [TIERS[tier].backbone for tier in study.NETWORKS]
SMALL, MEDIUM, LARGE = NAMES
TOYS = (toy_network(), toynets.toy("headed"), toynets.toy())


@pytest.fixture
def arguments(logged, monkeypatch):
    toys = {t: replace(n, name=name) for t, n, name in zip(study.NETWORKS, TOYS, NAMES, strict=True)}
    monkeypatch.setattr(study, "load_backbone", toys.get)
    fixed = (*logged, "--packs", "leaves", "--ways", "3", "--shots", "1,3", "--classes", "4", "--images", "5")
    return [*map(str, fixed), "--queries", "2", "--episodes", "3"]


def test_a_job_has_every_combination_and_rules_where_images_can_be_left_out(arguments, rows, capsys):
    assert study.main(arguments) == 0
    one, three = rows()
    assert [row["shots"] for row in (one, three)] == [1, 3]
    for row in (one, three):
        assert [name.count("+") for name in row["accuracy"]] == [0] * 3 + [1] * 3 + [2]
        assert all(len(values) == 3 for values in row["accuracy"].values())
    assert not one["rules"] and len(three["rules"]) == 4
    alone = three["rules"]["best alone"]
    assert all(
        a in (x, y, z) for a, x, y, z in zip(alone, *(three["accuracy"][n] for n in NAMES), strict=True)
    )
    table = capsys.readouterr().out
    assert f"| {SMALL}+{LARGE} |" in table and "| rule: best of all |" in table
    assert f"above {SMALL}" in table and "Shots 3, classes 3:" in table


def test_episodes_that_a_pack_has_no_images_for_are_refused(arguments, capsys):
    assert study.main([*arguments, "--images", "4"]) == 2
    assert "give --images as --shots and --queries need" in capsys.readouterr().err


def test_rules_follow_the_images_that_are_left_out_and_not_the_queries():
    def found(left_out):
        """Accuracy on queries and on ten images left out, of small, medium, large, and their combinations."""
        ways = study.ways_of(3)
        return {w: (k / 10, np.arange(10) < n) for k, (w, n) in enumerate(zip(ways, left_out, strict=True))}

    taken = study.one_episode(found((5, 7, 6, 6, 4, 9, 3)), NAMES)["rules"]
    assert list(taken.values()) == [0.3, 0.4, 0.1, 0.5], "small+medium, small+large, medium, medium+large"
    taken = study.one_episode(found((5, 3, 4, 5, 4, 4, 5)), NAMES)["rules"]
    assert list(taken.values()) == [0.0, 0.6, 0.0, 0.0], "small, all three, small, small"
