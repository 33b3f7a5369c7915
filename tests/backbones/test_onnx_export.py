"""An exported ONNX file classifies by itself, and says what `Predictor` says."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import toynets
from onnx.reference import ReferenceEvaluator
from published import published_network

from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.load import load_backbone
from tinytrain.backbones.onnx.export import export_onnx, onnx_model
from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.datasets import sample_episode
from tinytrain.datasets.generated.leaves import leaves
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Images
from tinytrain.heads import cosine
from tinytrain.network.input_spec import InputSpec
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.runtime.predict import Predictor

CLOSE = 1e-5


def answers(data: bytes, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, classes) and labels (n,) that onnxruntime computes."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(["probabilities", "label"], {"image": images})


def colourful(shape, count: int) -> np.ndarray:
    """(count, *shape) uint8: noise around a colour of each image, so that embeddings differ much."""
    rng = rng_for(0, "colourful")
    colours = rng.uniform(0, 255, (count, 1, 1, shape[-1]))
    return np.clip(colours + rng.normal(0, 30, (count, *shape)), 0, 255).astype(np.uint8)


def given_as(images: np.ndarray) -> Images:
    names = tuple(str(i) for i in range(len(images)))
    return Images(np.zeros(len(images), np.int32), names, lambda i, size: images[i])


def untrained(network, images=None, way=3) -> Delta:
    """A delta that changes nothing, whose head tells the first images apart, around the mean of all."""
    images = colourful(network.input.shape, 20) if images is None else images
    zeros, counts = np.zeros((way, network.embedding_size), "f"), np.ones(way, np.int32)
    head = cosine.CosineHead(cosine.METHOD, zeros, np.zeros(way, "f"), zeros, counts)
    delta = Delta(network.digest, network.name, (), head, tuple(f"class {k}" for k in range(way)), {})
    embeddings = Predictor(network, delta).embed(given_as(images))
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    weights = unit[:way] - unit.mean(axis=0)
    logits = (unit - unit.mean(axis=0)) @ weights.T
    head = replace(
        head, weights=weights, offsets=-weights @ unit.mean(axis=0), temperature=float(logits.std()) / 2
    )
    return replace(delta, head=head)


def largest_difference(network, delta, images: np.ndarray) -> float:
    expected = Predictor(network, delta).probabilities(given_as(images))
    found, labels = answers(onnx_model(network, delta), images)
    assert labels.tolist() == [delta.class_names[k] for k in expected.argmax(axis=1)]
    assert len(set(labels.tolist())) > 1 and expected.std() > 0.1, "not one answer to everything"
    return float(np.abs(found - expected).max())


def difference_untrained(network, count: int = 50) -> float:
    images = colourful(network.input.shape, count)
    return largest_difference(network, untrained(network, images), images)


BACKBONES = [SHIPPED.name, "mcunet-5fps"]


@pytest.mark.parametrize("policy,head", [("tinytrain", "lda"), ("tinytrain_published", "cosine")])
@pytest.mark.parametrize("name", BACKBONES)
def test_a_hundred_images_get_the_probabilities_of_the_predictor(name, policy, head):
    network = load_backbone(name) if name == SHIPPED.name else published_network(name)
    episode = sample_episode(leaves(), 5, 2, 20, 0)
    report = adapt(network, episode, Budget(), policy, force=True)
    assert report.delta.slices and report.delta.head.kind == head
    images = np.stack([episode.query.image(i, network.input.shape) for i in range(100)])
    assert largest_difference(network, report.delta, images) < CLOSE


@pytest.mark.parametrize("name", ["blocks", "headed"])
def test_every_kind_of_layer_is_exported(name):
    assert difference_untrained(toynets.toy(name)) < CLOSE


@pytest.mark.parametrize("chosen", [None, [0], [2, 1]])
def test_lite_residual_modules_are_exported(chosen):
    network = toynets.modules_of(toynets.toy("blocks"), chosen)
    assert len(network.modules) == (len(network.possible_modules) if chosen is None else len(chosen))
    assert difference_untrained(network) < CLOSE


@pytest.mark.parametrize("size", [15, 17, 19])
def test_sides_that_are_no_multiple_of_anything_are_exported(size):
    assert difference_untrained(toynets.modules_of(toynets.toy("blocks", size))) < CLOSE


@pytest.mark.parametrize(
    "spec",
    [
        InputSpec((16, 20, 3), mean=(123.675, 116.28, 103.53), scale=(1 / 58.395, 1 / 57.12, 1 / 57.375)),
        InputSpec((16, 16, 1), mean=30.0, scale=1 / 60),
    ],
    ids=["wide", "grey"],
)
def test_preprocessing_is_inside(spec):
    assert difference_untrained(toynets.toy("blocks", spec=spec)) < CLOSE


def test_trained_slices_of_every_kind_are_inside():
    network, episode = toy_network(), toy_episode(queries=20)
    for policy in ("full", "tinytl", "trady", "bias_only"):
        report = adapt(network, episode, Budget(2**23, 10.0), policy, force=True)
        images = np.stack([episode.query.image(i, network.input.shape) for i in range(60)])
        assert largest_difference(network, report.delta, images) < CLOSE


def test_the_evaluator_of_the_standard_agrees():
    network, images = toynets.toy("blocks"), colourful((16, 16, 3), 5)  # it has no DequantizeLinear of 13
    delta = untrained(network, images)
    data, expected = onnx_model(network, delta), Predictor(network, delta).probabilities(images)
    found, labels = ReferenceEvaluator(onnx.load_model_from_string(data)).run(None, {"image": images})
    assert np.abs(found - expected).max() < CLOSE
    assert list(labels) == [f"class {k}" for k in expected.argmax(axis=1)]


def test_the_file_says_what_it_takes_and_what_it_answers():
    network = toynets.toy("blocks", spec=InputSpec((16, 20, 3)))
    delta = replace(untrained(network), class_names=("Äpfel", 'a "quoted" name', "日本"))
    data = onnx_model(network, delta)
    assert onnx_model(network, delta) == data, "the same bytes every time"
    model = onnx.load_model_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(facts["tinytrain.classes"]) == list(delta.class_names)
    image = json.loads(facts["tinytrain.image"])
    assert (image["height"], image["width"], image["layout"], image["channels"]) == (16, 20, "NHWC", "RGB")
    assert facts["tinytrain.backbone_digest"] == network.digest
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (given,), (probabilities, label) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type, given.shape) == ("image", "tensor(uint8)", ["n", 16, 20, 3])
    assert (probabilities.type, probabilities.shape) == ("tensor(float)", ["n", 3])
    assert (label.type, label.shape) == ("tensor(string)", ["n"])
    assert session.get_modelmeta().custom_metadata_map == facts
    for count in (1, 7):
        images = toynets.images_of((16, 20, 3), count)
        assert set(session.run(["label"], {"image": images})[0]) <= set(delta.class_names)


def test_weights_of_eight_bits_stay_so():
    network = load_backbone(SHIPPED.name)
    size = len(onnx_model(network, untrained(network)))
    assert network.n_weights < size < 1.3 * network.n_weights


def test_nothing_is_written_for_another_backbone_or_without_the_package(tmp_path, monkeypatch):
    network = toy_network()
    with pytest.raises(InputError, match="wrong-backbone"):
        export_onnx(network, untrained(toy_network(seed=3)), tmp_path / "a.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match=r"onnx-missing: .*pip install"):
        export_onnx(network, untrained(network), tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())
