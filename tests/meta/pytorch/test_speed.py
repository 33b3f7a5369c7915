"""The benchmark script on a toy network: what it counts, what it prints, and that it does without PyTorch."""

import json
import sys
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from tinytrain.backbones.load import load_backbone
from tinytrain.meta import pytorch
from tinytrain.meta.pytorch import speed
from tinytrain.meta.pytorch.our_side import Whole, images_of, support_episode
from tinytrain.meta.pytorch.timing import Row, Timing, in_turn
from tinytrain.network.file import save_network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_network

NETWORK = toy_network()


@pytest.fixture
def no_torch(monkeypatch):
    for name in ("torch_reference", "torch_training"):
        monkeypatch.delitem(sys.modules, f"{pytorch.__name__}.{name}", raising=False)
        monkeypatch.delattr(pytorch, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def backbone(tmp_path):
    save_network(NETWORK, tmp_path / "toy.safetensors")
    return str(tmp_path / "toy.safetensors")


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


def test_with_torch_both_sides_agree_before_anything_is_timed(backbone, tmp_path, capsys):
    pytest.importorskip("torch")
    figures = tmp_path / "figures.json"
    options = ["--backbone", backbone, "--json", str(figures), "--threads", "1", "--repeats", "1"]
    assert speed.main([*options, "--only", "a,c2"]) == 0
    found = json.loads(figures.read_text())
    assert max(found["differences"].values()) <= speed.AGREE
    assert all(row["ratio"] > 0 and row["how"]["PyTorch"] for row in found["rows"])


def test_the_same_algorithm_in_torch_begins_with_the_same_losses():
    training = pytest.importorskip("tinytrain.meta.pytorch.torch_training", exc_type=ModuleNotFoundError)
    episode = support_episode(NETWORK)
    adapted = adapt(NETWORK, episode)
    task = training.Task(NETWORK, episode, images_of(NETWORK, episode), adapted.program)
    task.cached("contiguous")
    # Borders of turned images and features in 8 bits differ a little.
    np.testing.assert_allclose(task.losses[:3], adapted.ran.losses[:3], rtol=0.1)


def test_each_case_compares_with_its_own_work_of_the_other_side(backbone, monkeypatch, capsys):
    """A stand-in for PyTorch, whose work of case c1 lasts longer than that of c2."""
    called = []
    passes = SimpleNamespace(
        FORMATS=("one", "two"), TorchNetwork=lambda network, name: name, set_threads=lambda n: None,
        differences=lambda *sides: {"embeddings": 0.0},
        forward=lambda name, images: partial(called.append, f"forward {len(images)}"),
        forward_backward=lambda name, images, g: partial(called.append, f"backward {len(images)}"),
    )  # fmt: skip

    class Task:
        def __init__(self, *facts):
            pass

        def plainly(self, name):
            time.sleep(0.3)

        def cached(self, name):
            return {"features": 1.0, "training": 2.0 + (name == "one")}

    monkeypatch.setattr(speed, "load_torch", lambda: (passes, SimpleNamespace(Task=Task)))
    monkeypatch.setattr(Whole, "forward", lambda self, count: called.append(f"our forward {count}"))
    monkeypatch.setattr(Whole, "forward_backward", lambda self: called.append("our backward 25"))
    bench = speed.Benchmark(load_backbone(backbone), 1)
    rows = {row.name: row for row in bench.run(list(speed.CASES), 1)}
    passed = ["our forward 1", "forward 1", "our forward 25", "forward 25", "our backward 25", "backward 25"]
    assert list(dict.fromkeys(called)) == passed
    ours, parts = [rows[name].seconds["ours"] for name in speed.ADAPTATIONS], bench.parts[1]
    assert ours == [parts["total"], parts["features + training"], parts["training"]]
    assert rows["c1"].seconds["PyTorch"].minimum >= 0.3
    assert rows["c2"].seconds["PyTorch"].minimum == 3.0 and rows["c2"].how["PyTorch"] == "two"
    assert rows["c2: training alone"].seconds["PyTorch"].minimum == 2.0
    assert rows["c2: training alone"].slower["PyTorch one"].minimum == 3.0
    assert all(set(row.seconds) == {"ours", "PyTorch"} for row in rows.values())


@pytest.mark.parametrize("options", [["--only", "a,d"], ["--threads", "two"]])
def test_nonsense_on_the_command_line_is_a_usage_error(options, capsys):
    assert speed.main(options) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_sides_take_turns_and_parts_are_kept():
    seen = []
    sides = {"x": lambda: seen.append("x") or {"part": 2.0}, "y": lambda: seen.append("y")}
    found = in_turn(sides, 2)
    counted = "".join(seen).lstrip("x").lstrip("y")  # what is short is repeated within a turn
    assert counted.startswith("x") and counted.endswith("y") and counted.count("xy") == 2
    assert found["x"]["part"] == Timing(2.0, 2.0, 2)
    assert set(found["y"]) == {"total"} and found["y"]["total"].samples == 2


def test_work_that_lasts_long_is_called_once_before_it_is_timed(monkeypatch):
    monkeypatch.setattr("tinytrain.meta.pytorch.timing.LONG", 0.0)
    seen = []
    in_turn({"x": lambda: seen.append("x")}, 3)
    assert len(seen) == 4


def test_a_row_compares_the_fastest_variant_of_each_side():
    fast, slow, slower = Timing(1.0, 2.0, 3), Timing(5.0, 6.0, 3), Timing(7.0, 7.0, 3)
    variants = {
        ("ours", "1 per call"): fast,
        ("PyTorch", "channels_last"): slower,
        ("PyTorch", "usual"): slow,
    }
    row = Row.of("c1", 2, {side: {"total": time} for side, time in variants.items()})
    assert (row.ratio(), row.ratio("median")) == (5.0, 3.0)
    assert row.slower == {"PyTorch channels_last": slower}
    assert "PyTorch: usual" in row.line() and "PyTorch channels_last: 7000.00" in row.line()
