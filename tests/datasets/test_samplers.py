import os
import subprocess
import sys

import numpy as np
import pytest
from cases import each

from tinytrain.base.errors import InputError, UsageError
from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.packs import load_pack
from tinytrain.datasets.samplers import meta_dataset_sizes, sample_episode, sample_meta_dataset_episode

needs_packs = pytest.mark.skipif("TINYTRAIN_DATA" not in os.environ, reason="TINYTRAIN_DATA names no packs")


def dataset(*sizes, groups=None, families=None):
    """Classes of those sizes; an image's name is its place in its class."""
    labels = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    return Dataset(
        name="made",
        labels=labels,
        class_names=tuple(f"c{i}" for i in range(len(sizes))),
        names=tuple(str(i) for n in sizes for i in range(n)),
        read=lambda i, size: np.full((size, size, 3), i % 256, np.uint8),
        groups=None if groups is None else np.array(groups, dtype=np.int32),
        families=None if families is None else np.array(families, dtype=np.int32),
    )


def counts(images, n_way):
    return np.bincount(images.labels, minlength=n_way)


def test_an_episode_has_the_ways_shots_and_queries_asked_for():
    episode = sample_episode(dataset(20, 20, 20, 20), 3, 5, 7, seed=0)
    assert episode.shots.tolist() == [5, 5, 5]
    assert counts(episode.query, 3).tolist() == [7, 7, 7]
    assert len(set(episode.class_names)) == 3


def test_labels_point_to_the_class_the_image_is_of():
    made = dataset(30, 30, 30)
    episode = sample_episode(made, 3, 4, 4, seed=1)
    for images in (episode.support, episode.query):
        for i, label in enumerate(images.labels):
            pixel = images.read(i, 1)[0, 0, 0]
            assert made.class_names[made.labels[pixel]] == episode.class_names[label]


def test_no_image_is_drawn_twice():
    for index in range(50):
        episode = sample_episode(dataset(12, 12, 12), 3, 5, 7, 0, index)
        drawn = [episode.support.read(i, 1)[0, 0, 0] for i in range(15)]
        drawn += [episode.query.read(i, 1)[0, 0, 0] for i in range(21)]
        assert len(set(drawn)) == 36


def test_seed_and_index_name_the_episode():
    made = dataset(*[20] * 8)
    digests = {(s, i): sample_episode(made, 5, 2, 2, s, i).digest for s in range(3) for i in range(3)}
    assert len(set(digests.values())) == 9
    assert sample_episode(made, 5, 2, 2, 2, 1).digest == digests[2, 1]


def test_episodes_are_the_same_in_every_process():
    code = (
        "from tinytrain.datasets import open_dataset, sample_episode, sample_meta_dataset_episode as meta;"
        "d = open_dataset('signs'); print(sample_episode(d, 5, 5, 10, 3, 17).digest, meta(d, 3, 17).digest)"
    )
    command = [sys.executable, "-c", code]
    runs = [subprocess.check_output(command, env={"PYTHONHASHSEED": h}, text=True) for h in "12"]
    assert runs[0] == runs[1]
    assert runs[0].split() == ["46ea15d9051789e8", "56b75761efd8183d"]


def test_classes_with_too_few_images_are_not_drawn():
    made = dataset(3, 20, 20, 4, 20)
    for index in range(20):
        assert set(sample_episode(made, 3, 2, 3, 0, index).class_names) == {"c1", "c2", "c4"}


def test_too_few_classes_or_images_are_refused_with_numbers():
    with pytest.raises(InputError, match=r"2 of 3 classes with 5 \+ 10 images, 3 are needed") as caught:
        sample_episode(dataset(20, 14, 15), 3, 5, 10, seed=0)
    assert caught.value.code == "too-few-images"


@pytest.mark.parametrize("way, shots, queries", [(1, 5, 5), (5, 0, 5), (5, 5, -1)])
def test_numbers_that_mean_nothing_are_a_usage_error(way, shots, queries):
    with pytest.raises(UsageError, match=f"{way} ways, {shots} shots, {queries} queries"):
        sample_episode(dataset(*[20] * 5), way, shots, queries, seed=0)


def test_an_episode_may_have_no_queries():
    grouped = dataset(6, 6, groups=[0, 0, 0, 1, 1, 1] * 2)
    for made in (dataset(6, 6), grouped):
        episode = sample_episode(made, 2, 6, 0, seed=0)
        assert len(episode.support) == 12 and len(episode.query) == 0


def groups_of(images, groups):
    return {int(groups[images.read(i, 1)[0, 0, 0]]) for i in range(len(images))}


def test_groups_across_classes_stay_on_one_side():
    speakers = np.tile(np.repeat(np.arange(6), 5), 3)
    made = dataset(30, 30, 30, groups=speakers)
    for index in range(100):
        for episode in (sample_episode(made, 3, 5, 10, 0, index), sample_episode(made, 2, 9, 1, 0, index)):
            assert not groups_of(episode.support, speakers) & groups_of(episode.query, speakers)


def test_groups_of_very_different_size_are_split_so_that_both_sides_suffice():
    groups = [0] * 11 + [1] * 5 + [2] * 2 + [3] * 12 + [4] * 6
    made = dataset(18, 18, groups=groups)
    for index in range(50):
        episode = sample_episode(made, 2, 5, 10, 0, index)
        assert episode.shots.tolist() == [5, 5] and counts(episode.query, 2).tolist() == [10, 10]
        assert not groups_of(episode.support, groups) & groups_of(episode.query, groups)


