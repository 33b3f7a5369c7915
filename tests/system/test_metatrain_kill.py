"""The commands of the offline stage as a user runs them: killed in the middle, and with what cannot work.

Three kills by default; ``TINYTRAIN_METATRAIN_KILLS=20`` makes it that many.
"""

import os
import signal
import subprocess
import sys
import time

import pytest
import toynets
import toyruns
import yaml

from tinytrain import cli
from tinytrain.modelfile import load_backbone, save_network

KILLS = int(os.environ.get("TINYTRAIN_METATRAIN_KILLS", "3"))
EPISODES = 60 * -(-KILLS // 10)


@pytest.fixture
def files(tmp_path):
    """(recipe, network) of a toy run of some seconds."""
    save_network(toynets.toy(), tmp_path / "start.safetensors")
    return write(tmp_path, episodes=EPISODES), str(tmp_path / "start.safetensors")


def write(tmp_path, kind="meta-train", **changes) -> str:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(toyruns.content(tmp_path, kind) | changes))
    return str(path)


def command(files, out) -> list[str]:
    recipe, network = files
    return ["meta-train", recipe, "--backbone", network, "-o", str(out), "--threads", "1"]


def start(files, out) -> subprocess.Popen:
    line = [sys.executable, "-m", "tinytrain", *command(files, out)]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def rows(log) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def test_a_run_killed_again_and_again_ends_with_the_same_bytes(files, tmp_path):
    assert cli.main(command(files, tmp_path / "whole.safetensors")) == 0
    out, log = tmp_path / "killed.safetensors", tmp_path / "killed.jsonl"
    r = toynets.rng("kills")
    for _ in range(KILLS):
        reached, process = rows(log), start(files, out)
        while process.poll() is None and rows(log) <= reached:  # further than the life before
            time.sleep(0.001)
        time.sleep(r.uniform(0, 0.05))  # anywhere in a step
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    process = start(files, out)
    _, said = process.communicate()
    assert process.returncode == 0
    assert "goes on from step" in said
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    assert log.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]


def test_ctrl_c_is_answered_in_one_line_and_the_run_goes_on_later(files, tmp_path):
    out = tmp_path / "net.safetensors"
    process = start(files, out)
    while process.poll() is None and rows(tmp_path / "net.jsonl") < 3:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert cli.main(command(files, out)) == 0


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"optimizer": {"rate": 1e3, "warm_up": 0}}, 5, "diverged: the weights grew"),
        (
            {"episode": {"way": 30}},
            3,
            "too-few-pictures: 'source' has 4 of 4 classes with 3 + 3 pictures, 30 are needed",
        ),
        ({"episode": {"way": 1}}, 3, "episode.way is 1; allowed: a whole number from 2 to"),
        ({"sources": [{"data": "signz"}]}, 3, "unknown-dataset"),
    ],
)
def test_what_cannot_work_is_one_line_and_an_exit_code(files, tmp_path, capsys, changes, code, said):
    out = tmp_path / "net.safetensors"
    recipe = write(tmp_path, **changes)
    assert cli.main(command((recipe, files[1]), out)) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert said in last
    assert not out.exists()


def test_pretrain_from_a_recipe_to_a_network(tmp_path, capsys):
    out = tmp_path / "net.safetensors"
    assert cli.main(["pretrain", write(tmp_path, "pretrain"), "-o", str(out), "--threads", "1"]) == 0
    assert load_backbone(out).name == "toy"
    assert "left-out domains" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--resume"], ["--resume", "--restart"], ["-o", "net.bin"]])
def test_command_lines_that_mean_nothing(files, tmp_path, more):
    assert cli.main([*command(files, tmp_path / "net.safetensors"), *more]) == 2
