"""The command that makes the shipped backbone again, with stages and packs that take no time."""

import hashlib
import subprocess
import sys

import pytest
import toynets

from tinytrain.base.errors import StorageError
from tinytrain.meta import release as ship
from tinytrain.network.file import load_network, save_network

RESULT = {
    "steps": 10, "best_step": 8, "seconds": 90.0, "start": {"left_out": {"leaves": [0.25, 0.01]}},
    "float32": {"left_out": {"leaves": [0.5, 0.01]}}, "int8": {"left_out": {"leaves": [0.49, 0.01]}},
}  # fmt: skip


@pytest.fixture
def stages(monkeypatch):
    """Stages that only write a toy network; the commands that were asked for."""
    asked = []

    def run_stage(kind, recipe, options, work):
        asked.append([kind, recipe, *options])
        save_network(toynets.toy("blocks"), work / f"{recipe}.safetensors")
        return ship.Stage(f"tinytrain {kind} {recipe}", RESULT)

    monkeypatch.setattr(ship, "run_stage", run_stage)
    return asked


@pytest.mark.slow
def test_the_network_is_named_after_its_file_and_the_card_holds_its_sha256(stages, tmp_path):
    out = tmp_path / "made.safetensors"
    ship.ship(ship.RELEASES["image"], tmp_path, out, [], 1)
    assert [kind for kind, *_ in stages] == ["pretrain", "meta-train", "meta-train"]
    assert [recipe for _, recipe, *_ in stages] == ["shipped-pretrain", "shipped-meta", "shipped-tasks"]
    made = load_network(out)
    assert made.name == "made" and made.quantisation is not None
    card = out.with_suffix(".md").read_text()
    assert hashlib.sha256(out.read_bytes()).hexdigest() in card
    assert "step 8 of 10, 2 minutes" in card and "| leaves | 25.0 | 50.0 | 49.0 |" in card


def test_every_pack_is_judged_as_it_is_and_adapted(stages, monkeypatch):
    rows = iter([(0.5, 0.6, 0.7), (0.7, 0.6, 0.9)])
    monkeypatch.setattr(
        ship, "run_episode", lambda *a: {"accuracy": dict(zip(ship.COLUMNS, next(rows), strict=True))}
    )
    found = ship.judge(toynets.toy("blocks"), ["signs"], 2)
    assert found["signs"]["before_cosine"].mean == pytest.approx(60)
    after = found["signs"]["after"]
    assert (after.mean, after.half) == pytest.approx((80, 12.706 * 14.142 / 2**0.5), rel=1e-3)


def test_a_missing_folder_is_refused_before_the_work(stages, tmp_path):
    with pytest.raises(StorageError, match="is no folder"):
        ship.ship(ship.RELEASES["image"], tmp_path / "nowhere", tmp_path / "made.safetensors", [], 1)
    assert not stages


def finished(code: int, printed: bytes = b""):
    """A stand-in for `subprocess.run`, and the (command, folder) that it was called with."""
    seen = []

    def run(command, cwd, stdout):
        seen.append((command, cwd))
        return subprocess.CompletedProcess(command, code, printed)

    return run, seen


def test_a_stage_is_the_command_as_typed_and_the_object_it_printed(monkeypatch, tmp_path):
    run, seen = finished(0, b'{"steps": 3}')
    monkeypatch.setattr(ship.subprocess, "run", run)
    stage = ship.run_stage("pretrain", "recipe", ["--teacher", "net"], tmp_path)
    typed = ["pretrain", "recipe", "--teacher", "net", "-o", "recipe.safetensors"]
    assert stage == ship.Stage(" ".join(["tinytrain", *typed]), {"steps": 3})
    assert seen == [([sys.executable, "-m", "tinytrain", *typed, "--json"], tmp_path)]


def test_a_stage_that_fails_ends_the_run_with_its_exit_code(monkeypatch, tmp_path):
    monkeypatch.setattr(ship.subprocess, "run", finished(5)[0])
    with pytest.raises(SystemExit) as ended:
        ship.run_stage("pretrain", "recipe", [], tmp_path)
    assert ended.value.code == 5
