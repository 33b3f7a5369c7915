"""Quantised ONNX models become int8 networks that compute the same codes as onnxruntime."""

import json

import numpy as np
import pytest
from cases import each

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="quantises the models that are imported")

from commandline import tt  # noqa: E402
from integernet import Integers  # noqa: E402
from onnxmodels import Maker, excited, residual, save, universal  # noqa: E402
from onnxmodels import mobile as onnxmodels_mobile  # noqa: E402
from onnxruntime.quantization import QuantFormat, QuantType  # noqa: E402
from qdqmodels import MEAN, SCALE, SIDE, mobile, quantise, quantised_mobile, random_input  # noqa: E402
from toyfiles import write_images  # noqa: E402

from tinytrain.backbones.onnx import check  # noqa: E402
from tinytrain.backbones.onnx.convert import import_onnx  # noqa: E402
from tinytrain.base.errors import InputError  # noqa: E402
from tinytrain.delta.file import load_delta  # noqa: E402
from tinytrain.network.file import load_network  # noqa: E402

INT8, UINT8 = QuantType.QInt8, QuantType.QUInt8
LEFT = "activations left in the graph"
KINDS = {
    "scales of channels": {},
    "one scale for a weight": {"per_channel": False},
    "codes from 0 to 255": {"activation_type": UINT8},
    LEFT: {"extra_options": {"QDQKeepRemovableActivations": True}},
    "weights quantised in the graph": {"extra_options": {"AddQDQPairToWeight": True}},
    "a pair for each reader": {"extra_options": {"DedicatedQDQPair": True}},
}


def fetched(path, images: np.ndarray, names: list[str], fed) -> list[np.ndarray]:
    """What onnxruntime computes for the tensors `names`, (n, h, w, c) for each."""
    model = onnx.load(path)
    types = {t.name: t.data_type for t in model.graph.initializer}
    zeros = {n.output[0]: n.input[2] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    for name in names:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, types[zeros[name]], None))
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    rows = [session.run(names, {"x": row[None]}) for row in check.as_input(fed, images)]
    return [np.concatenate(found).transpose(0, 2, 3, 1) for found in zip(*rows, strict=True)]


def handed_on(path, layers) -> list[str]:
    """The names of the codes of what each of `layers` hands on: behind its activation and its sum."""
    nodes = onnx.load(path).graph.node
    readers = {name: node for node in nodes for name in node.input}

    def codes(node) -> str:
        """Of what `node` gives, behind an activation that is left in the graph."""
        quantised = readers[node.output[0]]
        behind = readers[readers[quantised.output[0]].output[0]]
        return codes(behind) if behind.op_type in ("Relu", "Clip") else quantised.output[0]

    convolutions, sums = (iter([n for n in nodes if n.op_type == op]) for op in ("Conv", "Add"))
    pairs = [(next(convolutions), next(sums) if layer.adds else None) for layer in layers]
    return [codes(total or convolution) for convolution, total in pairs]


def differences(path, images, mean=MEAN, scale=SCALE) -> tuple[np.ndarray, float]:
    """The differences of all codes behind every layer, and the smallest cosine of embeddings."""
    imported = import_onnx(path, mean, scale)
    theirs = fetched(path, images, handed_on(path, imported.network.layers), imported.fed)
    integers = Integers(imported.network)
    runs = [integers.run(integers.pixels(image)) for image in images]
    ours = [np.stack(codes) for codes in zip(*runs, strict=True)]
    moved = [t.astype(int) - (128 if t.dtype == np.uint8 else 0) for t in theirs]
    apart = np.concatenate([(a - b).ravel() for a, b in zip(ours, moved, strict=True)])
    wanted = check.runtime_embeddings(imported, images)
    found = check.embeddings(imported.network, images)
    norms = np.linalg.norm(wanted, axis=1) * np.linalg.norm(found, axis=1)
    return np.abs(apart), float(((wanted * found).sum(axis=1) / norms).min())


@pytest.mark.parametrize(("op", "kind"), [*(("Clip", kind) for kind in KINDS), ("Relu", LEFT)])
def test_codes_and_embeddings_are_those_of_onnxruntime(tmp_path, op, kind):
    apart, cosine = differences(quantised_mobile(tmp_path, op=op, **KINDS[kind]), random_input(4, 7))
    assert apart.size > 20_000
    assert apart.max() <= 1 and (apart > 0).mean() < 1e-3
    assert cosine > 0.9999


