"""A file of the wrong kind is named for what it is, with the remedy; one of the right kind always passes."""

import json

import numpy as np
import pytest
from cases import each
from PIL import Image
from toyfiles import write_images, write_network

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import KINDS, ROLES, refuse_other_kinds
from tinytrain.base.safetensors import encode
from tinytrain.cli.main import main
from tinytrain.delta.file import load_delta, save_delta
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.plan import save_plan
from tinytrain.policies.registry import find_policy


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A file of every kind that has another name than its content."""
    place = tmp_path_factory.mktemp("kinds")
    network, policy = toy_network(), find_policy("last_layer")
    report = adapt(network, toy_episode(), Budget(2**22), policy, 0)
    write_network(place)
    save_delta(place / "d.safetensors", report.delta)
    save_plan(place / "plan.json", report.plan)
    (place / "report.json").write_text(json.dumps(report.to_json(), indent=2))
    (place / "page").write_text("<!DOCTYPE html><title>report</title>")
    (place / "archive").write_bytes(b"PK\x03\x04 and more")
    (place / "state_dict.safetensors").write_bytes(encode({"w": np.zeros(3, np.float32)}, {"format": "pt"}))
    Image.new("RGB", (8, 8)).save(place / "image", "JPEG")
    Image.new("RGB", (8, 8)).save(place / "picture", "WEBP")
    for kind in KINDS:
        for suffix in kind.suffixes:
            (place / f"some{suffix}").write_bytes(b"anything")
    write_images(place / "photos", count=2)
    return place


# Name of the file -> what is said of it as a backbone and as a delta.
SAID = {
    "some.pt": ("torch.onnx.export(", "is a PyTorch file"),
    "some.PTH": ("torch.onnx.export(", "is a PyTorch file"),
    "some.ckpt": ("tinytrain import model.onnx", "is a PyTorch file"),
    "state_dict.safetensors": ("weights without their network; export the model", "is not a delta"),
    "some.onnx": ("import it first: tinytrain import model.onnx -o net.safetensors", "is an ONNX model"),
    "some.data": ("tinytrain import", "second file of an ONNX model"),
    "some.tflite": ("tf2onnx", "TensorFlow or Keras"),
    "some.h5": ("tf2onnx", "TensorFlow or Keras"),
    "some.mlmodel": ("the ONNX model that it was made from", "another program"),
    "d.safetensors": ("is a delta", None),
    "toy.safetensors": (None, "is a network; a network goes to --backbone"),
    "some.pkl": (None, "goes to --backbone"),
    "image": ("is an image", "the delta comes before the images"),
    "picture": ("is an image", "the delta comes before the images"),
    "plan.json": ("is a plan", "tinytrain adapt DIR --plan PLAN --out FILE"),
    "report.json": ("is a report", "is a report"),
    "page": ("is a web page", "is a web page; give the file that 'tinytrain adapt DIR --out FILE' wrote"),
    "archive": ("is an archive", "is an archive"),
    "photos": ("is a folder", None),
}


@each("name", SAID)
def test_each_kind_of_file_is_refused_in_words(place, tmp_path, name):
    path = place / name
    if not path.exists():
        path = tmp_path / name
        path.write_bytes(b"anything")
    for read, words, role in zip((load_backbone, load_delta), SAID[name], ("backbone", "delta"), strict=True):
        if words is not None:
            with pytest.raises(InputError) as caught:
                read(path)
            assert words in str(caught.value) and "\n" not in str(caught.value)
            assert caught.value.code == ROLES[role][0]


def test_files_of_ours_pass_whatever_they_are_called(place, tmp_path):
    for name in ("x.pt", "x.jpg", "x", "x.json"):
        (tmp_path / name).write_bytes((place / "d.safetensors").read_bytes())
        assert load_delta(tmp_path / name).class_names == ("toy 0", "toy 1", "toy 2")
        (tmp_path / name).write_bytes((place / "toy.safetensors").read_bytes())
        assert load_backbone(tmp_path / name).name == "toy"


@pytest.mark.parametrize("role", ROLES)
def test_what_is_missing_or_unknown_is_left_to_the_reader(tmp_path, role):
    refuse_other_kinds(tmp_path / "missing.pt", role)
    refuse_other_kinds(tmp_path, role)
    (tmp_path / "unknown").write_bytes(b"\1\2\3")
    refuse_other_kinds(tmp_path / "unknown", role)


@each("role", ROLES)
@each("header", [b"[]", b"{}", b'{"__metadata__":[]}', b"{" * 5000, b"\xff\xfe", b""])
def test_a_damaged_header_is_left_to_the_reader(tmp_path, header, role):
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header)
    refuse_other_kinds(tmp_path / "x", role)


# What was typed -> what the one line says.
TYPED = {
    "a delta to adapt to": (("adapt", "d.safetensors"), "adapt --from DELTA --add DIR"),
    "an image to adapt to": (("adapt", "image"), "contains one folder of images per class"),
    "a folder of images as the delta": (("predict", "photos", "image"), "is a folder, but no store"),
    "a word for a backbone": (("info", "mcunet"), "nor the name of a backbone; did you mean mcunet"),
    "a PyTorch file to import": (("import", "some.pt", "-o", "x.safetensors"), "torch.onnx.export("),
    "a network to put on trial": (("apply", "toy.safetensors", "--store", "s"), "is a network"),
}  # fmt: skip


@each("name", TYPED)
def test_a_mistaken_command_line_is_one_line_with_the_remedy(place, monkeypatch, capsys, name):
    monkeypatch.chdir(place)
    words, said = TYPED[name]
    assert main(list(words)) == 3
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and said in err
