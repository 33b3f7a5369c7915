"""What exported files say of themselves, which options they have, and what is refused."""

import json
import re
import sys
import zipfile
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import toynets
from ai_edge_litert import schema_py_generated
from ai_edge_litert.interpreter import Interpreter
from cases import each
from commandline import tt
from exported import CLOSE, colourful, pair_of, untrained

import tinytrain
from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.export.files import export
from tinytrain.backbones.export.onnx_model import onnx_model
from tinytrain.backbones.export.tflite_model import tflite_model
from tinytrain.backbones.export.walk import write_steps
from tinytrain.backbones.load import load_backbone
from tinytrain.backbones.onnx.convert import import_onnx
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.extras import install
from tinytrain.delta.delta import apply
from tinytrain.delta.file import load_delta
from tinytrain.network.file import save_network
from tinytrain.network.input_spec import InputSpec
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.runtime.predict import Predictor

NAMES = ("Äpfel", 'a "quoted" name', "日本")


def test_an_onnx_file_says_what_it_takes_and_what_it_answers():
    network = toynets.toy("blocks", spec=InputSpec((16, 20, 3)))
    delta = replace(untrained(network), class_names=NAMES)
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
    (given,), (answer,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type, given.shape) == ("image", "tensor(uint8)", ["n", 16, 20, 3])
    assert (answer.name, answer.type, answer.shape) == ("probabilities", "tensor(float)", ["n", 3])
    assert session.get_modelmeta().custom_metadata_map == facts


def test_an_onnx_file_has_the_names_as_text_only_if_that_is_asked_for():
    network = toynets.toy("blocks")
    delta = replace(untrained(network), class_names=NAMES)
    string = onnx.TensorProto.STRING
    plain, named = (onnx.load_model_from_string(onnx_model(network, delta, labels=x)) for x in (False, True))
    assert string not in {tensor.data_type for tensor in plain.graph.initializer}
    session = onnxruntime.InferenceSession(named.SerializeToString(), providers=["CPUExecutionProvider"])
    _, label = session.get_outputs()
    assert (label.name, label.type, label.shape) == ("label", "tensor(string)", ["n"])
    for count in (1, 7):
        images = toynets.images_of((16, 16, 3), count)
        assert set(session.run(["label"], {"image": images})[0]) <= set(delta.class_names)


def facts_of(data: bytes) -> tuple[str, list[str]]:
    """(the type of pixels in the metadata of an exported model, the names of all values and constants)."""
    if data[4:8] == b"TFL3":
        model = schema_py_generated.ModelT.InitFromPackedBuf(data, 0)
        facts = {entry.name: bytes(model.buffers[entry.buffer].data) for entry in model.metadata}
        names = [tensor.name for tensor in model.subgraphs[0].tensors]
        return json.loads(facts[b"tinytrain.image"])["dtype"], names
    model = onnx.load_model_from_string(data)
    facts = {entry.key: entry.value for entry in model.metadata_props}
    names = [x.name for x in (*model.graph.input, *model.graph.initializer)]
    names += [name for node in model.graph.node for name in node.output]
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    return json.loads(facts["tinytrain.image"])["dtype"], names


@each("model", [onnx_model, tflite_model])
@each("float_input", [False, True])
def test_every_name_in_a_file_is_there_once(model, float_input):
    networks = [toynets.toy(name) for name in toynets.ROWS]
    networks += [
        pair_of(networks[0], networks[0]),
        toynets.modules_of(networks[0]),
        toynets.toy("blocks", spec=InputSpec((15, 20, 3), rotated=True)),
    ]
    for network in networks:
        dtype, names = facts_of(model(network, untrained(network), float_input=float_input))
        assert len(set(names)) == len(names) > 40
        assert dtype == ("float32" if float_input else "uint8")


