"""`check`: its estimate is that of `adapt`, and what it says of classes and images is planted in them."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cases import each
from headdata import unit, unit32
from toydevices import ONE

from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.generated.leaves import leaves
from tinytrain.datasets.samplers import sample_episode
from tinytrain.episode.episode import Images
from tinytrain.episode.input_facts import Duplicate
from tinytrain.heads.registry import HEADS
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.check import check, embed, left_out_rows, with_adaptations
from tinytrain.pipeline.learning_curve import LEAST, expected_gain
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.policies.registry import find_policy
from tinytrain.runtime.device import Device
from tinytrain.runtime.predict import Predictor

BIG = Budget(memory=2**22)


def planted(seed=0, way=3, shots=10, spread=0.3, close=None, size=24):
    """Embeddings of length 1 around orthogonal classes; classes `close` lie closer to each other."""
    rng = np.random.default_rng(seed)
    centres = np.eye(way, size)
    if close:
        a, b = close
        centres[b] = 0.9 * centres[a] + 0.44 * centres[b]
    labels = np.repeat(np.arange(way), shots)
    x = centres[labels] + spread * rng.standard_normal((len(labels), size))
    return unit32(x), labels.astype(np.int32)


@pytest.fixture
def found_of(monkeypatch):
    """`check` of embeddings as they are given: the network is not asked."""

    def run(embeddings, labels, names=None):
        names = names or tuple(f"class {k}" for k in range(labels.max() + 1))
        images = Images(labels, tuple(f"{i}.jpg" for i in range(len(labels))), lambda i, size: None)
        monkeypatch.setattr("tinytrain.pipeline.check.embed", lambda *_: embeddings)
        return check(toy_network(), replace_support(images, names))

    return run


def replace_support(images, names):
    made = toy_episode(len(names), 2, 0)
    return replace(made, support=images, class_names=names)


def test_embeddings_are_those_of_a_predictor_whatever_the_threads():
    network, episode = toy_network(), toy_episode(3, 30, 0)
    seen = Predictor(network, adapt(network, episode, BIG, "none").delta).embed(episode.support)
    for threads in (1, 2, 4):
        np.testing.assert_array_equal(embed(network, episode.support, Device(threads=threads)), unit(seen))


def test_the_estimate_is_that_of_adapt_without_held_out_images():
    ends = []
    for seed in range(6):
        network, episode = toy_network(), toy_episode(3, 8, 0, seed)
        found, estimate = check(network, episode).estimate, adapt(network, episode, BIG, "none").estimate
        ends += [(e.low, e.accuracy, e.high) for e in (found, estimate)]
        assert replace(found, accuracy=0, low=0, high=0) == replace(estimate, accuracy=0, low=0, high=0)
    # adapt cached the features in 8 bits: one image or two may look otherwise.
    assert np.mean(np.abs(np.subtract(ends[::2], ends[1::2]))) < 0.1


def test_a_dataset_is_checked_like_the_episode_of_all_its_images():
    episode = toy_episode(3, 6, 0)
    support = episode.support
    dataset = Dataset("toy", support.labels, episode.class_names, support.names, support.read)
    one, other = (check(toy_network(), source).to_json() for source in (episode, dataset))
    assert one == other and json.loads(json.dumps(one, allow_nan=False)) == one


def test_queries_are_not_looked_at():
    episode = toy_episode(3, 6, 8)
    alone = replace(episode, query=episode.query.take([]))
    assert check(toy_network(), episode).to_json() == check(toy_network(), alone).to_json()


def test_the_planted_pair_of_classes_is_the_one_that_is_confused_and_images_are_those_of_it(found_of):
    for close in ((0, 2), (1, 3)):
        found = found_of(*planted(way=4, close=close, spread=0.2))
        names = tuple(f"class {k}" for k in close)
        assert found.confused.classes == names and found.next_class.name in names
        ends = [(10 * k, 10 * k + 10) for k in close]
        indices = [int(name.removesuffix(".jpg")) for name in found.confused.images]
        assert indices and all(any(a <= i < b for a, b in ends) for i in indices)


def test_nothing_is_confused_where_every_image_is_closest_to_its_own_class(found_of):
    found = found_of(*planted(spread=0.02))
    assert found.confused is None and found.suspects == () and found.estimate.accuracy == 1
    assert found.next_class.errors == 0 and found.next_class.like is None


def test_a_moved_image_is_a_suspect_and_does_not_shape_the_learning_curve(found_of):
    embeddings, labels = planted(spread=0.1)
    clean = found_of(embeddings, labels)
    labels = labels.copy()
    labels[4] = 2
    found = found_of(embeddings, labels)
    assert [s.name for s in found.suspects] == ["4.jpg"] and found.suspects[0].looks_like == "class 0"
    assert found.gain.gain == pytest.approx(clean.gain.gain, abs=0.01)


def test_a_class_of_a_single_image_comes_next_and_the_accuracy_is_unknown(found_of):
    embeddings, labels = planted()
    kept = np.r_[0:10, 10:20, 20]
    found = found_of(embeddings[kept], labels[kept])
    assert found.next_class == type(found.next_class)("class 2", 1, 0, None)
    assert (
        found.estimate.accuracy is None
        and found.gain is None
        and "'class 2' has 1 image" in found.estimate.why
    )


def test_copies_of_images_do_not_count_as_more_of_them(found_of):
    embeddings, labels = planted(shots=4, spread=0.25, size=96)
    once = found_of(embeddings, labels)
    again = np.repeat(np.arange(len(labels)), 3)
    assert once.gain.gain > 0.02
    assert found_of(embeddings[again], labels[again]).gain == once.gain


def test_duplicates_of_the_episode_are_handed_on():
    pair = Duplicate(("a", "b"), ("class 0", "class 0"), "one class")
    episode = replace(toy_episode(3, 4, 0), duplicates=(pair,))
    assert check(toy_network(), episode).to_json()["duplicates"] == [pair.to_json()]


def test_more_images_are_expected_to_bring_more_where_classes_overlap_and_images_are_few():
    gains = {
        (spread, shots): np.mean([expected_gain(*planted(seed, 5, shots, spread)).gain for seed in range(10)])
        for spread in (0.05, 0.4)
        for shots in (4, 20)
    }
    assert gains[0.4, 4] > gains[0.4, 20] + 0.02 > gains[0.05, 20]
    assert all(gain >= 0 for gain in gains.values())


def test_the_expected_gain_is_about_what_more_images_of_the_same_kind_bring():
    expected, real = [], []
    for seed in range(30):
        x, y = planted(seed, 5, 60, 0.4)
        rank = np.arange(60 * 5) % 60
        few, more, rest = rank < 5, rank < 10, rank >= 10
        found = expected_gain(x[few], y[few])
        right = [(x[rest] @ means_of(x[k], y[k]).T).argmax(axis=1) == y[rest] for k in (few, more)]
        expected.append(found.gain)
        real.append(right[1].mean() - right[0].mean())
        assert found.low < found.gain < found.high
    assert np.mean(expected) == pytest.approx(np.mean(real), abs=0.03) and np.mean(real) > 0.03


def means_of(x, y):
    return unit(np.stack([x[y == k].mean(axis=0) for k in range(y.max() + 1)]))


def test_too_few_images_say_nothing_about_more():
    assert (
        expected_gain(*planted(shots=LEAST - 1)) is None and expected_gain(*planted(shots=LEAST)) is not None
    )


def test_rows_do_not_depend_on_how_many_are_compared_at_once(monkeypatch):
    x, y = planted(shots=20)
    whole, repeats = left_out_rows(x, y)
    monkeypatch.setattr("tinytrain.pipeline.check.BATCH", 12)
    rows, same = left_out_rows(x, y)
    np.testing.assert_allclose(rows[:, :4], whole[:, :4], atol=1e-5)
    assert same.repeated == repeats.repeated and (same.copies == repeats.copies).all()


def in_bursts(episode, times=3, brighter=4):
    """Every support image `times` times, each a little `brighter` than the one before."""
    support, n = episode.support, len(episode.support)
    images = Images(
        np.tile(support.labels, times),
        tuple(f"{name} {k}" for k in range(times) for name in support.names),
        lambda i, size: np.clip(support.read(i % n, size).astype(int) + brighter * (i // n), 0, 255).astype(
            np.uint8
        ),
    )
    return replace(episode, support=images)


def test_a_burst_is_seen_through_by_check_and_by_adapt():
    network = load_backbone(SHIPPED.name)
    single = sample_episode(leaves(), 6, 4, 0, 2)
    for episode, least, most in ((single, 0, 0.05), (in_bursts(single), 0.1, 1)):
        found = check(network, episode)
        report = adapt(network, episode, None, "none", device=ONE)
        assert least <= found.left_out.repeated <= most
        assert report.guard.left_out.repeated == pytest.approx(found.left_out.repeated, abs=0.06)
        assert report.estimate.accuracy == pytest.approx(found.estimate.accuracy, abs=0.1)


@each("kind", sorted(HEADS))
def test_a_head_of_copies_is_that_of_the_images_with_its_limit_and_temperature(kind):
    network, single = load_backbone(SHIPPED.name), sample_episode(leaves(), 3, 3, 0, 2, 4)
    policy = find_policy("none").with_head(kind)
    once, again = (
        adapt(network, episode, None, policy, device=ONE).delta.head
        for episode in (single, in_bursts(single, 3, brighter=0))
    )
    if once.method.sees_every_view:  # the augmented views of an image follow from its place: they differ
        assert again.counts.tolist() == once.counts.tolist() and again.views == once.views
        return
    for name, values in once.tensors().items():
        np.testing.assert_allclose(again.tensors()[name], values, rtol=1e-3, atol=1e-4, err_msg=name)
    assert again.temperature == pytest.approx(once.temperature, rel=1e-3)
    assert again.left_out == pytest.approx(once.left_out)
    assert (again.limit or (0, 0))[:2] == pytest.approx((once.limit or (0, 0))[:2], rel=1e-3)


def test_a_class_of_nothing_but_one_burst_leaves_the_accuracy_unknown_and_says_why():
    network, single = load_backbone(SHIPPED.name), sample_episode(leaves(), 3, 1, 0, 2)
    episode = in_bursts(single, 4)
    report, found = adapt(network, episode, None, "none", device=ONE), check(network, episode)
    for estimate in (report.estimate, found.estimate):
        assert estimate.accuracy is None and "has 1 image and 3 that nearly repeat it" in estimate.why
    alone = adapt(network, single, None, "none", device=ONE).delta.head
    assert report.delta.head.limit.least == pytest.approx(alone.limit.least, abs=0.05), "as of single images"


def test_every_image_is_judged_by_one_adaptation_that_did_not_see_it():
    network, episode, seen = toy_network(), toy_episode(3, 7, 0), []

    def adapted(part):
        assert not set(part.support.names) & set(part.query.names) and set(part.support.labels) == {0, 1, 2}
        seen.extend(part.query.names)
        return adapt(network, part, BIG, "last_layer", device=ONE)

    found = with_adaptations(check(network, episode), episode, adapted)
    assert sorted(seen) == sorted(episode.support.names)
    e = found.estimate
    assert (e.method, e.network, e.n, e.folds) == ("cross-validation", "adapted", 21, 3)
    assert e.low <= e.accuracy <= e.high


def test_folds_are_drawn_by_the_seed():
    network, episode = toy_network(), toy_episode(3, 6, 0)
    drawn = []
    for seed in (0, 0, 1):
        names = []

        def adapted(part, names=names):
            names.append(part.query.names)
            return adapt(network, part, BIG, "none", device=ONE)

        with_adaptations(check(network, episode), episode, adapted, seed)
        drawn.append(names)
    assert drawn[0] == drawn[1] != drawn[2]


def test_shuffled_labels_are_not_promised_to_be_learned_by_real_adaptations_either():
    network, episode = toy_network(), toy_episode(3, 10, 0)
    labels = rng_for(3).permutation(episode.support.labels).astype(np.int32)
    shuffled = replace(episode, support=replace(episode.support, labels=labels))
    adapted = partial(adapt, network, budget=BIG, policy="last_layer", force=True, device=ONE)
    found = check(network, shuffled)
    assert found.estimate.accuracy < 0.6
    assert with_adaptations(found, shuffled, adapted).estimate.accuracy < 0.65


def test_one_class_is_refused():
    images = toy_episode(2, 3, 0).support
    dataset = Dataset("toy", np.zeros(6, np.int32), ("a",), images.names, images.read)
    with pytest.raises(InputError, match="at least 2"):
        check(toy_network(), dataset)
