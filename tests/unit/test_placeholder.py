"""The backbone that the package carries, and the script that makes it."""

import hashlib

import numpy as np
import pytest

from tinytrain.blas import one_thread
from tinytrain.datasets.signs import generate, signs
from tinytrain.meta import placeholder, placeholder_card
from tinytrain.meta.placeholder_card import Embedder
from tinytrain.meta.placeholder_network import architecture, initial_network, quantised
from tinytrain.modelfile import load_network
from tinytrain.topology import check_network

BAR = 0.75  # five classes; random weights stay below 0.4


@pytest.fixture(scope="module")
def shipped():
    return load_network(placeholder.OUT)


@pytest.fixture(scope="module")
def pool():
    return placeholder.render(0, classes=range(48, 96), per_class=3, size=32)


def test_the_shipped_file_is_small_and_int8(shipped):
    assert placeholder.OUT.stat().st_size <= 200_000
    assert {w.dtype for w in shipped.weights} == {np.dtype(np.int8)}
    assert (shipped.name, shipped.layers) == ("placeholder", architecture())


def test_the_model_card_belongs_to_the_shipped_file():
    card = placeholder.OUT.with_suffix(".md").read_text()
    assert hashlib.sha256(placeholder.OUT.read_bytes()).hexdigest() in card
    assert f"--episodes {placeholder.EPISODES} --seed 0" in card
    assert "placeholder" in card


def test_no_class_of_the_default_domain_is_trained_on():
    assert not set(placeholder.CLASSES) & set(range(signs().n_classes))


def test_pictures_of_one_class_lie_closer_than_those_of_another(shipped):
    chosen = [(c, p) for c in (0, 17, 30) for p in range(4)]
    embeddings = Embedder(shipped)([generate(c, p, 0, 128) for c, p in chosen])
    assert np.isfinite(embeddings).all()
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    cosine, same = unit @ unit.T, np.equal.outer(*[[c for c, _ in chosen]] * 2)
    assert cosine[same].mean() > cosine[~same].mean() + 0.2


def test_it_tells_unseen_classes_apart_and_random_weights_do_not(shipped):
    sample = np.stack([generate(c, 0, 0, 128) for c in range(48, 64)])
    embedders = {
        "shipped": Embedder(shipped),
        "random": Embedder(initial_network(0, sample)),
    }
    with one_thread():
        found = placeholder_card.compare(embedders, signs(), episodes=8, queries=3)
    assert found["shipped"][0] > BAR > 0.4 > found["random"][0]


def test_training_twice_gives_the_same_network_and_another_seed_another(pool):
    def digest(seed):
        first = initial_network(seed, pool.pictures[:, 0])
        trained, episodes = placeholder.train(first, placeholder.Pool(pool.pictures, seed), 2)
        assert episodes == 2
        network = quantised(trained)
        check_network(network)
        return network.digest

    with one_thread():
        digests = [digest(0), digest(0), digest(1)]
    assert digests[0] == digests[1] != digests[2]


def test_a_step_moves_every_layer_by_the_gradient_of_support_and_queries(pool):
    first = initial_network(0, pool.pictures[:, 0])
    with one_thread():
        training = placeholder.Training(first, pool)
        training.step(0, 0.0)
    after = training.result()
    moved = [(w != v).any() for w, v in zip(first.weights, after.weights, strict=True)]
    assert all(moved)
    assert all(np.isfinite(w).all() for w in after.weights)


def test_class_means_come_from_the_support_pictures_of_the_episode_alone(pool):
    with one_thread():
        training = placeholder.Training(initial_network(0, pool.pictures[:, 0]), pool)
        for number in range(2):
            training.step(number, 0.0)
    trainer = training.trainer
    means = trainer.support.reshape(placeholder.WAY, placeholder.SHOTS, -1).mean(axis=1)
    np.testing.assert_allclose(trainer.prototypes, means, rtol=1e-6, atol=1e-6)


def test_every_channel_of_the_initial_network_starts_centred_with_variance_one(pool):
    """Checked by the engine: the mean embedding over the pictures it was initialised with is 0."""
    pictures = pool.pictures[:, 0]
    embeddings = Embedder(initial_network(0, pictures))(list(pictures))
    np.testing.assert_allclose(embeddings.mean(axis=0), 0, atol=1e-4)
    assert embeddings.std(axis=0).min() > 0.1


def test_int8_weights_are_the_nearest(pool):
    network = initial_network(0, pool.pictures[:, 0])
    rounded = quantised(network)
    for i, (weight, scale) in enumerate(zip(network.weights, rounded.scales, strict=True)):
        assert (np.abs(rounded.float_weight(i) - weight) <= 0.5001 * scale).all()
        assert np.abs(rounded.weights[i]).max(axis=0).min() == 127


def test_an_episode_shows_each_class_on_both_sides_with_different_pictures(pool):
    episode = pool.episode(3, alike=1.0)
    n_support = placeholder.WAY * placeholder.SHOTS
    assert len(episode) == n_support + placeholder.WAY * placeholder.QUERIES
    assert {p.shape for p in episode} == {(32, 32, 3)}
    assert len({p.tobytes() for p in episode}) == len(episode)


def test_ctrl_c_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(placeholder, "CLASSES", range(48, 60))
    monkeypatch.setattr(placeholder, "PER_CLASS", 2)
    monkeypatch.setattr(placeholder, "train", interrupted)
    assert placeholder.main(["--out", str(tmp_path / "net.safetensors"), "--episodes", "1"]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_refused_before_the_work(tmp_path, capsys):
    assert placeholder.main(["--out", str(tmp_path / "none" / "net.safetensors")]) == 6
    assert "is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--episodes", "0"], ["--minutes", "0"], ["--minutes", "nan"]])
def test_lengths_that_mean_nothing_are_usage_errors(wrong, capsys):
    with pytest.raises(SystemExit) as stop:
        placeholder.main(wrong)
    assert stop.value.code == 2
