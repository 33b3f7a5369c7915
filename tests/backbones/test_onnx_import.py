"""ONNX models become networks with the same embeddings; unsupported nodes are refused by name."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each

onnx = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402
from onnxmodels import SIZE, Maker, evaluated, mobile, save  # noqa: E402
from oracle import Oracle  # noqa: E402

from tinytrain.backbones.onnx.check import (  # noqa: E402
    as_input,
    compare,
    embeddings,
    largest_difference,
    random_images,
)
from tinytrain.backbones.onnx.convert import import_onnx  # noqa: E402
from tinytrain.base.errors import InputError  # noqa: E402
from tinytrain.episode.kind import Kind  # noqa: E402
from tinytrain.episode.kinds import KINDS  # noqa: E402
from tinytrain.network.file import load_network, save_network  # noqa: E402
from tinytrain.network.input_spec import InputSpec  # noqa: E402

ENDINGS = {
    "global pool": (17, lambda m, x: m.node("GlobalAveragePool", x)),
    "flattened": (14, lambda m, x: m.node("Flatten", m.node("GlobalAveragePool", x))),
    "mean": (17, lambda m, x: m.node("ReduceMean", x, axes=[2, 3], keepdims=0)),
    "mean from the end": (17, lambda m, x: m.node("ReduceMean", x, axes=[-1, -2])),
    "two means": (
        17, lambda m, x: m.node("ReduceMean", m.node("ReduceMean", x, axes=[3], keepdims=0), axes=[2]),
    ),
    "two means, axes kept": (
        17, lambda m, x: m.node("ReduceMean", m.node("ReduceMean", x, axes=[3]), axes=[2], keepdims=0),
    ),
    "axes as an input": (18, lambda m, x: m.node("ReduceMean", x, m.constant(np.array([2, 3])))),
}  # fmt: skip


@each("ending", ENDINGS)
def test_embeddings_are_those_of_the_model(tmp_path, ending):
    opset, end = ENDINGS[ending]
    m, x = mobile(opset=opset)
    model = m.model(end(m, x))
    imported = import_onnx(save(model, tmp_path))
    images = random_images((SIZE, SIZE, 3))
    expected = evaluated(model, imported.fed, images)
    assert expected.shape == (len(images), 16) and abs(expected).max() > 0.1
    assert largest_difference(embeddings(imported.network, images), expected) < 1e-5
    assert imported.dropped == ()


class Windows(Kind):
    name, suffixes, decode = "window", (".rows",), None  # no file is read


def six_channels(folder, shape=(1, 6, SIZE, 2)):
    """(the model, its file): a network for items of SIZE rows of six channels."""
    m = Maker(seed=5)
    x = m.block(m.conv_norm_relu6("x", 6, 8, kernel=(3, 1)), 8, 12, 8, residual=True)
    model = m.model(m.node("GlobalAveragePool", x), shape)
    return model, save(model, folder)


def test_an_image_of_one_channel_may_be_reshaped_to_have_it_in_front_but_to_no_other_size(tmp_path):
    for target in ([-1, 1, 8, 12], [-1, 1, 12, 8]):
        m = Maker()
        y = m.conv(m.node("Reshape", "x", m.constant(np.array(target))), 1, 4, kernel=3)
        path = save(m.model(m.node("GlobalAveragePool", y), (1, 8, 12, 1)), tmp_path)
        if target[2:] == [8, 12]:
            assert import_onnx(path).network.input.shape == (8, 12, 1)
            continue
        with pytest.raises(InputError, match=r"Reshape .* it follows the image, not the pooling at the end"):
            import_onnx(path)


@each("shape", [(1, 6, SIZE, 2), (1, "c", "h", "w")])
def test_a_model_for_another_kind_of_input_has_any_number_of_channels(shape, tmp_path, monkeypatch):
    monkeypatch.setitem(KINDS, "window", Windows())
    model, path = six_channels(tmp_path, shape)
    spec = InputSpec((SIZE, 2, 6), "float32", 0.5, 2.0, kind="window", parameters={"step": 2})
    imported = import_onnx(path, spec=spec)
    assert imported.network.input == spec
    save_network(imported.network, tmp_path / "n.safetensors")
    assert load_network(tmp_path / "n.safetensors").digest == imported.network.digest
    items = random_images(spec.shape).astype(np.float32) / 255
    expected = evaluated(model, imported.fed, items)
    assert largest_difference(embeddings(imported.network, items), expected) < 1e-5
    assert compare(imported) < 1e-5


@each(
    "spec, said",
    [
        (None, "1 or 3 channels; export the model for such images, for another kind of input import"),
        (InputSpec((SIZE, 2, 6)), "unsupported: 6 channels; an image has 1 or 3"),
        (InputSpec((SIZE, 2, 4), kind="window"), r"shape \(1, 6, 12, 2\); .* with 4 channels"),
        (InputSpec((SIZE, 4, 6), kind="window"), "takes 12 x 2, spec says 12 x 4; give what it takes"),
    ],
)
def test_a_model_of_other_channels_than_those_of_the_input_is_refused_with_the_remedy(spec, said, tmp_path):
    with pytest.raises(InputError, match=said):
        import_onnx(six_channels(tmp_path)[1], spec=spec)


@pytest.mark.parametrize("opset", [9, 11, 13])
def test_old_opsets_mean_the_same(tmp_path, opset):
    # Without the evaluator, which treats every batch normalisation below opset 14 as in training mode.
    digests = set()
    for version in (opset, 17):
        m, x = mobile(opset=version)
        digests.add(import_onnx(save(m.model(m.classifier(x, 16)), tmp_path)).network.digest)
    assert len(digests) == 1


MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)  # ImageNet's, of 0..255


def by(m, op, x, *numbers, divisor=1):
    """A node that does `op` to `x` and a constant: a number, or one for each channel."""
    array = np.array(numbers, np.float32) / np.float32(divisor)
    return m.node(op, x, m.constant(array.reshape(-1, 1, 1) if len(array) > 1 else array))


# What stands before the first convolution, and the mean and 1 / scale that it comes to behind v / 255.
NORMALISED = {
    "mean and deviation": (
        lambda m, x: by(m, "Div", by(m, "Sub", x, *MEAN, divisor=255), *STD, divisor=255),
        MEAN, STD,
    ),
    "gain and offset, a constant first": (
        lambda m, x: m.node(
            "Add", m.constant(np.float32([[[-2]], [[-1]], [[1]]])), by(m, "Mul", x, 4, 5, 6)
        ),
        (127.5, 51, -42.5), (255 / 4, 51, 42.5),
    ),
    "one number for all": (
        lambda m, x: by(m, "Mul", m.node("Sub", x, m.constant(np.float32(0.5))), 2),
        (127.5,) * 3, (127.5,) * 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMALISED)
def test_what_a_model_does_to_its_image_first_becomes_the_input_of_the_network(tmp_path, name):
    make, mean, std = NORMALISED[name]
    m = Maker(seed=4)
    x = m.conv_norm_relu6(make(m, "x"), 3, 8, kernel=3, stride=2)
    model = m.model(m.node("GlobalAveragePool", m.block(x, 8, 12, 8, residual=True)))
    imported = import_onnx(save(model, tmp_path), mean=0, scale=1 / 255)
    spec = imported.network.input
    np.testing.assert_allclose(spec.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(1 / np.array(spec.scale), std, rtol=1e-5)
    images = random_images(spec.shape)
    expected = evaluated(model, imported.fed, images)
    assert largest_difference(embeddings(imported.network, images), expected) < 1e-4
    assert largest_difference(Oracle(imported.network).forward(images).embeddings, expected) < 1e-4


def test_a_mean_and_scale_for_each_channel_can_be_given(tmp_path):
    m, x = mobile(seed=5)
    model = m.model(m.node("GlobalAveragePool", x))
    network = import_onnx(save(model, tmp_path), MEAN, tuple(1 / x for x in STD)).network
    assert (network.input.mean, network.input.scale) == (MEAN, tuple(1 / x for x in STD))
    images = random_images(network.input.shape)
    pixels = (images - np.array(MEAN)) / np.array(STD)
    rows = [
        ReferenceEvaluator(model).run(None, {"x": p.transpose(2, 0, 1)[None].astype("f")})[0].ravel()
        for p in pixels
    ]
    assert largest_difference(embeddings(network, images), np.stack(rows)) < 1e-4


@pytest.mark.parametrize("hw", [(SIZE, SIZE), (20, 13), (13, 20)])
def test_a_model_of_one_channel_and_of_any_form_is_imported(tmp_path, hw):
    m = Maker(seed=6)
    x = m.conv_norm_relu6(m.node("Sub", "x", m.constant(np.ones((1, 1, 1, 1), np.float32))), 1, 8, kernel=3)
    model = m.model(m.node("GlobalAveragePool", m.block(x, 8, 12, 8)), (1, 1, *hw))
    imported = import_onnx(save(model, tmp_path), mean=96, scale=0.025)
    assert imported.network.input.shape == (*hw, 1)
    assert imported.network.input.mean == (136.0,)
    images = random_images((*hw, 1))
    expected = evaluated(model, imported.fed, images)
    assert largest_difference(embeddings(imported.network, images), expected) < 1e-4


def test_layers_blocks_and_input_are_recognised(tmp_path):
    m, x = mobile()
    network = import_onnx(save(m.model(m.classifier(x, 16)), tmp_path, "mine.onnx")).network
    assert [layer.name for layer in network.layers] == [
        "stem", "block0.depthwise", "block0.project",
        *(f"block{k}.{part}" for k in (1, 2, 3) for part in ("expand", "depthwise", "project")),
        "block4.expand",
    ]  # fmt: skip
    assert [layer.name for layer in network.layers if layer.adds] == ["block1.project", "block3.project"]
    assert {x.name for x in network.layers if not x.activation} == {f"block{k}.project" for k in range(4)}
    assert [layer.kernel[0] for layer in network.layers if layer.op == "depthwise"] == [3, 5, 7, 3]
    assert [layer.stride for layer in network.layers].count((2, 2)) == 2
    assert network.name == "mine" and network.scales == (None,) * 13
    assert {weight.dtype for weight in network.weights} == {np.dtype("f4")}
    assert network.input == InputSpec((SIZE, SIZE, 3), mean=127.5, scale=1 / 127.5)


def test_a_network_without_linear_bottlenecks_has_a_block_per_depthwise_and_pointwise_pair(tmp_path):
    m = Maker()
    x = m.conv_norm_relu6("x", 3, 8, kernel=3, stride=2)
    for cin, cout in ((8, 12), (12, 12)):
        x = m.conv_norm_relu6(x, cin, cin, kernel=3, groups=cin)
        x = m.conv_norm_relu6(x, cin, cout)
    network = import_onnx(save(m.model(m.classifier(x, 12)), tmp_path)).network
    assert [layer.block for layer in network.layers] == [0, 1, 1, 2, 2]


def test_the_classifier_is_dropped_and_named(tmp_path):
    m, x = mobile()
    imported = import_onnx(save(m.model(m.classifier(x, 16)), tmp_path))
    assert len(imported.dropped) == 1 and imported.dropped[0].startswith("Gemm gemm")
    m, x = mobile()
    flat = m.node("Reshape", m.node("GlobalAveragePool", x), m.constant(np.array([1, 16])))
    product = m.node("MatMul", flat, m.constant(np.ones((16, 4), np.float32)))
    scores = m.node("Softmax", m.node("Add", product, m.constant(np.ones(4, np.float32))))
    dropped = import_onnx(save(m.model(scores), tmp_path)).dropped
    assert [text.split()[0] for text in dropped] == ["MatMul", "Add", "Softmax"]


def test_identities_shared_weights_and_constant_nodes_change_nothing(tmp_path):
    plain, x = mobile()
    expected = import_onnx(save(plain.model(plain.classifier(x, 16)), tmp_path)).network
    m, x = mobile()
    output = m.classifier(x, 16)
    first = m.nodes[0]
    m.nodes.insert(0, onnx.helper.make_node("Identity", [first.input[1]], ["weight"]))
    m.nodes.insert(0, onnx.helper.make_node("Constant", [], ["six"], value_float=6.0))
    first.input[1] = "weight"
    next(node for node in m.nodes if node.op_type == "Clip").input[2] = "six"
    m.nodes.insert(3, onnx.helper.make_node("Identity", [first.output[0]], ["copy"]))
    m.nodes[4].input[0] = "copy"
    assert import_onnx(save(m.model(output), tmp_path)).network.digest == expected.digest


@each("shape", [("n", 3, SIZE, SIZE), (4, 3, SIZE, SIZE), (None, None, "h", "w"), (1, 3, "h", SIZE)])
def test_a_batch_or_size_that_is_left_open_is_no_obstacle(tmp_path, shape):
    m, x = mobile()
    path = save(m.model(m.classifier(x, 16), shape), tmp_path)
    assert import_onnx(path, size=SIZE).network.input.shape == (SIZE, SIZE, 3)


@each(
    ("side", "stride", "rule"),
    [(12, 1, "SAME_UPPER"), (13, 2, "SAME_LOWER"), (12, 2, "SAME_UPPER"), (12, 2, "SAME_LOWER"),
     (12, 1, "VALID")],
)  # fmt: skip
def test_automatic_padding_is_supported(tmp_path, side, stride, rule):
    m = Maker()
    x = m.conv("x", 3, 8, kernel=3, stride=stride, pads=None, auto_pad=rule)
    model = m.model(m.node("GlobalAveragePool", x), (1, 3, side, side))
    path = save(model, tmp_path)
    network = import_onnx(path).network
    assert network.input.rotated == ((side, rule) == (12, "SAME_UPPER") and stride == 2)
    images = random_images((side, side, 3))
    expected = evaluated(model, network.input, images)
    assert largest_difference(embeddings(network, images), expected) < 1e-5


def halved(model, cast: bool):
    """(`model` with weights of float16, `model` with the same weights in float32).

    With `cast` the weights alone are float16 and a node makes each of them float32, else all of it is.
    """
    half, full, f16 = onnx.ModelProto(), onnx.ModelProto(), onnx.TensorProto.FLOAT16
    half.CopyFrom(model)
    full.CopyFrom(model)
    for small, large in zip(half.graph.initializer, full.graph.initializer, strict=True):
        array = onnx.numpy_helper.to_array(small).astype(np.float16)
        large.CopyFrom(onnx.numpy_helper.from_array(array.astype(np.float32), small.name))
        small.CopyFrom(onnx.numpy_helper.from_array(array, f"{small.name}.half" if cast else small.name))
        if cast:
            node = onnx.helper.make_node("Cast", [small.name], [large.name], name=f"cast {large.name}", to=1)
            half.graph.node.insert(0, node)
    for value in () if cast else (*half.graph.input, *half.graph.output):
        value.type.tensor_type.elem_type = f16
    return half, full


@pytest.mark.parametrize("cast", [True, False])
def test_weights_of_16_bits_become_the_same_numbers_in_32(tmp_path, cast):
    m, x = mobile()
    half, full = halved(m.model(m.classifier(x, 16)), cast)
    imported = import_onnx(save(half, tmp_path))
    assert imported.network.digest == import_onnx(save(full, tmp_path)).network.digest
    compared(imported)


def compared(imported) -> None:
    pytest.importorskip("onnxruntime", reason="compares with onnxruntime where it is installed")
    from tinytrain.backbones.onnx.check import compare

    assert compare(imported) < 1e-5


def test_images_whose_pixels_are_casted_to_16_bits_are_imported(tmp_path):
    plain, x = mobile()
    expected = import_onnx(save(plain.model(plain.classifier(x, 16)), tmp_path)).network.digest
    m, x = mobile()
    m.nodes.insert(0, onnx.helper.make_node("Cast", ["x"], ["half"], to=onnx.TensorProto.FLOAT16))
    m.nodes[1].input[0] = "half"
    imported = import_onnx(save(m.model(m.classifier(x, 16)), tmp_path))
    assert imported.network.digest == expected
    compared(imported)


# Shape of the input -> what is before the first convolution, in the order of exporters of TensorFlow.
@each("shape", [(1, SIZE, 16, 3), ("n", SIZE, 16, 3), (None, SIZE, 16, 1)])
@each("end", ["GlobalAveragePool", "ReduceMean"])
def test_images_with_channels_last_are_turned(tmp_path, shape, end):
    m, channels = Maker(seed=7), shape[3]
    each = m.constant(np.linspace(0.5, 1.5, channels, dtype=np.float32))
    x = m.node("Transpose", m.node("Mul", "x", each), perm=[0, 3, 1, 2])
    x = m.block(m.conv_norm_relu6(x, channels, 8, kernel=3, stride=2), 8, 12, 8, residual=True)
    if end == "ReduceMean":
        pooled = m.node("ReduceMean", m.node("Transpose", x, perm=[0, 2, 3, 1]), axes=[1, 2], keepdims=0)
    else:
        pooled = m.node(end, x)
    tail = m.node("Transpose", m.node("Softmax", pooled))
    model = m.model(tail, shape)
    imported = import_onnx(save(model, tmp_path))
    assert imported.network.input.shape == (SIZE, 16, channels)
    assert [name.split()[0] for name in imported.dropped] == ["Softmax"]
    images = random_images((SIZE, 16, channels))
    model.graph.output[0].name = pooled
    rows = (as_input(imported.fed, images[k : k + 1]).transpose(0, 2, 3, 1) for k in range(len(images)))
    expected = np.stack([ReferenceEvaluator(model).run(None, {"x": row})[0].ravel() for row in rows])
    assert largest_difference(embeddings(imported.network, images), expected) < 1e-5
    compared(imported)


@pytest.mark.parametrize("opset", [9, 11, 17])
def test_the_comparison_with_onnxruntime_passes_and_notices_a_wrong_network(tmp_path, opset):
    pytest.importorskip("onnxruntime", reason="compares with onnxruntime where it is installed")
    from tinytrain.backbones.onnx.check import compare

    m, x = mobile(opset=opset)
    imported = import_onnx(save(m.model(m.classifier(x, 16), (2, 3, SIZE, SIZE)), tmp_path))
    assert compare(imported) < 1e-5
    biases = [bias.copy() for bias in imported.network.biases]
    biases[5][0] += 0.01
    wrong = replace(imported, network=replace(imported.network, biases=tuple(biases)))
    with pytest.raises(InputError, match=r"differ from onnxruntime's by .*nothing was written") as caught:
        compare(wrong)
    assert caught.value.code == "unsupported"
