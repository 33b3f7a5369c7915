"""Exported files classify by themselves, and say what `Predictor` says."""

from dataclasses import replace
from unittest.mock import Mock

import flatbuffers
import numpy as np
import onnx
import onnxruntime
import pytest
import toynets
from ai_edge_litert import schema_py_generated
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from cases import each, quick
from exported import CLOSE, colourful, largest_difference, pair_of, untrained
from onnx.reference import ReferenceEvaluator
from published import published_network
from toygraphs import GRAPHS, Nodes

from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.export.files import export
from tinytrain.backbones.export.onnx_model import onnx_model
from tinytrain.backbones.export.tflite_model import TfliteWriter, tflite_model
from tinytrain.backbones.export.walk import write_steps
from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError
from tinytrain.datasets import sample_episode
from tinytrain.datasets.generated.leaves import leaves
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.node import ACTIVATIONS
from tinytrain.pipeline.committee import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.runtime.predict import Predictor


def onnx_answers(network, delta, images: np.ndarray) -> np.ndarray:
    """Probabilities (n, classes) that onnxruntime computes; its labels are those of the likeliest."""
    data = onnx_model(network, delta, labels=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    probabilities, labels = session.run(["probabilities", "label"], {"image": images})
    assert labels.tolist() == [delta.class_names[k] for k in probabilities.argmax(axis=1)]
    return probabilities


def tflite_answers(network, delta, images: np.ndarray, **options) -> np.ndarray:
    """Probabilities (n, classes) that LiteRT computes, all at once and some one by one."""
    interpreter = Interpreter(model_content=tflite_model(network, delta), **options)
    (given,), (answer,) = interpreter.get_input_details(), interpreter.get_output_details()

    def run(values):
        interpreter.resize_tensor_input(given["index"], values.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(given["index"], values)
        interpreter.invoke()
        return interpreter.get_tensor(answer["index"])

    alone = np.concatenate([run(images[i : i + 1]) for i in range(3)])
    probabilities = run(images)
    assert np.abs(probabilities[:3] - alone).max() < CLOSE
    return probabilities


def plain_tflite_answers(network, delta, images: np.ndarray) -> np.ndarray:
    """The same by the plain kernels of the interpreter, which small devices have."""
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return tflite_answers(network, delta, images, experimental_op_resolver_type=kernels)


@pytest.fixture(params=[onnx_answers, tflite_answers, plain_tflite_answers])
def answers(request):
    return request.param


def difference_untrained(answers, network) -> float:
    images = colourful(network.input.shape, 50)
    return largest_difference(answers, network, untrained(network, images), images)


@pytest.fixture(
    scope="module",
    params=quick(
        [(n, p) for n in (SHIPPED.name, "mcunet-5fps") for p in ("tinytrain", "tinytrain_published")],
        single=True,
    ),
    ids=" ".join,
)
def adapted(request):
    """A backbone adapted by a policy whose head is LDA or cosine prototypes."""
    name, policy = request.param
    network = load_backbone(name) if name == SHIPPED.name else published_network(name)
    report = adapt(network, sample_episode(leaves(), 5, 2, 20, 0), Budget(), policy, force=True)
    assert report.delta.slices
    assert report.delta.head.kind == {"tinytrain": "lda", "tinytrain_published": "cosine"}[policy]
    return report


def test_a_hundred_images_get_the_probabilities_of_the_predictor(adapted, answers):
    network, query = adapted.network, adapted.episode.query
    images = np.stack([query.image(i, network.input.shape) for i in range(100)])
    assert largest_difference(answers, network, adapted.delta, images) < CLOSE


@pytest.mark.parametrize("name", toynets.ROWS)
def test_every_kind_of_layer_is_exported(answers, name):
    assert difference_untrained(answers, toynets.toy(name)) < CLOSE


TRANSFORMERS = {
    "tokens": "2.position: position",
    "patches": "1.position: position",
    "words": "0.words: words",
}


@each("name", GRAPHS.keys() - TRANSFORMERS)
def test_every_graph_is_exported(answers, name):
    network = GRAPHS[name]()
    as_images = replace(network, input=replace(network.input, kind="image"))
    assert difference_untrained(answers, as_images) < CLOSE


@each("name", TRANSFORMERS)
def test_a_transformer_is_refused_for_its_first_operation_that_cannot_be_written(name):
    delta = untrained(GRAPHS["fire"]())
    with pytest.raises(InputError, match=f"layer {TRANSFORMERS[name]} cannot be written to .onnx files"):
        write_steps(GRAPHS[name](), delta, Mock(suffix=".onnx", inside=(), activations={"relu": Mock()}))


def network_behind(activation: str):
    """A network whose second layer has `activation`, with numbers below 0 on both sides of its bends."""
    made = Nodes(InputSpec((12, 12, 3)))
    made.add("conv", 8, 3, 2)
    made.block += 1
    numbers = tuple((name, {"slope": 0.2, "floor": -0.4}[name]) for name in ACTIVATIONS[activation])
    made.add("conv", 12, 3, activation=activation, attributes=numbers)
    return made.network("behind")


@each("activation", ACTIVATIONS)
def test_every_activation_is_exported_as_the_network_computes_it_or_refused(answers, activation):
    try:
        assert difference_untrained(answers, network_behind(activation)) < CLOSE
    except InputError as error:
        assert f"{activation} cannot be written to" in str(error)


@each("suffix", ["onnx", "tflite"])
def test_an_activation_that_a_format_has_no_row_for_is_refused_and_nothing_is_written(suffix, tmp_path):
    network = network_behind("hard-sigmoid")
    first, second = network.nodes
    odd = replace(network, nodes=(first, replace(second, activation="odd")))
    delta, path = replace(untrained(network), backbone=odd.digest), tmp_path / f"a.{suffix}"
    text = f"layer 1.conv: odd cannot be written to .{suffix} files; export to a .safetensors file"
    with pytest.raises(InputError, match=f"unsupported: {text}$"):
        export(odd, delta, path)
    assert not path.exists()


def test_an_operation_whose_number_is_above_127_is_written_so_that_an_interpreter_runs_it():
    writer, builder = TfliteWriter(schema_py_generated, float_input=True), flatbuffers.Builder()
    writer._operator("RELU_0_TO_1", [writer.image((1, 5, 1))], (1, 5, 1))
    builder.Finish(writer.model({}).Pack(builder), b"TFL3")
    interpreter = Interpreter(model_content=bytes(builder.Output()))
    interpreter.allocate_tensors()
    values = np.linspace(-2, 2, 5, dtype=np.float32).reshape(1, 1, 5, 1)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_array_equal(found, values.clip(0, 1))


@pytest.mark.parametrize("chosen", [None, [0], [2, 1]])
def test_lite_residual_modules_are_exported(answers, chosen):
    network = toynets.modules_of(toynets.toy("blocks"), chosen)
    assert len(network.modules) == (len(network.possible_modules) if chosen is None else len(chosen))
    assert difference_untrained(answers, network) < CLOSE


@pytest.mark.parametrize("size", [15, 17, 19])
def test_sides_that_are_no_multiple_of_anything_are_exported(answers, size):
    assert difference_untrained(answers, toynets.modules_of(toynets.toy("blocks", size))) < CLOSE


@pytest.mark.parametrize(
    "spec",
    [
        InputSpec((16, 20, 3), mean=(123.675, 116.28, 103.53), scale=(1 / 58.395, 1 / 57.12, 1 / 57.375)),
        InputSpec((16, 16, 1), mean=30.0, scale=1 / 60),
        InputSpec((15, 20, 3), rotated=True),
    ],
    ids=["wide", "grey", "rotated"],
)
def test_preprocessing_is_inside(answers, spec):
    assert difference_untrained(answers, toynets.toy("blocks", spec=spec)) < CLOSE


@each("network", [toy_network(), pair_of(toy_network(), toynets.toy("headed"))])
def test_trained_slices_of_every_kind_are_inside(answers, network):
    episode = toy_episode(queries=20)
    for policy in ("full", "tinytl", "trady", "bias_only"):
        report = adapt(network, episode, Budget(2**23, 10.0), policy, force=True)
        assert all(part.slices for part in report.delta.parts)
        images = np.stack([episode.query.image(i, network.input.shape) for i in range(60)])
        assert largest_difference(answers, network, report.delta, images) < CLOSE


def test_the_evaluator_of_the_onnx_standard_agrees():
    network, images = toynets.toy("blocks"), colourful((16, 16, 3), 5)  # it has no DequantizeLinear of 13
    delta = untrained(network, images)
    data = onnx_model(network, delta, labels=True)
    expected = Predictor(network, delta).probabilities(images)
    found, labels = ReferenceEvaluator(onnx.load_model_from_string(data)).run(None, {"image": images})
    assert np.abs(found - expected).max() < CLOSE
    assert list(labels) == [f"class {k}" for k in expected.argmax(axis=1)]
