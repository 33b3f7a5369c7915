"""The commands of the offline stage as a user runs them: killed in the middle, on a full disk, and with what
cannot work.

Three kills by default; ``TINYTRAIN_METATRAIN_KILLS=20`` makes it that many.
"""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest
import toynets
import toyruns
import yaml

from tinytrain.backbones.load import load_backbone
from tinytrain.cli import main as cli
from tinytrain.network.file import save_network

KILLS = int(os.environ.get("TINYTRAIN_METATRAIN_KILLS", "3"))
EPISODES = 60 * -(-KILLS // 10)
KEPT = (".safetensors", ".jsonl", ".svg")  # a checkpoint also holds how many seconds the run took
WRITE = os.write


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


@pytest.mark.slow
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


class Disk:
    """Counts `changes` of files in `folder`; takes `room` of them and is full then, also within a write."""

    def __init__(self, monkeypatch, folder, room=10**6):
        self.folder, self.room, self.changes = str(folder), room, 0
        monkeypatch.setattr(os, "open", self._guarded(os.open, lambda path, flags, *_: flags & os.O_CREAT))
        monkeypatch.setattr(os, "write", self._guarded(os.write))
        monkeypatch.setattr(os, "fsync", self._guarded(os.fsync))
        monkeypatch.setattr(os, "replace", self._guarded(os.replace))

    def _guarded(self, real, changes=lambda *_: True):
        def call(target, *more, **named):
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
            if path.startswith(self.folder) and changes(target, *more):
                self.changes += 1
                if self.changes > self.room:
                    if real is WRITE:
                        real(target, more[0][: len(more[0]) // 2])
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(target, *more, **named)

        return call


def trained_on(disk_of, files, out) -> tuple[int, Disk]:
    """Exit code of a run whose files go to a `Disk`, and that disk."""
    out.parent.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        disk = disk_of(patch, out.parent)
        return cli.main(command(files, out)), disk


def kept_in(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in KEPT}


@pytest.mark.slow
def test_a_disk_that_fills_up_at_any_write_stops_the_run_which_goes_on_to_the_same_bytes(tmp_path, capsys):
    save_network(toynets.toy(), tmp_path / "start.safetensors")
    files = write(tmp_path), str(tmp_path / "start.safetensors")
    code, whole = trained_on(Disk, files, tmp_path / "whole" / "net.safetensors")
    expected = kept_in(tmp_path / "whole")
    assert code == 0 and len(expected) == len(KEPT) and whole.changes > 40
    for room in range(whole.changes):
        capsys.readouterr()
        out = tmp_path / f"room{room}" / "net.safetensors"
        code, disk = trained_on(lambda *given, room=room: Disk(*given, room), files, out)
        last = capsys.readouterr().err.splitlines()[-1]
        assert code == 6 and disk.changes > room
        assert last.startswith(f"tinytrain: write-failed: {out.parent}") and "free some space" in last
        assert {path.suffix for path in out.parent.iterdir()} <= {*KEPT, ".checkpoint"}
        assert cli.main(command(files, out)) == 0
        assert kept_in(out.parent) == expected


def test_ctrl_c_is_answered_in_one_line_and_the_run_goes_on_later(files, tmp_path):
    out = tmp_path / "net.safetensors"
    process = start(files, out)
    while process.poll() is None and rows(tmp_path / "net.jsonl") < 1:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=3000)
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
            "too-few-images: 'source' has 4 of 4 classes with 3 + 3 images, 30 are needed",
        ),
        ({"episode": {"way": 1}}, 3, "episode.way is 1; allowed: a whole number from 2 to"),
        ({"sources": [{"data": "signz"}]}, 3, "unknown-name"),
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
    assert "held-out domains" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--resume"], ["--resume", "--restart"], ["-o", "net.bin"]])
def test_command_lines_that_mean_nothing(files, tmp_path, more):
    assert cli.main([*command(files, tmp_path / "net.safetensors"), *more]) == 2
