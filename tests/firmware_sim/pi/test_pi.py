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


ROUNDING = 2.0**-10


def results(folder, older=None, portable=None, **changes):
    """The files of a run in which all sides agree but for `changes`, arrays of the emulated ones.

    This machine with older kernels differs from itself by ROUNDING, unless `older` says otherwise; `portable`
    changes what the emulated one did with portable kernels.
    """
    older = older or {}
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
    np.savez(folder / "older.npz", **agreed | {"7.weight": np.full((3, 2), 1 + ROUNDING, "f")} | older)
    exact = agreed | {"backend": np.array("portable")}
    np.savez(folder / "portable_host.npz", **exact)
    np.savez(folder / "portable.npz", **exact | (portable or {}))
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
    assert "100.00% of 2 x 1000" in out


@each(
    ("changes", "code"),
    [
        ({"after": other(1000, 2)}, 0),
        ({"after": other(1000, 3)}, 1),
        ({"7.weight": np.full((3, 2), 1 + 2 * ROUNDING, "f")}, 0),
        ({"7.weight": np.full((3, 2), 1 + 2.1 * ROUNDING, "f")}, 1),
        ({"older": {"7.weight": np.ones((3, 2), "f")}, "7.weight": np.full((3, 2), 1.00009, "f")}, 0),
        ({"older": {"7.weight": np.ones((3, 2), "f")}, "7.weight": np.full((3, 2), 1.00011, "f")}, 1),
        ({"older": {"7.weight": np.ones((2, 3), "f")}}, 1),
        ({"older": {"7.weight": np.full((3, 2), np.nan, "f")}}, 1),
        ({"losses": np.array([0.5 + 0.9e-4, 0.5, 0.5])}, 0),
        ({"losses": np.array([0.5 + 1.1e-4, 0.25, 0.125])}, 1),
        ({"losses": np.array([np.nan, 0.25, 0.125])}, 1),
        ({"7.weight": np.full((3, 2), np.nan, "f")}, 1),
        ({"7.weight": np.ones((2, 3), "f")}, 1),
        ({"8.weight": np.ones((3, 2), "f")}, 1),
        ({"backend": np.array("numpy")}, 1),
        ({"portable": {"7.weight": np.full((3, 2), 1 + 2**-23, "f")}}, 1),
        ({"portable": {"7.weight": np.ones((2, 3), "f")}}, 1),
        ({"portable": {"8.weight": np.ones((3, 2), "f")}}, 1),
        ({"portable": {"after": other(1000, 1)}}, 1),
        ({"portable": {"losses": np.array([0.5, 0.25, 0.125 + 2**-50])}}, 1),
        ({"portable": {"backend": np.array("numba")}}, 1),
    ],
    ids=[
        "2 of 2000",
        "3 of 2000",
        "weights as far as twice rounding",
        "farther",
        "1e-4 without rounding",
        "more without rounding",
        "rounding trains other shapes",
        "rounding is NaN",
        "first loss near",
        "first loss far",
        "first loss NaN",
        "NaN",
        "other shape",
        "other layer",
        "numpy",
        "portable other bit",
        "portable other shape",
        "portable other layer",
        "portable 1 of 2000",
        "portable other loss",
        "portable was not",
    ],
)
def test_what_differs_too_much_fails(tmp_path, changes, code):
    results(tmp_path, **changes)
    assert COMPARE["main"](tmp_path) == code


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
    assert capsys.readouterr().out.count("losses are equal in all steps") == 3
    results(tmp_path, losses=np.array([0.5, 0.375, 0.0]))
    COMPARE["main"](tmp_path)
    assert "one side alone: 0; losses differ from step 2 on, there by 1.2e-01" in capsys.readouterr().out


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
    assert "trained by one side alone: 2; losses" in capsys.readouterr().out
