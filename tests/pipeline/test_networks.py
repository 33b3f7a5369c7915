"""Which networks see most in the same images: compared on images that are left out, and put side by side."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import toynets
from cases import each

from tinytrain.backbones.catalogue import TIERS
from tinytrain.heads.side_by_side import JointLda
from tinytrain.network.committee import Committee
from tinytrain.pipeline import networks
from tinytrain.pipeline.check import check, left_out_rows
from tinytrain.pipeline.networks import Compared, compared, paired, preferred
from tinytrain.pipeline.toy import toy_episode, toy_images, toy_network
from tinytrain.runtime.device import Device
from tinytrain.runtime.embedder import embedder_of

FIRST = toy_network()
OTHERS = (replace(toynets.toy("headed"), name="second"), replace(toynets.toy(), name="third"))
EPISODE = toy_episode(way=3, shots=6, queries=0)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Two more networks are on this machine."""
    monkeypatch.setattr("tinytrain.pipeline.check.installed", lambda shape: OTHERS)


def rows_of(network, images=EPISODE.support, others=OTHERS):
    return compared(network, others, images, networks.embed(network, images, Device()), 0, Device())


def right(network, images=EPISODE.support) -> np.ndarray:
    """Whether the head of a network or committee names each image rightly by all others."""
    embeddings = embedder_of(network).embed(images).astype(float)
    lengths = 1 if isinstance(network, Committee) else np.linalg.norm(embeddings, axis=1, keepdims=True)
    unit = embeddings / lengths
    head = JointLda(unit @ unit.T, images.labels, unit.shape[1])
    return head.left_out().argmax(axis=1) == images.labels


def test_every_combination_is_what_a_committee_of_its_networks_is():
    rows = rows_of(FIRST)
    every = [c for size in (1, 2, 3) for c in combinations((FIRST, *OTHERS), size)]
    assert [row.networks for row in rows] == [tuple(n.name for n in c) for c in every]
    assert (rows[0].gain, rows[0].times) == (0, 1)
    for row, members in zip(rows, every, strict=True):
        network = members[0] if len(members) == 1 else Committee(members)
        assert row.accuracy == right(network).mean() and row.times == network.macs / FIRST.macs
        assert row.gain == pytest.approx(row.accuracy - rows[0].accuracy)
    assert len({row.accuracy for row in rows}) > 1, "the test tells them apart"


def test_of_a_committee_in_use_the_members_are_compared_alone_too():
    pair = Committee((OTHERS[0], FIRST))
    rows = rows_of(pair)
    assert rows[0].networks == ("second", "toy") and rows[0].gain == 0
    alone = {frozenset(row.networks): row.accuracy for row in rows_of(FIRST)}
    assert {frozenset(row.networks): row.accuracy for row in rows} == alone


def test_there_is_nothing_to_compare_without_another_network_or_a_second_image():
    assert rows_of(FIRST, toy_images([0, 0, 1])) == ()
    assert rows_of(Committee((FIRST, *OTHERS))) == ()
    assert rows_of(FIRST, others=(FIRST,)) == ()


def test_check_has_the_rows_and_leaves_copies_out_of_them():
    found = check(FIRST, EPISODE)
    assert found.networks == rows_of(FIRST) and found.to_json()["networks"][1]["networks"] == ["second"]


def test_copies_are_left_out_of_the_comparison(monkeypatch):
    def every_third(*given):  # embeddings of toys are too short to tell
        rows, repeats = left_out_rows(*given)
        return rows, repeats._replace(copies=np.arange(len(rows)) % 3 > 0)

    monkeypatch.setattr("tinytrain.pipeline.check.left_out_rows", every_third)
    support = EPISODE.support
    again = replace(EPISODE, support=support.take(np.repeat(np.arange(len(support)), 3)))
    assert check(FIRST, again).networks == rows_of(FIRST)


def test_of_many_images_some_of_every_class_are_compared(monkeypatch):
    monkeypatch.setattr(networks, "MOST", 7)
    seen = []
    real = networks.embed

    def embed(network, images, device):
        seen.append(images)
        return real(network, images, device)

    embeddings = real(FIRST, EPISODE.support, Device())
    monkeypatch.setattr(networks, "embed", embed)
    rows = compared(FIRST, OTHERS, EPISODE.support, embeddings, 0, Device())
    assert [np.bincount(images.labels).tolist() for images in seen] == [[2, 2, 2]] * 2
    assert rows[0].accuracy == right(FIRST, seen[0]).mean()


@each("n", (25, 100, 400))
def test_an_interval_holds_the_difference_on_new_images_about_as_often_as_it_says(n):
    """The true difference varies between tasks, and an image in five is told rightly by one of two alone."""
    r, held = np.random.default_rng(n), []
    for _ in range(3000):
        truth = r.normal(0.05, networks.BETWEEN_TASKS)
        change = r.choice(3, n, p=((0.2 - truth) / 2, 0.8, (0.2 + truth) / 2)) - 1
        gain, deviation = paired(change < 0, change > 0)
        held.append(abs(gain - 0.05) <= 1.96 * deviation)
    assert 0.94 < np.mean(held) < 0.98


def test_few_images_that_differ_in_nothing_prove_nothing():
    same = np.ones(5, bool)
    assert paired(same, same) == (0, pytest.approx(np.sqrt(1 / 25 + networks.BETWEEN_TASKS**2)))


SMALL, MEDIUM, LARGE = (TIERS[tier].backbone for tier in ("small", "medium", "large"))


def rows_with(**accuracies):
    """Rows of the small network alone and of it beside the medium one."""
    names = {"small": (SMALL,), "pair": (SMALL, MEDIUM)}
    return [Compared(names[name], accuracy, 0, 0, 1) for name, accuracy in accuracies.items()]


TWO, THREE = ("small", "medium"), ("small", "medium", "large")
PREFERENCES = {
    "medium beside small if more images are right": (TWO, {"small": 0.7, "pair": 0.8}, (SMALL, MEDIUM)),
    "medium not for as many": (TWO, {"small": 0.7, "pair": 0.7}, (SMALL,)),
    "medium not without evidence": (TWO, {}, (SMALL,)),
    "large beside small whatever is found": (THREE, {"small": 0.7, "pair": 0.8}, (SMALL, LARGE)),
}


@each("case", PREFERENCES)
def test_preferred_is(case):
    tiers, accuracies, want = PREFERENCES[case]
    assert preferred(rows_with(**accuracies), tiers) == "+".join(want)


@each("better", (False, True))
def test_choices_are_what_suits_best_and_then_what_needs_less(better):
    def chosen(tiers, memory=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(networks, "tiers_here", lambda: tiers)
            patch.setattr(networks, "load_backbone", {"medium": OTHERS[0]}.get)
            patch.setattr(networks, "compared", lambda *_: rows_with(small=0.5, pair=0.5 + better))
            return list(networks.choices(FIRST, EPISODE.support, memory, 0, Device()))

    pair = f"{SMALL}+{MEDIUM}" if better else SMALL
    limit = TIERS["large"].budget
    assert chosen(["small"]) == [SMALL] and chosen(["small", "large"]) == [f"{SMALL}+{LARGE}", SMALL]
    assert chosen(["small", "medium", "large"], limit) == [f"{SMALL}+{LARGE}", pair, SMALL]
    assert chosen(["small", "medium", "large"], limit - 1) == chosen(["small", "medium"]) == [pair, SMALL]
