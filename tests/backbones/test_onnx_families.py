"""Networks of the families that people have: imported, adapted, used to predict, and exported again."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each, quick

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")

from onnxmodels import FAMILIES, evaluated, save  # noqa: E402
from oracle import Oracle  # noqa: E402

from tinytrain.backbones.export.onnx_model import onnx_model  # noqa: E402
from tinytrain.backbones.onnx.check import embeddings, largest_difference, random_images  # noqa: E402
from tinytrain.backbones.onnx.convert import import_onnx  # noqa: E402
from tinytrain.base.errors import InputError  # noqa: E402
from tinytrain.datasets import sample_episode  # noqa: E402
from tinytrain.datasets.generated.leaves import leaves  # noqa: E402
from tinytrain.delta.file import load_delta, save_delta  # noqa: E402
from tinytrain.network.file import load_network, save_network  # noqa: E402
from tinytrain.pipeline.adapt import adapt  # noqa: E402
from tinytrain.plan.budget import Budget  # noqa: E402
from tinytrain.runtime.predict import Predictor  # noqa: E402

SIZE = 32
NAMES = pytest.mark.parametrize("name", FAMILIES)


def model_of(name, **options):
    """A model of a family, which ends with its embedding."""
    m, x, _ = FAMILIES[name](**options)
    return m.model(m.node("GlobalAveragePool", x), (1, 3, SIZE, SIZE))


def imported_from(model, folder):
    return import_onnx(save(model, folder), mean=(120, 110, 100), scale=(0.02, 0.018, 0.016))


@NAMES
def test_embeddings_are_those_of_the_model_also_after_a_file(tmp_path, name):
    model = model_of(name)
    imported = imported_from(model, tmp_path)
    save_network(imported.network, tmp_path / "net.safetensors")
    network, images = load_network(tmp_path / "net.safetensors"), random_images((SIZE, SIZE, 3))
    expected = evaluated(model, imported.fed, images)
    assert abs(expected).max() > 0.1 and network.input.rotated == (name == "padded at the end")
    assert largest_difference(embeddings(network, images), expected) < 1e-5
    assert largest_difference(Oracle(network).forward(images).embeddings, expected) < 1e-5


@NAMES
@pytest.mark.parametrize("policy", quick(["tinytrain", "full", "tinytrain_published", "trady"]))
def test_they_are_adapted_and_predict_and_are_exported(tmp_path, name, policy):
    network = imported_from(model_of(name), tmp_path).network
    budget = Budget(2**21, 0.15 if policy.startswith("tiny") else 10.0)
    report = adapt(network, sample_episode(leaves(), 3, 4, 4, 0), budget, policy, force=True)
    assert report.delta.slices
    save_delta(tmp_path / "delta.safetensors", report.delta)
    delta, query = load_delta(tmp_path / "delta.safetensors"), report.episode.query
    expected = Predictor(network, delta).probabilities(query)
    images = np.stack([query.image(i, network.input.shape) for i in range(len(expected))])
    runtime = pytest.importorskip("onnxruntime", reason="runs the exported file where it is installed")
    session = runtime.InferenceSession(onnx_model(network, delta), providers=["CPUExecutionProvider"])
    (found,) = session.run(["probabilities"], {"image": images})
    np.testing.assert_allclose(found, expected, atol=1e-4)


def beside(model, folder, change=lambda data: data, location="net.onnx.data"):
    """`model` in a file, its weights in another one, as PyTorch writes them; `change` damages those."""
    onnx.save_model(
        model, folder / "net.onnx", save_as_external_data=True, location=location, size_threshold=0
    )
    file = folder / location
    file.write_bytes(change(file.read_bytes()))
    return folder / "net.onnx"


def test_weights_in_a_second_file_beside_the_model_are_read(tmp_path):
    plain = import_onnx(save(model_of("residual"), tmp_path, "plain.onnx")).network
    again = import_onnx(beside(model_of("residual"), tmp_path))
    assert again.network.digest == plain.digest
    assert not any(t.external_data for t in again.graph.model.graph.initializer)


@pytest.mark.parametrize(
    ("code", "words", "how"),
    [
        ("unsupported", "in another file than net.onnx.data beside it", {"location": "other.bin"}),
        ("file-damaged", "the weights go up to", {"change": lambda data: data[:-1]}),
        ("file-damaged", "net.onnx.data holds 0 bytes", {"change": lambda data: b""}),
    ],
)
def test_a_second_file_that_is_another_or_too_short_is_refused(tmp_path, code, words, how):
    with pytest.raises(InputError, match=words) as caught:
        import_onnx(beside(model_of("residual"), tmp_path, **how))
    assert caught.value.code == code


def test_a_second_file_that_is_missing_is_named(tmp_path):
    path = beside(model_of("residual"), tmp_path)
    (tmp_path / "net.onnx.data").unlink()
    with pytest.raises(InputError, match=r"net\.onnx\.data does not exist") as caught:
        import_onnx(path)
    assert caught.value.code == "file-missing"


@each("key, value", [("offset", "-1"), ("length", "x"), ("length", "9" * 30), ("offset", "²")])
def test_places_that_are_no_numbers_are_refused(tmp_path, key, value):
    path = beside(model_of("separable"), tmp_path)
    model = onnx.load(path, load_external_data=False)
    facts = model.graph.initializer[0].external_data
    next(entry for entry in facts if entry.key == key).value = value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="cannot be read") as caught:
        import_onnx(path)
    assert caught.value.code == "file-damaged"


def test_layers_and_blocks_of_a_residual_network_are_recognised(tmp_path):
    network = imported_from(model_of("residual"), tmp_path).network
    layers = network.layers
    assert [layer.name for layer in layers] == [
        "stem", "block0.conv", "block0.conv2", "block1.conv", "block1.conv2", "block1.shortcut",
        "block2.conv", "block2.conv2",
    ]  # fmt: skip
    assert {layer.name: layer.inputs for layer in layers if layer.adds} == {
        "block0.conv2": ("block0.conv", "stem.max_pool"),
        "block1.shortcut": ("block0.conv2", "block1.conv2"),
        "block2.conv2": ("block2.conv", "block1.shortcut"),
    }
    assert [layer.activation for layer in layers] == ["relu"] * 4 + [None] + ["relu"] * 3
    pool = network.nodes[1]
    assert (pool.op, pool.in_hw, pool.out_hw) == ("max-pool", (16, 16), (8, 8))


def test_every_layer_behind_the_pooling_is_dropped_and_named(tmp_path):
    m, x, channels = FAMILIES["excited"]()
    y = m.conv_act(m.node("GlobalAveragePool", x), channels, 20, "HardSwish")
    weight = m.constant(np.ones((5, 20), np.float32))
    model = m.model(m.node("Gemm", m.node("Flatten", y), weight, transB=1), (1, 3, SIZE, SIZE))
    imported = import_onnx(save(model, tmp_path))
    assert imported.network.embedding_size == channels
    assert [name.split()[0] for name in imported.dropped] == [
        "Conv",
        "BatchNormalization",
        "HardSwish",
        "Gemm",
    ]
    assert replace(imported.network.layers[-1], name="") == replace(
        imported_from(model_of("excited"), tmp_path).network.layers[-1], name=""
    )
