"""The benchmark script on a toy network: what it counts, what it prints, and that it does without PyTorch."""

import json
import sys
from dataclasses import replace

import pytest

from tinytrain.meta.pytorch import mac_counts as executed
from tinytrain.meta.pytorch import speed
from tinytrain.meta.pytorch.our_side import COUNT, Whole, support_episode
from tinytrain.meta.pytorch.timing import Timing, alternately, in_turn
from tinytrain.network.file import save_network
from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.costs import full_backward_macs, image_macs
from tinytrain.plan.recipe import Recipe, StepOptions, Update

NETWORK = toy_network()


@pytest.fixture
def no_torch(monkeypatch):
    for name in ("torch_reference", "torch_training"):
        monkeypatch.delitem(sys.modules, f"tinytrain.meta.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def backbone(tmp_path):
    save_network(NETWORK, tmp_path / "toy.safetensors")
    return str(tmp_path / "toy.safetensors")


@pytest.mark.parametrize("micro", [1, 5, COUNT])
def test_a_forward_pass_executes_the_macs_of_the_network_and_a_full_step_those_of_the_formula(micro):
    program = Whole(NETWORK, support_episode(NETWORK), micro, 1).program
    forward = COUNT * NETWORK.macs
    backward = COUNT * (full_backward_macs(NETWORK) - NETWORK.layers[0].macs)
    assert executed.passes(program, "embed", COUNT) == forward
    assert executed.passes(program, "backward", COUNT) == forward + backward


def test_torch_trains_whole_layers_where_we_train_channels():
    part, whole = ((Update(4, channels, bias=True),) for channels in ((0, 3), tuple(range(16))))
    trained = {4: True}
    assert executed.torch_backward(NETWORK, trained, 4) == image_macs(NETWORK, whole)
    recipe = Recipe("toy", part, ((0.1, 0.1),), options=StepOptions(0.6), steps=3)
    one = NETWORK.macs + image_macs(NETWORK, whole)
    assert executed.torch_plain(NETWORK, recipe, 10) == 3 * 20 * one
    suffix = sum(layer.macs for layer in NETWORK.layers[4:])
    hard = 6 * (suffix + image_macs(NETWORK, whole))
    assert executed.torch_cached(NETWORK, recipe, 10, start=4) == 10 * suffix + 3 * hard
    both = replace(recipe, step="both", options=StepOptions(0.6, 0.3))
    assert executed.torch_cached(NETWORK, both, 10, start=4) == 10 * suffix + 3 * hard * 9 // 6


def test_without_torch_it_says_so_and_times_this_engine_alone(no_torch, backbone, tmp_path, capsys):
    figures = tmp_path / "figures.json"
    options = ["--backbone", backbone, "--json", str(figures), "--threads", "1", "--repeats", "1"]
    assert speed.main(options) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(speed.NO_TORCH)
    found = json.loads(figures.read_text())
    names = ["a: batch 1", "a: batch 25", "b", "c1", "c2", "c2: training alone"]
    assert [row["name"] for row in found["rows"]] == names
    assert all(row["ratio"] is None and list(row["seconds"]) == ["ours"] for row in found["rows"])
    assert found["rows"][0]["macs"]["ours"] == NETWORK.macs
    assert found["kernels"]["embed 5"][0]["kernel"] in shown


def test_with_torch_both_sides_agree_before_anything_is_timed(backbone, tmp_path, capsys):
    pytest.importorskip("torch")
    figures = tmp_path / "figures.json"
    options = ["--backbone", backbone, "--json", str(figures), "--threads", "1", "--repeats", "1"]
    assert speed.main([*options, "--only", "a,c2"]) == 0
    found = json.loads(figures.read_text())
    assert max(found["differences"].values()) <= speed.AGREE
    assert all(row["ratio"] > 0 and row["how"]["PyTorch"] for row in found["rows"])


@pytest.mark.parametrize("options", [["--only", "a,d"], ["--threads", "two"]])
def test_nonsense_on_the_command_line_is_a_usage_error(options, capsys):
    assert speed.main(options) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_sides_take_turns_and_parts_are_kept():
    seen = []
    found = in_turn({"x": lambda: seen.append("x") or {"part": 2.0}, "y": lambda: seen.append("y") or {}}, 2)
    assert seen == ["x", "y", "x", "y"]
    assert found["x"]["part"] == Timing(2.0, 2.0, 2)
    assert set(found["y"]) == {"total"}
    assert alternately({"x": lambda: None}, 3)["x"].samples == 3


def test_a_row_compares_minima_and_names_its_target():
    fast, slow = Timing(1.0, 2.0, 3), Timing(5.0, 6.0, 3)
    macs = {"ours": 1, "PyTorch": 1}
    row = speed.Row("c1", 2, {"ours": fast, "PyTorch": slow}, macs, {"PyTorch": "contiguous"}, {})
    assert (row.ratio(), row.ratio("median"), row.target) == (5.0, 3.0, 3)
    assert ">= 3" in row.line() and "PyTorch: contiguous" in row.line()