@pytest.mark.parametrize("float_input", [False, True])
def test_pixels_may_come_as_float32(float_input):
    network = toynets.toy("blocks")
    delta, images = untrained(network), colourful((16, 16, 3), 20)
    given = images.astype(np.float32) if float_input else images
    expected = Predictor(network, delta).probabilities(images)
    session = onnxruntime.InferenceSession(onnx_model(network, delta, float_input=float_input))
    assert np.abs(session.run(None, {"image": given})[0] - expected).max() < CLOSE
    interpreter = Interpreter(model_content=tflite_model(network, delta, float_input))
    (about,) = interpreter.get_input_details()
    assert about["dtype"] == given.dtype
    interpreter.resize_tensor_input(about["index"], given.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(about["index"], given)
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    assert np.abs(found - expected).max() < CLOSE


def test_an_option_of_another_kind_of_file_is_refused(tmp_path):
    network = toy_network()
    for name, options, words in (
        ("a.tflite", {"labels": True}, "labels is for .onnx files, not for .tflite"),
        ("a.safetensors", {"float_input": True}, "float-input is for .onnx and .tflite files, not for"),
    ):
        with pytest.raises(UsageError, match=words):
            export(network, untrained(network), tmp_path / name, **options)
        assert not (tmp_path / name).exists()
    export(network, untrained(network), tmp_path / "a.safetensors", labels=False, float_input=False)


def test_a_tflite_file_says_what_it_takes_and_what_the_classes_are(tmp_path):
    network = toynets.toy("blocks", spec=InputSpec((16, 20, 3)))
    delta = replace(untrained(network), class_names=NAMES)
    data = tflite_model(network, delta)
    assert tflite_model(network, delta) == data, "the same bytes every time"
    (tmp_path / "a.tflite").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "a.tflite") as archive:
        assert archive.namelist() == ["labels.txt"]
        assert archive.read("labels.txt").decode().splitlines() == list(delta.class_names)
    model = schema_py_generated.ModelT.InitFromPackedBuf(data, 0)
    facts = {entry.name.decode(): bytes(model.buffers[entry.buffer].data) for entry in model.metadata}
    assert json.loads(facts["tinytrain.classes"]) == list(delta.class_names)
    assert json.loads(facts["tinytrain.image"])["width"] == 20
    codes = {code.builtinCode for code in model.operatorCodes}
    assert schema_py_generated.BuiltinOperator.CAST not in codes, "TFLite Micro has none of uint8"
    interpreter = Interpreter(model_path=str(tmp_path / "a.tflite"))
    (given,), (answer,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert (given["name"], given["dtype"], given["shape"].tolist()) == ("image", np.uint8, [1, 16, 20, 3])
    assert (answer["name"], answer["shape"].tolist()) == ("probabilities", [1, 3])
    with pytest.raises(InputError, match=r"unsupported: class name 'two\\nlines' has 2 lines"):
        tflite_model(network, replace(delta, class_names=("two\nlines", "b", "c")))


def test_weights_of_eight_bits_stay_so_in_onnx():
    network = load_backbone(SHIPPED.name)
    size = len(onnx_model(network, untrained(network)))
    assert network.n_weights < size < 1.3 * network.n_weights


@pytest.mark.parametrize("suffix,package", [("onnx", "onnx"), ("tflite", "ai_edge_litert")])
def test_nothing_is_written_for_another_backbone_or_without_the_package(
    tmp_path, monkeypatch, suffix, package
):
    network, path = toy_network(), tmp_path / f"a.{suffix}"
    with pytest.raises(InputError, match="backbone-mismatch"):
        export(network, untrained(toy_network(seed=3)), path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"package-missing: .*{re.escape(install(suffix))}"):
        export(network, untrained(network), path)
    with pytest.raises(UsageError, match=r"'a.pt' must end in .onnx, .tflite, .safetensors or .delta"):
        export(network, untrained(network), "a.pt")
    assert not list(tmp_path.iterdir())


def test_a_head_that_is_no_linear_map_is_refused():
    class Other:
        kind = "other"

    network = toy_network()
    with pytest.raises(InputError, match="unsupported: head 'other' is no linear map"):
        write_steps(network, replace(untrained(network), head=Other()), None)


def test_an_exported_file_is_refused_where_a_network_or_a_delta_is_wanted(tmp_path):
    network = toy_network()
    for name, readers in (
        ("a.onnx", (import_onnx, load_backbone, load_delta)),
        ("a.tflite", (load_backbone, load_delta)),
    ):
        export(network, untrained(network), tmp_path / name)
        for read in readers:
            with pytest.raises(
                InputError, match=r"tinytrain export' wrote .*; give the delta .*safetensors'$"
            ):
                read(tmp_path / name)


def test_the_command_has_the_options_of_python(tmp_path, capsys):
    network, delta = toy_network(), tmp_path / "d.safetensors"
    tinytrain.save_delta(delta, untrained(network))
    save_network(network, tmp_path / "net.safetensors")
    command = ("export", delta, "--backbone", tmp_path / "net.safetensors", "-o", tmp_path / "a.onnx")
    given = {
        (): {},
        ("--no-labels",): {},
        ("--labels", "--float-input"): {"labels": True, "float_input": True},
    }
    for words, options in given.items():
        assert tt(*command, *words) == 0
        assert ("float32" if options else "uint8") in capsys.readouterr().out
        assert (tmp_path / "a.onnx").read_bytes() == onnx_model(network, untrained(network), **options)
        tinytrain.export(delta, tmp_path / "b.onnx", network, **options)
        assert (tmp_path / "b.onnx").read_bytes() == (tmp_path / "a.onnx").read_bytes()
    assert tt(*command[:-1], tmp_path / "a.tflite", "--labels") == 2
    assert "labels is for .onnx files" in capsys.readouterr().err and not (tmp_path / "a.tflite").exists()


def test_python_exports_what_the_functions_of_the_formats_make(tmp_path):
    report = tinytrain.adapt(None, toy_episode(), policy="none")
    for suffix, model in ((".onnx", onnx_model), (".tflite", tflite_model)):
        tinytrain.export(report, tmp_path / f"a{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == model(report.network, report.delta)
    tinytrain.save_delta(tmp_path / "d.safetensors", report.delta)
    tinytrain.export(tmp_path / "d.safetensors", tmp_path / "net.safetensors", SHIPPED.name)
    assert load_backbone(tmp_path / "net.safetensors").digest == apply(report.network, report.delta).digest
