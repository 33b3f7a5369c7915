"""Networks and heads with finite values that are so large that answers are not: an error, never NaN."""

import json
from dataclasses import replace

import numpy as np
import pytest
from commandline import tt
from toyfiles import write_images, write_network

import tinytrain
from tinytrain.base.errors import AnswerError, InputError
from tinytrain.delta.file import load_delta, save_delta
from tinytrain.heads import oselm_ae
from tinytrain.heads.head import HeadVerdict
from tinytrain.network.file import save_network
from tinytrain.pipeline.toy import toy_network

HUGE = 3e38
CODES = {"network": "network-not-finite", "head": "delta-not-finite"}


def filled(array):
    return np.full_like(array, HUGE) if array.dtype.kind == "f" else array


def damaged(delta, what):
    if what == "network":
        return replace(delta, slices=tuple(replace(s, values=filled(s.values)) for s in delta.slices))
    return replace(delta, head=replace(delta.head, **{k: filled(v) for k, v in delta.head.tensors().items()}))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("huge")
    write_network(root)
    write_images(root / "photos")
    (root / "one").mkdir()
    (root / "one" / "a.png").write_bytes((root / "photos" / "ant" / "0-0.png").read_bytes())
    words = ("--policy", "last_layer", "--budget", "400kB", "--force", "-q")
    backbone = ("--backbone", root / "toy.safetensors")
    assert tt("adapt", root / "photos", *backbone, *words, "--out", root / "good.safetensors") == 0
    for what in CODES:
        save_delta(root / f"{what}.safetensors", damaged(load_delta(root / "good.safetensors"), what))
    return root


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("what", CODES)
@pytest.mark.parametrize(
    "words",
    [
        "predict DELTA one", "predict DELTA one --json", "eval DELTA photos", "watch DELTA one --once -q",
        "watch DELTA one --once -q --json", "export DELTA -o out.onnx", "export DELTA -o out.tflite",
    ],
)  # fmt: skip
def test_a_command_ends_with_a_code_and_one_line_and_without_nan(place, monkeypatch, capfd, words, what):
    monkeypatch.chdir(place)
    words = words.replace("DELTA", f"{what}.safetensors").split()
    assert tt(*words, "--backbone", "toy.safetensors") == InputError.exit_code
    out, err = capfd.readouterr()
    assert err.count("\n") == 1 and f"tinytrain: {CODES[what]}: " in err
    assert not list(place.glob("out.*"))
    if "predict" in words and "--json" in words:
        assert json.loads(out, parse_constant=pytest.fail)["error"]["code"] == CODES[what]
    else:
        assert "nan" not in out.lower()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "words, code, text", [("check", 3, "network-not-finite"), ("adapt", 5, "not-finite")]
)
def test_a_network_of_huge_values_is_named_before_there_is_a_delta(place, tmp_path, capfd, words, code, text):
    network, huge = toy_network(), tmp_path / "huge.safetensors"
    save_network(replace(network, scales=tuple(np.full_like(s, 1e36) for s in network.scales)), huge)
    options = ("--policy", "none", "--out", tmp_path / "out.safetensors") if words == "adapt" else ()
    assert tt(words, place / "photos", "--backbone", huge, "-q", *options) == code
    assert capfd.readouterr().err.startswith(f"tinytrain: {text}: ")
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize("what", CODES)
def test_python_says_so_too(place, what):
    predictor = tinytrain.Predictor(place / "toy.safetensors", place / f"{what}.safetensors")
    image = place / "one" / "a.png"
    for ask in (predictor, predictor.probabilities, lambda image: predictor([image])):
        with pytest.raises(AnswerError, match=CODES[what]):
            ask(image)


@pytest.mark.parametrize("field", ["confidence", "score", "threshold"])
def test_no_verdict_holds_what_is_no_number(field):
    facts = {"confidence": 0.5, "score": None, "threshold": 1.0} | {field: float("nan")}
    with pytest.raises(AnswerError):
        HeadVerdict(0, rejected=False, probabilities=np.ones(1), **facts)


def test_an_image_that_is_far_from_a_class_of_copies_is_unknown_and_no_overflow():
    """The power by which confidence falls is the steepest there, and the error millions of limits."""
    arrays = {b.name: b.allocate() for b in oselm_ae.METHOD.tensors(1, 4)}
    head = oselm_ae.METHOD.head(oselm_ae.METHOD, **arrays)
    head = replace(head, spread=np.full_like(head.spread, 1e-3), counts=np.full_like(head.counts, 5))
    found = head.verdict(np.array([1, 0, 0, 0], np.float32))
    assert found.state == "unknown" and found.confidence < 1e-9
