"""Noise for differential privacy: as much as its budget needs by two oracles, in whole numbers, of use."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from commandline import tt
from devices import made_up
from headdata import embeddings

from tinytrain import kernels
from tinytrain.base.errors import UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.delta import Changes, Slice
from tinytrain.delta.file import decode_delta, encode_delta, load_delta, save_delta
from tinytrain.delta.merge import merge
from tinytrain.heads.moments import UNIT, Moments
from tinytrain.heads.triangle import unpacked
from tinytrain.trust.noise import DELTA, _noisy, delta_at, distance_for, private

WAY, SIZE = 4, 16
X, LABELS = embeddings(300, SIZE, way=WAY)
EPSILONS = (0.5, 1, 3, 8, 20)


def delta_of(n=300, **more):
    chosen = np.sort(np.argsort(LABELS, kind="stable").reshape(WAY, -1)[:, : n // WAY].ravel())
    return made_up(X[chosen], LABELS[chosen], **more)


@each("epsilon", EPSILONS)
def test_noise_is_just_enough_by_the_definition_of_privacy(epsilon):
    """The probability beyond exp(epsilon) times the other, integrated over what may be published."""
    distance = distance_for(epsilon)
    x = np.linspace(-12, 12 + distance, 400_001)
    without, there = (np.exp(-np.square(x - m) / 2) / math.sqrt(2 * math.pi) for m in (0, distance))
    beyond = np.trapezoid(np.maximum(there - math.exp(epsilon) * without, 0), x)
    assert beyond == pytest.approx(DELTA, rel=1e-3)
    assert delta_at(epsilon, 1.01 * distance) > DELTA >= delta_at(epsilon, distance)


def test_the_accountant_of_others_says_the_same_of_as_much_noise():
    name = "dp_accounting.pld.privacy_loss_distribution"
    losses = pytest.importorskip(name, reason="dp-accounting is not installed")
    for epsilon in EPSILONS:
        found = losses.from_gaussian_mechanism(1 / distance_for(epsilon)).get_epsilon_for_delta(DELTA)
        assert found == pytest.approx(epsilon, rel=5e-3)


@each("views", [1, 4])
def test_an_image_changes_the_sums_by_as_much_as_the_noise_is_for(views):
    size, many = 8, 10**6  # so that no mean gets too long
    nothing = Moments(np.full(3, many), np.zeros((3, size), int), np.zeros(size * (size + 1) // 2, int))
    drawn = [_noisy(nothing, views, 1.0, random.Random(k)) for k in range(200)]
    counts, sums = (np.array([getattr(m, name) for m in drawn], float) for name in ("counts", "sums"))
    for values in (counts - many, sums):
        assert values.mean() == pytest.approx(0, abs=4 * values.std() / math.sqrt(values.size))
    assert np.all((counts - many) % views == 0), "numbers of whole images"
    moved = (views / counts.std()) ** 2 + (views * UNIT / sums.std()) ** 2
    assert moved == pytest.approx(1, rel=0.1)


def test_how_images_vary_inside_of_classes_has_no_part_in_what_is_released():
    delta = delta_of()
    other = replace(delta, head=replace(delta.head, products=delta.head.products * 0))
    one, two = (encode_delta(private(d, 8, random.Random(3))) for d in (delta, other))
    assert one == two


def test_what_is_released_has_nothing_of_the_images_but_noisy_sums_and_can_be_read_and_merged():
    told = {"episode": {"kind": "sound", "files": 7}, "guard": {"left_out": 0.9}, "warnings": ["a.wav"]}
    delta = delta_of(8, report=told)
    assert delta.head.embeddings is not None and delta.head.left_out is not None
    found = private(delta, 8, random.Random(0))
    assert found.report == {"private": {"epsilon": 8, "delta": DELTA}, "episode": {"kind": "sound"}}
    assert found.head.embeddings is None and found.head.left_out is None
    again = decode_delta(*decode(encode_delta(found)))
    assert merge(kernels.load(), [again, delta_of()], ["a", "b"]).delta.head.total > 300


def test_noise_is_another_one_each_time_unless_a_test_gives_it():
    one, other = (encode_delta(private(delta_of(), 8)) for _ in range(2))
    assert one != other
    same = {encode_delta(private(delta_of(), 8, random.Random(1))) for _ in range(2)}
    assert len(same) == 1


def test_little_noise_leaves_the_answers_and_much_noise_takes_them():
    clean, right = delta_of(), {}
    for epsilon in (50, 8, 0.05):
        found = [private(clean, epsilon, random.Random(k)).head for k in range(5)]
        right[epsilon] = np.mean([(head.logits(X).argmax(axis=1) == LABELS).mean() for head in found])
    usual = (clean.head.logits(X).argmax(axis=1) == LABELS).mean()
    assert right[50] > usual - 0.02 and right[8] > usual - 0.1 and right[0.05] < 0.7


@each("epsilon", [0.05, 8])
def test_released_sums_are_some_that_embeddings_can_have(epsilon):
    for seed in range(5):
        moments = private(delta_of(), epsilon, random.Random(seed)).head.moments
        means = moments.sums / (moments.counts[:, None] * UNIT)
        assert np.linalg.norm(means, axis=1).max() < 1 + 1e-6
        whole = unpacked(moments.products / UNIT)
        whole += np.tril(whole, -1).T
        assert np.trace(whole) == pytest.approx(moments.counts.sum(), rel=1e-3)
        assert np.linalg.eigvalsh(whole - (means * moments.counts[:, None]).T @ means).min() > -1e-3


def test_what_noise_does_not_hide_is_refused():
    trained = [Slice(0, "bias", np.zeros(1, "i4"), np.zeros(1, "f4"))]
    for delta, text in (
        (delta_of(slices=trained), "has trained layers"),
        (delta_of(members=(Changes("0" * 64, "made up", ()),) * 2), "is for 2 networks"),
        (delta_of(arithmetic="noisy:0.1:3"), "is in noisy:0.1:3, not in float32"),
        (delta_of(kind="cosine"), "has no sums"),
        (merge(kernels.load(), [delta_of(), delta_of(32)], ["a", "b"]).delta, "merged of several deltas"),
    ):
        with pytest.raises(UsageError, match=f"unsupported: .*{text}"):
            private(delta, 8)


def test_a_delta_in_which_copies_were_not_counted_is_refused():
    """An image more or less may change which others count, so noise for one would not hide it."""
    names = [f"class {k}" for k in range(WAY)]
    counted = {"episode": {"classes": names, "shots": [75] * WAY}}
    assert private(delta_of(report=counted), 8).head.total
    burst = {"episode": {"classes": names, "shots": [75, 75, 75, 76]}}
    with pytest.raises(UsageError, match="look like copies of others are not counted"):
        private(delta_of(report=burst), 8)


def test_a_delta_leaves_the_device_with_noise_by_export(tmp_path, capsys):
    save_delta(tmp_path / "mine.safetensors", delta_of())
    words = ("export", tmp_path / "mine.safetensors", "--epsilon", "8", "-o")
    assert tt(*words, tmp_path / "shared.delta") == 0
    assert "epsilon 8 and delta 1e-05" in capsys.readouterr().out
    assert load_delta(tmp_path / "shared.delta").report["private"]["epsilon"] == 8
    for out, epsilon, text in (
        ("net.onnx", "8", "--epsilon"), ("x.delta", "0", "--epsilon"), ("x.delta", "51", "--epsilon"),
        ("x.delta", "nan", "--epsilon"),
    ):  # fmt: skip
        assert tt("export", tmp_path / "mine.safetensors", "--epsilon", epsilon, "-o", tmp_path / out) == 2
        assert text in capsys.readouterr().err and not (tmp_path / out).exists()