def test_pixels_keep_what_the_model_rounds_off_and_nothing_else_differs(tmp_path):
    """Here the model rounds every pixel by half a grey level."""
    path = quantised_mobile(tmp_path)
    apart, cosine = differences(path, random_input(4, 7), 127.5, 1 / 127.5)
    assert 0 < (apart > 0).mean() < 0.3 and apart.mean() < 0.5
    assert cosine > 0.999


def test_weights_scales_and_codes_are_those_of_the_file(tmp_path):
    path = quantised_mobile(tmp_path)
    network = import_onnx(path, MEAN, SCALE).network
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    assert np.array_equal(network.weights[1], constants["c4_quantized"].reshape(8, 9).T)
    assert np.array_equal(network.scales[1], constants["c4_scale"])
    unit = constants["c5_quantized_scale"]
    assert np.array_equal(network.biases[1], constants["c5_quantized"].astype(np.float32) * unit)
    codes = network.quantisation
    assert codes.outputs[2].scale == constants["conv4_out_scale"] and codes.outputs[2].zero == 40
    assert codes.sums[8].scale == constants["add15_out_scale"] and codes.sums[7] is None
    assert [layer.activation for layer in network.layers[:3]] == ["relu6", "relu6", None]


def test_codes_from_0_to_255_mean_the_same_network(tmp_path):
    one = import_onnx(quantised_mobile(tmp_path)).network
    other = import_onnx(quantised_mobile(tmp_path, activation_type=UINT8)).network
    assert one.digest == other.digest and one.quantisation == other.quantisation


def test_uint8_weights_around_128_are_taken_as_int8(tmp_path):
    path = quantised_mobile(tmp_path)
    wanted, model = import_onnx(path).network, onnx.load(path)
    convolved = {node.input[1] for node in model.graph.node if node.op_type == "Conv"}
    moved = {
        name
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.output[0] in convolved
        for name in (node.input[0], node.input[2])
    }
    for tensor in model.graph.initializer:
        if tensor.name in moved:
            array = (onnx.numpy_helper.to_array(tensor).astype(int) + 128).astype(np.uint8)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    assert import_onnx(save(model, tmp_path)).network.digest == wanted.digest


def test_normalisations_that_were_folded_are_no_obstacle(tmp_path):
    m, x = onnxmodels_mobile()
    path = quantise(end((m, x, 16)), tmp_path, folded=True)
    apart, cosine = differences(path, random_input(4, 7))
    assert apart.max() <= 1 and (apart > 0).mean() < 1e-3 and cosine > 0.9999


def test_dense_convolutions_behind_the_first_layer_give_the_codes_of_onnxruntime(tmp_path):
    path = quantise(end(universal()), tmp_path, folded=True)
    assert [x.op for x in import_onnx(path).network.layers].count("conv") == 2
    apart, cosine = differences(path, random_input(4, 7))
    assert apart.max() <= 1 and (apart > 0).mean() < 1e-3 and cosine > 0.9999


def test_layers_whose_values_exceed_6_are_relu(tmp_path):
    m = mobile(op="Relu")
    first = m.constants[0]
    first.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(first) * 8, first.name))
    network = import_onnx(quantise(m.model(m.output, (1, 3, SIDE, SIDE)), tmp_path), MEAN, SCALE).network
    assert network.layers[0].activation == "relu" and network.quantisation.outputs[0].scale * 255 > 6


# ---- refusals ---------------------------------------------------------------------------------------


def refusal(path) -> str:
    with pytest.raises(InputError) as caught:
        import_onnx(path)
    message = str(caught.value)
    assert caught.value.code == "unsupported" and "\n" not in message and "net.onnx" in message
    return message


def end(made) -> onnx.ModelProto:
    m, x, channels = made
    return m.model(m.classifier(x, channels), (1, 3, SIDE, SIDE))


OF_256 = {"activation_type": UINT8, "weight_type": UINT8}
ASYMMETRICAL = OF_256 | {"per_channel": False, "extra_options": {"WeightSymmetric": False}}
OTHER_CODES = {"activation_type": QuantType.QUInt16, "extra_options": {"UseQDQContribOps": False}}
REFUSED = {
    "asymmetrical weights": (
        ASYMMETRICAL, "first Conv (conv0 and ", "its weight is asymmetrical: its zero is not 128",
    ),
    "all 256 codes of a weight": (
        OF_256 | {"extra_options": {"WeightSymmetric": True}},
        "first Conv (conv0 and ", "its weight has the code -128",
    ),
    "symmetrical activations": (
        {"extra_options": {"ActivationSymmetric": True}},
        "first Conv (conv0 and ", "has codes for numbers below 0; quantise it asymmetrically",
    ),
    "codes of 16 bits": (OTHER_CODES, "QuantizeLinear (", "its codes are uint16, not of 8 bits"),
    "operations on codes": ({"quant_format": QuantFormat.QOperator}, "QLinearConv (", "no such operation"),
    "a layer left out": ({"nodes_to_exclude": ["conv7"]}, "Conv (conv7): its weight is not quantised", ""),
}  # fmt: skip