def test_groups_do_not_make_the_support_less_varied_than_a_draw_of_single_images():
    groups = np.tile(np.repeat(np.arange(10), 5), 2) + np.repeat([0, 10], 50)
    made = dataset(50, 50, groups=groups)
    seen = [len(groups_of(sample_episode(made, 2, 5, 10, 0, i).support, groups)) / 2 for i in range(200)]
    # Five of 50 images in groups of 5 come from 10 * (1 - C(45,5)/C(50,5)) = 4.23 groups on average.
    assert np.mean(seen) == pytest.approx(4.23, abs=0.1)


def test_a_class_of_one_group_is_refused_with_the_number():
    made = dataset(20, 20, groups=[0] * 20 + [1] * 10 + [2] * 10)
    with pytest.raises(InputError, match=r"'c0' of 'made' has 1 groups") as caught:
        sample_episode(made, 2, 5, 5, seed=0)
    assert caught.value.code == "too-few-images"


@needs_packs
@each(("name", "group"), [("gtsrb", ("labels", "track")), ("fsdd_logmel", ("speaker",))])
def test_no_physical_sign_and_no_speaker_is_ever_on_both_sides(name, group):
    made = load_pack(name)
    with np.load(os.path.join(os.environ["TINYTRAIN_DATA"], f"{name}.npz"), allow_pickle=False) as pack:
        groups = list(zip(*(pack[part].tolist() for part in group), strict=True))

    def seen(images):
        return {groups[int(name.split("/")[1])] for name in images.names}

    episodes = [sample_episode(made, 5, 5, 10, 0, i) for i in range(200)]
    episodes += [sample_meta_dataset_episode(made, 0, i) for i in range(50)]
    for episode in episodes:
        assert not seen(episode.support) & seen(episode.query)


class Scripted:
    """A generator whose draws are known: beta 0.5 and equal weights."""

    def random(self):
        return 0.5

    def uniform(self, low, high, n):
        assert np.allclose((low, high), (np.log(0.5), np.log(2)))
        return np.zeros(n)


def test_the_meta_dataset_formula_by_hand():
    shots, queries = meta_dataset_sizes(np.array([20, 40, 220]), 500, Scripted())
    assert queries == 10
    # floor(.5 * min(100, n - 10) + 1) = 6 + 16 + 51 = 73; shares of 70 by n: 5, 10, 55
    assert shots.tolist() == [6, 11, 56]


def test_the_meta_dataset_formula_respects_its_bounds():
    rng = np.random.default_rng(0)
    for _ in range(500):
        n = rng.integers(2, 400, rng.integers(5, 51))
        shots, queries = meta_dataset_sizes(n, 500, rng)
        assert queries == min(10, n.min() // 2)
        assert (shots >= 1).all() and (shots <= n - queries).all()
        assert len(n) <= shots.sum() <= 500


def test_ways_are_uniform_between_5_and_the_smaller_of_50_and_the_classes():
    made = dataset(*[4] * 9)
    ways = [sample_meta_dataset_episode(made, 0, i).n_way for i in range(400)]
    share = np.bincount(ways, minlength=10)[5:] / 400
    assert len(share) == 5 and np.abs(share - 0.2).max() < 0.07
    many = [sample_meta_dataset_episode(dataset(*[4] * 70), 0, i).n_way for i in range(200)]
    assert min(many) >= 5 and 45 < max(many) <= 50


def test_meta_dataset_queries_are_balanced_and_the_support_is_capped():
    made = dataset(*[100] * 12)
    for index in range(40):
        episode = sample_meta_dataset_episode(made, 0, index, max_support=60)
        assert set(counts(episode.query, episode.n_way)) == {10}
        assert len(episode.support) <= 60


def test_a_dataset_with_families_draws_its_classes_from_one():
    families = np.repeat(np.arange(4), [8, 3, 6, 9])
    made = dataset(*[6] * 26, families=families)
    seen = set()
    for index in range(60):
        episode = sample_meta_dataset_episode(made, 0, index)
        of = {int(families[int(name[1:])]) for name in episode.class_names}
        assert len(of) == 1
        seen |= of
    assert seen == {0, 2, 3}  # family 1 is too small


def test_the_meta_dataset_sampler_refuses_what_is_too_small():
    with pytest.raises(InputError, match="has 4 classes") as caught:
        sample_meta_dataset_episode(dataset(9, 9, 9, 9), 0)
    assert caught.value.code == "too-few-classes"
    with pytest.raises(InputError, match="may hold 4") as caught:
        sample_meta_dataset_episode(dataset(*[9] * 6), 0, max_support=4)
    with pytest.raises(InputError, match="1 image") as caught:
        sample_meta_dataset_episode(dataset(*[1] * 6), 0)
    assert caught.value.code == "too-few-images"


@each("shots, queries", [(5, 10), (1, 1), (20, 0), (10, 10)])
def test_without_groups_the_draw_is_that_of_groups_of_one(shots, queries):
    alone, grouped = dataset(20, 31, 25), dataset(20, 31, 25, groups=range(76))
    for k in range(10):
        a, b = (sample_episode(d, 3, shots, queries, 1, k) for d in (alone, grouped))
        assert a.digest == b.digest
        a, b = (
            sample_meta_dataset_episode(dataset(20, 31, 25, 9, 2, groups=g), 1, k) for g in (None, range(87))
        )
        assert a.digest == b.digest
