"""``tinytrain import`` of ONNX models from the command line; most tests need no package onnx."""

import json
import os
import sys

import pytest
from cases import each
from commandline import tt
from toyfiles import write_images

from tinytrain.base.errors import UsageError
from tinytrain.base.extras import install
from tinytrain.cli.commands.import_checkpoint import number
from tinytrain.network.file import load_network
from tinytrain.network.input_spec import InputSpec


@pytest.fixture
def model(tmp_path):
    """A small ONNX model with a classifier."""
    pytest.importorskip("onnx", reason=f"reading ONNX models needs {install('onnx')}")
    from onnxmodels import mobile, save

    m, x = mobile()
    return save(m.model(m.classifier(x, 16), (1, 3, "h", "w")), tmp_path, "mine.onnx")


def test_without_the_package_one_line_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "a.onnx").write_bytes(b"x")
    assert tt("import", tmp_path / "a.onnx", "-o", tmp_path / "n.safetensors") == 3
    err = capsys.readouterr().err
    assert "package-missing" in err and install("onnx") in err and err.count("\n") == 1
    assert os.listdir(tmp_path) == ["a.onnx"]


@each(("text", "value"), [("127.5", 127.5), ("1/127.5", 1 / 127.5), ("-1", -1), ("0", 0)])
def test_numbers_may_be_fractions(text, value):
    assert number(text) == value


@each("text", ["", "x", "1/0", "nan", "inf", "1/2/3", "/2"])
def test_a_value_that_is_not_a_number_is_a_usage_error(text):
    with pytest.raises(UsageError, match="write for example"):
        number(text)


@each(
    ("name", "option", "words"),
    [
        ("a.pkl", ["--mean", "0"], "--mean goes with .onnx files"),
        ("a.onnx", ["--scale", "0"], "it must be above 0"),
        ("a.onnx", ["--scale", "1,1,0"], "--scale is 0.0; it must be above 0"),
        ("a.onnx", ["--std", "1,-2,3"], "--std is -2.0; it must be above 0"),
        ("a.onnx", ["--std", "2", "--scale", "0.5"], "give --scale or --std, not both"),
        ("a.onnx", ["--mean", "1,,2"], "write for example"),
        ("a.onnx", ["--size", "-1"], "not a whole number of at least 1"),
    ],
)
def test_a_usage_mistake_is_exit_code_2(tmp_path, capsys, name, option, words):
    assert tt("import", tmp_path / name, "-o", tmp_path / "n.safetensors", *option) == 2
    assert words in capsys.readouterr().err


def test_the_import_says_what_it_did_and_the_network_adapts(model, tmp_path, capsys):
    out = tmp_path / "net.safetensors"
    assert tt("import", model, "-o", out, "--size", 16, "--mean", 0, "--scale", "1/255") == 0
    said = capsys.readouterr().out
    assert "13 layers, 2,286 weights" in said and "weights are float32" in said
    assert "dropped the classifier: Gemm gemm40" in said
    network = load_network(out)
    assert network.name == "mine"
    assert network.input == InputSpec((16, 16, 3), mean=0.0, scale=1 / 255)
    photos = write_images(tmp_path / "photos", count=4)
    assert (
        tt("adapt", photos, "--backbone", out, "--out", tmp_path / "d.safetensors", "--force", "--json") == 0
    )
    assert json.loads(capsys.readouterr().out)["backbone_digest"] == network.digest


def test_a_number_for_each_channel_is_kept_and_shown(model, tmp_path, capsys):
    out = tmp_path / "net.safetensors"
    given = ["--mean", "123.675,116.28,103.53", "--std", "58.395,57.12,57.375"]
    assert tt("import", model, "-o", out, "--size", 16, *given) == 0
    mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    assert load_network(out).input == InputSpec((16, 16, 3), mean=mean, scale=tuple(1 / x for x in std))
    capsys.readouterr()
    assert tt("info", out, "--json") == 0
    shown = json.loads(capsys.readouterr().out)["preprocessing"]
    assert shown["mean"] == [123.675, 116.28, 103.53] and shown["shape"] == [16, 16, 3]
    assert tt("info", out) == 0
    assert "mean 123.675, 116.28, 103.53; scale 0.0171248, 0.017507, 0.0174292" in capsys.readouterr().out
    assert tt("import", model, "-o", out, "--size", 16, "--mean", "1,2") == 3
    assert "a number for each of 3 channels" in capsys.readouterr().err


def test_json_has_what_the_text_says(model, tmp_path, capsys):
    assert tt("import", model, "-o", tmp_path / "n.safetensors", "--size", 16, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["dropped"] == ["Gemm gemm40"] and result["layers"] == 13
    assert result["largest_difference"] is None or result["largest_difference"] < 1e-5


def test_without_onnxruntime_the_skipped_comparison_is_said(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert tt("import", model, "-o", tmp_path / "n.safetensors", "--size", 16) == 0
    out, err = capsys.readouterr()
    assert "the comparison with onnxruntime was skipped: onnxruntime is not installed" in err
    assert "agree" not in out


def test_a_refused_model_writes_nothing(model, tmp_path, capsys):
    assert tt("import", model, "-o", tmp_path / "n.safetensors") == 3  # the file does not state its size
    out, err = capsys.readouterr()
    assert out == "" and "give --size" in err and err.count("\n") == 1
    assert os.listdir(tmp_path) == ["mine.onnx"]


def test_a_network_that_differs_from_its_model_is_not_written(model, tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime", reason="compares with onnxruntime where it is installed")
    monkeypatch.setattr("tinytrain.backbones.onnx.check.TOLERANCE", 0.0)
    assert tt("import", model, "-o", tmp_path / "n.safetensors", "--size", 16) == 3
    assert "unsupported: mine: embeddings differ" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["mine.onnx"]
