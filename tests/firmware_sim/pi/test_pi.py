"""The comparison of the emulated Pi with this machine, and that it is skipped for everybody to see."""

import os
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cases import each

from tinytrain.datasets.generated.leaves import leaves

ROOT = Path(__file__).parents[3]
COMPARE = runpy.run_path(str(ROOT / "firmware_sim/pi/compare.py"))


def results(folder, **changes):
    """The files of a run in which all sides agree but for `changes`, arrays of the emulated ones."""
    agreed = {
        "labels": np.arange(1000) % 5,
        "before": np.arange(1000) % 4,
        "after": np.arange(1000) % 5,
        "backend": np.array("numba"),
        "7.weight": np.ones((3, 2), "f"),
        "losses": np.array([0.5, 0.25, 0.125]),
    }
    for name in ("cold", "warm", "host"):
        np.savez(folder / f"{name}.npz", **(agreed if name == "host" else agreed | changes))
    for name, count in (("start", 10**9), ("cold", 10**11), ("warm", 4 * 10**10)):
        (folder / name).write_text(f"{count}\n")


def other(size, count):
    """`size` predictions of which `count` are not what `results` has."""
    after = np.arange(size) % 5
    after[:count] += 1
    return after


def test_instructions_become_seconds_marked_uncalibrated(tmp_path, capsys):
    results(tmp_path)
    assert COMPARE["main"](tmp_path) == 0
    out = capsys.readouterr().out
    assert "40,000,000,000 instructions: 50 to 80 s at 1 GHz" in out and "uncalibrated" in out
    assert "emulated and here: the same bits in 6 arrays" in out


@each(
    "changes",
    [
        {"after": other(1000, 1)},
        {"7.weight": np.full((3, 2), 1 + 2**-23, "f")},
        {"7.weight": np.ones((2, 3), "f")},
        {"8.weight": np.ones((3, 2), "f")},
        {"losses": np.array([0.5, 0.25, 0.125 + 2**-50])},
        {"backend": np.array("numpy")},
    ],
    ids=["1 of 2000 predictions", "other bit", "other shape", "other layer", "other loss", "numpy"],
)
def test_whatever_differs_fails(tmp_path, changes):
    results(tmp_path, **changes)
    assert COMPARE["main"](tmp_path) == 1


@pytest.mark.parametrize(
    "changes", [{"7.weight": np.full((3, 2), 1.00001)}, {"losses": np.zeros(3)}, {"before": other(1000, 1)}]
)
def test_compiling_must_not_change_a_bit(tmp_path, changes):
    results(tmp_path)
    np.savez(tmp_path / "cold.npz", **{**np.load(tmp_path / "cold.npz"), **changes})
    assert COMPARE["main"](tmp_path) == 1


def test_the_step_is_named_from_which_two_runs_differ(tmp_path, capsys):
    results(tmp_path)
    COMPARE["main"](tmp_path)
    assert capsys.readouterr().out.count("losses are equal in all steps") == 2
    results(tmp_path, losses=np.array([0.5, 0.375, 0.0]))
    COMPARE["main"](tmp_path)
    assert "0 channels; losses differ from step 2 on, there by 1.2e-01" in capsys.readouterr().out


def test_without_its_tools_the_emulated_pi_is_skipped_with_a_code_of_its_own(tmp_path):
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    done = subprocess.run(
        [ROOT / ".ci/emulated"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path), "HOME": os.devnull},
    )
    assert done.returncode == 77
    assert done.stderr.startswith("SKIPPED: the emulated Pi needs qemu-aarch64") and "apt-get" in done.stderr


@pytest.mark.parametrize("queries", [2, 57])
def test_the_job_adapts_to_the_images_that_were_drawn(tmp_path, queries):
    """Drawn once, read on both machines; as many as are asked for, also more than the usual 60."""
    script = {name: runpy.run_path(str(ROOT / f"firmware_sim/pi/{name}.py")) for name in ("photos", "job")}
    photos, per_class = str(tmp_path / "photos"), 5 + queries
    assert script["photos"]["main"](photos, per_class) == 5 * per_class
    episode = script["job"]["job"](queries, photos)
    assert (len(episode.support), len(episode.query)) == (25, 5 * queries)
    if queries == 2:
        dataset = leaves(range(5), per_class)
        drawn = {dataset.read(i, 128).tobytes() for i in range(5 * per_class)}
        assert all(episode.support.read(i, 128).tobytes() in drawn for i in range(25))


def test_channels_that_one_side_alone_trained_are_counted(tmp_path, capsys):
    results(tmp_path, **{"channels of 7.weight": np.array([3, 5])})
    np.savez(tmp_path / "host.npz", **dict(np.load(tmp_path / "warm.npz")) | {"channels of 7.weight": [3, 4]})
    COMPARE["main"](tmp_path)
    assert ", 2 channels; losses" in capsys.readouterr().out