@each("name", REFUSED)
def test_what_int8_programs_do_not_compute_is_refused_by_name(tmp_path, name):
    options, *words = REFUSED[name]
    message = refusal(quantised_mobile(tmp_path, **options))
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("make", "words"),
    [(residual, "it is of the operation max-pool, which does not run in int8"), (excited, "HardSwish")],
)
def test_other_networks_are_refused_with_the_operation_that_is_in_the_way(tmp_path, make, words):
    message = refusal(quantise(end(make()), tmp_path, folded=True))
    assert words in message and "(" in message, message


@pytest.mark.parametrize("left_out", [[], ["batchnormalization1"]])
def test_a_normalisation_that_was_not_folded_is_refused(tmp_path, left_out):
    m = Maker()
    x = m.relu6(m.norm(m.conv("x", 3, 8, kernel=3), 8))
    message = refusal(quantise(end((m, x, 8)), tmp_path, nodes_to_exclude=left_out))
    assert "BatchNormalization" in message and "before quantising" in message


def changed(path, name, change):
    """The model at `path` with the constant `name` changed."""
    model = onnx.load(path)
    tensor = next(t for t in model.graph.initializer if t.name == name)
    array = np.asarray(change(onnx.numpy_helper.to_array(tensor)))
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    return save(model, path.parent)


BROKEN = {
    "a scale of 0": ("c4_scale", lambda a: a * 0, "a scale is not above 0"),
    "a scale that is no number": ("c4_scale", lambda a: a * np.float32("nan"), "NaN or infinite"),
    "too few scales": ("c4_scale", lambda a: a[:3], "do not fit its scales"),
    "zeros of another kind": ("c4_zero_point", lambda a: a.astype(np.uint8), "do not fit its scales"),
    "no numbers": ("c4_quantized", lambda a: a[:0], "scales along axis 0"),
    "scales of codes for each channel": (
        "clip3_out_scale", lambda a: np.full(8, a), "do not fit its scales",
    ),
}  # fmt: skip


@each("name", BROKEN)
def test_broken_scales_are_refused(tmp_path, name):
    constant, change, words = BROKEN[name]
    assert words in refusal(changed(quantised_mobile(tmp_path), constant, change))


def test_a_pair_that_does_not_match_is_refused(tmp_path):
    path = quantised_mobile(tmp_path)
    model = onnx.load(path)
    node = next(n for n in model.graph.node if n.name == "clip3_out_DequantizeLinear")
    node.input[1] = "conv4_out_scale"
    assert "does not undo the QuantizeLinear before it" in refusal(save(model, tmp_path))


def test_an_operation_that_reads_codes_is_refused(tmp_path):
    path = quantised_mobile(tmp_path)
    model = onnx.load(path)
    node = next(n for n in model.graph.node if n.op_type == "GlobalAveragePool")
    node.input[0] = "clip23_out_QuantizeLinear_Output"
    assert "GlobalAveragePool" in (message := refusal(save(model, tmp_path))) and "reads codes" in message


# ---- the command ------------------------------------------------------------------------------------


def test_an_imported_network_adapts_in_int8(tmp_path, capsys):
    path, out = quantised_mobile(tmp_path), tmp_path / "net.safetensors"
    assert tt("import", path, "-o", out, "--mean", 128, "--scale", "1/128", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["largest_difference"] < 1e-3 and said["dropped"] == ["Gemm gemm27"]
    assert load_network(out).quantisation is not None
    assert tt("import", path, "-o", out, "--mean", 128, "--scale", "1/128") == 0
    assert "weights are int8, with codes of all layers" in capsys.readouterr().out
    photos, delta = write_images(tmp_path / "photos", count=4), tmp_path / "d.safetensors"
    given = ("--backbone", out, "--precision", "int8", "--out", delta, "--force", "--json")
    assert tt("adapt", photos, *given) == 0
    assert load_delta(delta).precision == "int8"


def test_a_network_that_differs_from_its_quantised_model_is_not_written(tmp_path, monkeypatch, capsys):
    path, out = quantised_mobile(tmp_path), tmp_path / "net.safetensors"
    monkeypatch.setattr("tinytrain.backbones.onnx.check.TOLERANCE_INT8", 0.0)
    assert tt("import", path, "-o", out) == 3
    assert "unsupported: net: embeddings differ" in capsys.readouterr().err and not out.exists()
