"""Whatever is wrong with what a user gives: one line, its own exit code, nothing half-written."""

import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from cases import each
from toyfiles import write_images, write_network

from tinytrain.base.safetensors import decode, encode
from tinytrain.cli.main import main
from tinytrain.network.file import encode_network
from tinytrain.pipeline.toy import toy_network


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A network, images, and a delta that belong together."""
    place = tmp_path_factory.mktemp("bad input")
    write_network(place)
    write_images(place / "photos", count=5)
    out = place / "d.safetensors"
    assert main([*map(str, adapt(place, "--out", out))]) == 0
    return place


def search(place, tmp_path, *more):
    small = ("--data", place / "photos", "--way", 2, "--shots", 2, "--queries", 2)
    return ("search", *toy(place), *small, "-o", tmp_path / "found.json", *more)


def toy(place):
    return ("--backbone", place / "toy.safetensors")


def adapt(place, *more, photos=None):
    return ("adapt", photos or place / "photos", *toy(place), "--policy", "last_layer", *more)


def predict(delta, image, *more):
    return ("predict", delta, image, *more)


def imported(checkpoint, folder):
    return ("import", checkpoint, "-o", folder / "x.safetensors")


class Calls:
    """What a hostile pickle would do when it is loaded."""

    def __reduce__(self):
        return os.system, ("echo called > called",)


def exported(place, out):
    return ("export", place / "d.safetensors", *toy(place), "-o", out)


def pretrained(out, *more):
    return ("pretrain", "shipped-pretrain", "-o", out, *more)


def hostile_checkpoint(folder):
    with zipfile.ZipFile(folder / "x.pkl", "w") as archive:
        archive.writestr("net/data.pkl", pickle.dumps(Calls()))
    return folder / "x.pkl"


def network_with_nan(folder):
    tensors, metadata = decode(encode_network(toy_network()))
    bias = tensors["stem.bias"].copy()
    bias[0] = np.nan
    return written(folder / "x.safetensors", encode({**tensors, "stem.bias": bias}, metadata))


def written(path, data: bytes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def cut(path, folder):
    return written(folder / "x.safetensors", path.read_bytes()[:-5])


def with_dog(folder, broken):
    """Images with one class more, which holds only the file `broken`; good images if that is None."""
    if broken is None:
        return write_images(folder, ("ant", "dog"))
    written(folder / "dog" / broken, b"woof")
    return write_images(folder)


# What a user did -> (command line, exit code, what the line says); `p` is `place`, `t` a new folder.
CASES = {
    "missing network": (lambda p, t: ("info", t / "no.safetensors"), 3, "file-missing"),
    "empty network": (lambda p, t: ("info", written(t / "x.safetensors", b"")), 3, "file-damaged"),
    "truncated network": (lambda p, t: ("info", cut(p / "toy.safetensors", t)), 3, "file-damaged"),
    "network that is text": (
        lambda p, t: ("info", written(t / "x.safetensors", b"hello" * 9)), 3, "file-damaged"
    ),
    "folder for a network": (lambda p, t: ("info", p / "photos"), 3, "file-kind"),
    "NaN in the weights": (
        lambda p, t: ("adapt", p / "photos", "--backbone", network_with_nan(t)), 3, "network-not-finite"
    ),
    "missing checkpoint": (lambda p, t: imported(t / "no.pkl", t), 3, "file-missing"),
    "empty checkpoint": (lambda p, t: imported(written(t / "x.pkl", b""), t), 3, "file-damaged"),
    "checkpoint that is no zip": (lambda p, t: imported(written(t / "x.pkl", b"hi"), t), 3, "file-damaged"),
    "pickle that calls something": (lambda p, t: imported(hostile_checkpoint(t), t), 3, "unsupported"),
    "no folder of images": (lambda p, t: adapt(p, photos=t / "none"), 3, "file-missing"),
    "folder without classes": (
        lambda p, t: adapt(p, photos=written(t / "a", b"").parent), 3, "folder-layout"
    ),
    "one class only": (lambda p, t: adapt(p, photos=write_images(t, ("ant",))), 3, "too-few-classes"),
    "class without images": (lambda p, t: adapt(p, photos=with_dog(t, "notes")), 3, "too-few-images"),
    "class of broken images": (lambda p, t: adapt(p, photos=with_dog(t, "x.png")), 3, "too-few-images"),
    "fewer classes than ways": (lambda p, t: adapt(p, "--way", 9), 3, "too-few-classes"),
    "fewer images than shots": (lambda p, t: ("adapt", *toy(p), "--shots", 90), 3, "too-few-images"),
    "unknown pack": (lambda p, t: ("adapt", "--data", "gtsrp", *toy(p)), 3, "did you mean 'gtsrb'"),
    "truncated pack": (
        lambda p, t: ("data", "preview", written(t / "x.npz", b"PK"), "-o", t / "x.png"), 3, "file-damaged"
    ),
    "budget of nothing": (lambda p, t: adapt(p, "--budget", 0), 4, "give --budget"),
    "missing delta": (lambda p, t: ("predict", t / "no", p / "photos"), 3, "file-missing"),
    "network for a delta": (lambda p, t: ("predict", p / "toy.safetensors", "x.png"), 3, "file-kind"),
    "truncated delta": (lambda p, t: predict(cut(p / "d.safetensors", t), "x.png"), 3, "file-damaged"),
    "image that is missing": (
        lambda p, t: predict(p / "d.safetensors", t / "x.png", *toy(p)), 3, "file-missing"
    ),
    "image that is none": (
        lambda p, t: predict(p / "d.safetensors", written(t / "x.png", b"no"), *toy(p)), 3, "image-unreadable"
    ),
    "class that the delta does not know": (
        lambda p, t: ("eval", p / "d.safetensors", with_dog(t, None), *toy(p)), 3, "does not know 'dog'"
    ),
    "output in no folder": (lambda p, t: adapt(p, "--out", t / "no" / "x"), 6, "create the folder first"),
    "output that is a folder": (lambda p, t: adapt(p, "--out", t), 6, "name a file inside it"),
    "output below a file": (
        lambda p, t: adapt(p, "--out", p / "toy.safetensors" / "x"), 6, "one part of the path is a file"
    ),
    "output nobody can write": (lambda p, t: adapt(p, "--out", "/proc/x"), 6, "write-failed"),
    "report nobody can write": (lambda p, t: adapt(p, "--report", t / "no" / "r.html"), 6, "write-failed"),
    "export nobody can write": (
        lambda p, t: ("export", p / "d.safetensors", "-o", t / "no" / "x.safetensors", *toy(p)),
        6, "write-failed",
    ),
    "export under a name that no command reads": (
        lambda p, t: ("export", p / "d.safetensors", "-o", t / "adapted", *toy(p)), 2, "end in .onnx, "
    ),
    "output that is a device": (lambda p, t: adapt(p, "--out", "/dev/null"), 6, "is a device or a pipe"),
    "two outputs in one file": (
        lambda p, t: adapt(p, "--out", t / "x.json", "--report", t / "x.json"), 2, "two results"
    ),
    "a seed of nanoseconds": (lambda p, t: adapt(p, "--seed", 1763780000123456789), 2, "the largest number"),
    "a budget beyond all memories": (lambda p, t: adapt(p, "--budget", "9" * 310), 2, "more than any memory"),
    "a share without its sign": (lambda p, t: adapt(p, "--macs", 15), 2, "write 15%"),
    "a confidence above all": (
        lambda p, t: predict(p / "d.safetensors", "x.png", "--reject", "101%"), 2, "above 100 %"
    ),
    "training options for added images": (
        lambda p, t: ("adapt", "--from", p / "d.safetensors", "--add", p / "photos", *toy(p),
                      "--out", t / "x", "--shots", 1, "--policy", "full"),
        2, "--shots, --policy would have no effect",
    ),
    "threads for added images": (
        lambda p, t: ("adapt", "--from", p / "d.safetensors", "--add", p / "photos", *toy(p),
                      "--out", t / "x", "--threads", 2),
        2, "trains nothing, so --threads would have no effect",
    ),
    "search result that is none, on a board": (
        lambda p, t: ("simulate", "--board", "stm32h743", "--policy", t / "x.json"), 3, "file-missing"
    ),
    "search result that is nested deeply": (
        lambda p, t: ("plan", *toy(p), "--policy", written(t / "x.json", b"[" * 100_000)), 3, "file-damaged"
    ),
    "report of what never ends": (
        lambda p, t: ("bench", "report", "/dev/zero", "-o", t / "x"), 3, "file-kind"
    ),
    "export into a full folder": (
        lambda p, t: ("data", "export", "signs", p / "photos"), 2, "usage"
    ),
    "target set that is not there": (
        lambda p, t: ("adapt", "--data", f"cub:{t}", *toy(p)), 3, "file-missing"
    ),
    "part of a target set that is none": (
        lambda p, t: ("adapt", "--data", f"cub/tests:{t}", *toy(p)), 2, "parts: test"
    ),
    "check of an unknown set": (lambda p, t: ("data", "check", t, "--set", "birds"), 2, "unknown-name"),
    "search in a domain too small": (
        lambda p, t: ("search", *toy(p), "--data", p / "photos", "-o", t / "x"), 3, "too-few-images"
    ),
    "search within nothing": (lambda p, t: search(p, t, "--budget", "1B"), 4, "give more"),
    "search from no layer": (lambda p, t: search(p, t, "--first", 99), 2, "usage"),
    "search for shares that are none": (lambda p, t: search(p, t, "--ratios", "1,2/0"), 2, "usage"),
    "search from another log": (
        lambda p, t: search(p, t, "--log", written(t / "x.log", b"hello\n")), 3, "file-damaged"
    ),
    "check of no folder": (lambda p, t: ("data", "check", t / "no"), 3, "file-missing"),
    "delta over its backbone": (
        lambda p, t: adapt(p, "--out", p / "photos" / ".." / "toy.safetensors"), 2, "would replace"
    ),
    "delta in the place of its store": (
        lambda p, t: adapt(p, "--out", t / "d", "--store", t / "d"), 2, "two results"
    ),
    "network over its delta": (lambda p, t: exported(p, p / "d.safetensors"), 2, "would replace"),
    "network over its backbone": (lambda p, t: exported(p, p / "toy.safetensors"), 2, "would replace"),
    "delta over the search it follows": (
        lambda p, t: adapt(p, "--policy", t / "x.json", "--out", t / "x.json"), 2, "would replace"
    ),
    "search over its backbone": (
        lambda p, t: ("search", *toy(p), "-o", p / "toy.safetensors"), 2, "would replace"
    ),
    "pretrained network over its teacher": (
        lambda p, t: pretrained(p / "toy.safetensors", "--teacher", p / "toy.safetensors"), 2, "would replace"
    ),
    "trained network over its start": (
        lambda p, t: ("meta-train", "meta-mcunet-free", *toy(p), "-o", p / "toy.safetensors"),
        2, "would replace",
    ),
    "delta to a folder that is not there": (
        lambda p, t: adapt(p, "--out", f"{t}/new/"), 6, "name a file inside it"
    ),
    "name of a folder that is empty": (lambda p, t: ("adapt", "", *toy(p)), 3, "file-missing"),
    "name of a pack that is empty": (lambda p, t: ("plan", "--data", "", *toy(p)), 3, "file-missing"),
    "name of a delta that is empty": (
        lambda p, t: adapt(p, "--from", "", "--add", "", "--out", t / "d"), 2, "a folder would have no effect"
    ),
    "draw from a folder": (lambda p, t: adapt(p, "--episode", 3), 2, "--episode has no effect"),
    "mirrored pack": (lambda p, t: ("plan", "--flip", *toy(p)), 2, "--flip has no effect"),
    "backbone that is nearly one": (lambda p, t: ("info", "tinytrain-smal"), 3, "mean tinytrain-small?"),
    "preview of a giant": (
        lambda p, t: ("data", "preview", "signs", "-o", t / "x.png", "--size", 100_000), 2, "at most 2,048"
    ),
    "preview that is no PNG": (lambda p, t: ("data", "preview", "signs", "-o", "x.jpg"), 2, "usage"),
}  # fmt: skip


@each("name", CASES)
def test_bad_input_is_one_line_with_its_own_exit_code_and_with_json_one_object(
    name, place, tmp_path, capsys, monkeypatch
):
    command, code, words = CASES[name]
    arguments = [str(a) for a in command(place, tmp_path)]
    monkeypatch.chdir(tmp_path)
    before = {path for root in (place, tmp_path) for path in root.rglob("*")}
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert err.startswith("tinytrain: ") and err.count("\n") == 1 and words in err and out == ""
    assert main([*arguments, "--json"]) == code
    out, again = capsys.readouterr()
    answer = json.loads(out)
    (error,) = answer["failed"] if "failed" in answer else answer.values()
    assert error["exit_code"] == code and words in f"{error['code']}: {error['message']}"
    assert again.startswith(f"tinytrain: {error['code']}: ") and again.count("\n") == 1
    assert {path for root in (place, tmp_path) for path in root.rglob("*")} == before, "nothing was written"


def test_a_result_may_be_called_like_a_policy_and_be_written_again(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [main([*map(str, adapt(place, "--out", "last_layer"))]) for _ in range(2)] == [0, 0]


def test_an_output_that_cannot_be_written_is_found_before_any_work(place, tmp_path, monkeypatch):
    monkeypatch.setattr("tinytrain.cli.commands.adapt._adapted", lambda *_: pytest.fail("work was started"))
    assert main([*map(str, adapt(place, "--out", tmp_path / "none" / "x.safetensors"))]) == 6


def test_fewer_images_than_shots_in_a_folder_are_taken_and_said(place, tmp_path, capsys):
    write_images(tmp_path, ("ant", "bee"), count=6)
    write_images(tmp_path, ("cat",), count=2)
    assert main([*map(str, adapt(place, "--shots", 4, "--force", photos=tmp_path))]) == 0
    assert "class 'cat' has 2 of 4 images" in capsys.readouterr().out
