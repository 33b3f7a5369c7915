"""Real processes with damaged, missing, shared and forbidden caches: slower at worst, never wrong.

TINYTRAIN_CACHE_RUNS=N adds N random damages and N kills to the few that are always tried, and takes the
machine code of a kernel through every truncation in steps of 64 bytes and 10 N flipped bits.
"""

import ctypes
import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from cases import quick
from jit_run import deny

from tinytrain.base.cache_folder import cache_folder
from tinytrain.kernels.compile_cache import cache as jitcache
from tinytrain.kernels.compile_cache import facts as jitfacts

SCRIPT = Path(__file__).with_name("jit_run.py")
MORE = int(os.environ.get("TINYTRAIN_CACHE_RUNS", "0"))
FACTS = jitfacts.made_for()
DAMAGED, UNUSABLE = "tinytrain: jit-cache-damaged: ", "tinytrain: jit-cache-unusable: "

pytestmark = pytest.mark.skipif(FACTS["numba"] == "none", reason="numba is not installed")


def start(what, cache=None, **options):
    environment = dict(os.environ, **options.pop("env", {}))
    if cache is not None:
        environment["TINYTRAIN_CACHE"] = str(cache)
    command = [sys.executable, SCRIPT, what]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes, **options)


def finish(process):
    """What it printed, and its lines on stderr."""
    out, err = process.communicate(timeout=3000)
    assert process.returncode == 0, err
    return json.loads(out), err.splitlines()


def run(*arguments, **options):
    return finish(start(*arguments, **options))


def place(cache):
    """The folder of this installation in `cache`."""
    return Path(cache) / "jit" / jitcache.folder_of(FACTS)


def look(cache):
    return jitcache.inspect(place(cache))


@pytest.fixture(scope="module")
def clean_run():
    """A clean run with the cache that every other test uses, and where that lies."""
    run("adapt")
    return run("adapt")[0], cache_folder("jit") / jitcache.folder_of(FACTS)


@pytest.fixture
def warm(clean_run, tmp_path):
    """A verified cache of one's own."""
    place(tmp_path).mkdir(mode=0o700, parents=True)
    # Only what is whole: another process may be at work in the folder that is copied.
    for name in jitcache.inspect(clean_run[1]).good:
        shutil.copyfile(clean_run[1] / name, place(tmp_path) / name)
    assert look(tmp_path).state == "verified"
    return tmp_path


def files(cache, pattern):
    return sorted(place(cache).glob(pattern))


def truncate(path, draw):
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data))])


def flip(path, draw):
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def damage_two(cache, draw):
    truncate(files(cache, "*.head.normalize_rows-*")[0], draw)
    flip(files(cache, "*.dense.pool-*")[0], draw)


def damage_digest(cache, draw):
    """What the file says of itself."""
    path = files(cache, "*.dense.pool-*")[0]
    path.write_bytes(b"0" * 32 + path.read_bytes()[32:])


def empty_one(cache, draw):
    files(cache, "*.dense.pool-*")[0].write_bytes(b"")


def damage_anything(cache, draw):
    for path in draw.sample(files(cache, "*.kernel"), 2):
        draw.choice((truncate, flip))(path, draw)


CASES = [damage_two, damage_digest, empty_one, *[damage_anything] * MORE]


@pytest.mark.parametrize("number", quick(range(len(CASES))))
def test_a_damaged_cache_changes_nothing_but_time(clean_run, warm, number):
    whole = len(look(warm).good)
    CASES[number](warm, random.Random(number))
    assert look(warm).state == "damaged" and len(look(warm).good) < whole
    result, said = run("adapt", warm)
    assert result["digest"] == clean_run[0]["digest"] and result["backend"] == "numba"
    assert len(said) == 1 and said[0].startswith(DAMAGED)
    assert look(warm).state == "verified"


def test_what_is_lost_or_does_not_belong_there_costs_no_word(clean_run, warm):
    """Also what a process left that was killed while it wrote."""
    whole = look(warm).good
    lost = files(warm, "*.dense.pool-*")[0]
    (lost.parent / f".{lost.name}.00.tmp").write_bytes(lost.read_bytes()[:700])
    (lost.parent / "notes.txt").write_text("foreign")
    lost.unlink()
    result, said = run("adapt", warm)
    assert result["digest"] == clean_run[0]["digest"] and said == []
    assert not (lost.parent / "notes.txt").exists() and look(warm).good.keys() == whole.keys()


@pytest.fixture(scope="module")
def few_run():
    return run("few")[0]


@pytest.mark.slow
def test_two_cold_processes_at_once_do_not_harm_each_other(few_run, tmp_path):
    both = [start("few", tmp_path) for _ in range(2)]
    for result, said in map(finish, both):
        assert result["digest"] == few_run["digest"] and said == []
    assert look(tmp_path).state == "verified"
    assert run("few", tmp_path) == (few_run, []) and look(tmp_path).kernels >= 2


@pytest.mark.parametrize("number", range(1 + MORE))
def test_a_cold_process_that_is_killed_leaves_nothing_harmful(few_run, tmp_path, number):
    process = start("few", tmp_path)
    while process.poll() is None and not files(tmp_path, "*.kernel"):
        time.sleep(0.005)
    time.sleep(random.Random(number).uniform(0, 0.5) if number else 0)
    process.kill()
    process.communicate()
    assert run("few", tmp_path) == (few_run, []) and look(tmp_path).state == "verified"


def damages(folder):
    """Some truncations and flipped bits of the machine code of one kernel in `folder`."""
    draw, rows = random.Random(0), []
    for path in Path(folder).rglob("*normalize_rows*.kernel"):
        name, size = str(path.relative_to(folder)), path.stat().st_size
        cuts = [[name, "cut", length] for length in range(0, size, 64)]
        flips = [[name, "flip", draw.randrange(8 * size)] for _ in range(10 * MORE or 4)]
        rows += [*(cuts if MORE else draw.sample(cuts, 4)), *flips]
    return rows


@pytest.mark.slow
def test_every_damage_of_a_kernel_is_noticed_and_changes_no_bit_of_the_result(few_run, tmp_path):
    assert run("few", tmp_path / "whole") == (few_run, [])
    rows = damages(tmp_path / "whole")
    command = [sys.executable, SCRIPT.with_name("jit_damage.py"), tmp_path / "whole", tmp_path / "scratch"]
    done = subprocess.run(command, input=json.dumps(rows), capture_output=True, text=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(rows) >= 8, done.stderr
    for row, result in zip(rows, results, strict=True):
        assert result["digest"] == few_run["digest"], row
        assert len(result["said"]) == 1 and result["said"][0].startswith(DAMAGED), row


def test_a_full_disk_costs_only_the_keeping(few_run, tmp_path):
    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    result, said = run("few", tmp_path, preexec_fn=no_room)
    assert result == few_run and len(said) == 1 and "could not be kept" in said[0]


def agrees(result, clean):
    np.testing.assert_allclose(result["numbers"], clean["numbers"], rtol=1e-3, atol=1e-4)
    assert result["backend"] == "numpy"


def test_without_a_place_to_keep_kernels_numpy_runs(clean_run, tmp_path):
    (tmp_path / "file").write_text("no folder")
    result, said = run("adapt", tmp_path / "file")
    agrees(result, clean_run[0])
    assert len(said) == 1 and said[0].startswith(UNUSABLE) and "TINYTRAIN_CACHE" in said[0]


@pytest.mark.parametrize("broken", ["raise ImportError('no numba')", "config = None"])
def test_with_a_broken_numba_numpy_runs(clean_run, tmp_path, broken):
    (tmp_path / "numba.py").write_text(broken)
    result, said = run("adapt", tmp_path / "empty", env={"PYTHONPATH": str(tmp_path)})
    agrees(result, clean_run[0])
    assert len(said) == 1 and said[0].startswith("tinytrain: numba-unusable: ")


def test_kernels_on_disk_need_no_numba(clean_run, warm):
    (warm / "numba.py").write_text("raise ImportError('no numba')")
    assert run("adapt", warm, env={"PYTHONPATH": str(warm)}) == (clean_run[0], [])


def test_a_kernel_that_is_not_on_disk_runs_in_numpy_if_numba_is_broken(clean_run, warm):
    files(warm, "*.dense.pool-*")[0].unlink()
    (warm / "numba.py").write_text("raise ImportError('no numba')")
    result, said = run("adapt", warm, env={"PYTHONPATH": str(warm)})
    np.testing.assert_allclose(result["numbers"], clean_run[0]["numbers"], rtol=1e-3, atol=1e-4)
    assert len(said) == 1 and "kernel-not-compiled: pool cannot be compiled (ImportError" in said[0]


ARRAYS = "x, b = np.ones((4, 3), np.float32), np.ones(3, np.float32);"
USUAL = "k.add_bias(x, b);"
READ_ONLY = "b.flags.writeable = False; k.add_bias(x, b);"  # a type of its own for numba


def compiled(cache, what):
    """How many kernels a process had to compile to run `what`, and its stderr."""
    code = (
        "import subprocess, sys, numpy as np; from tinytrain import kernels; k = kernels.load('numba');"
        "from tinytrain.kernels.compile_cache.watch import WATCH; told = [];"
        f"{ARRAYS}watched = WATCH.told(told.append); watched.__enter__();{what}"
        "print(len(told) - told.count(None))"
    )
    environment = dict(os.environ, TINYTRAIN_CACHE=str(cache))
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    return int(ran.stdout), ran.stderr


@pytest.mark.slow
def test_a_second_signature_of_a_kernel_is_no_damage(tmp_path):
    assert compiled(tmp_path, USUAL) == (1, "")
    assert compiled(tmp_path, READ_ONLY) == (1, "")
    assert compiled(tmp_path, USUAL + READ_ONLY) == (0, "")


@pytest.mark.slow
def test_two_signatures_that_one_run_compiled_are_there_for_the_next(tmp_path):
    assert compiled(tmp_path, USUAL + READ_ONLY) == (2, "")
    assert compiled(tmp_path, USUAL + READ_ONLY) == (0, "")


@pytest.mark.slow
def test_what_another_process_compiles_meanwhile_is_not_compiled_again(tmp_path):
    other = f"from tinytrain import kernels; k = kernels.load(); import numpy as np;{ARRAYS}{USUAL}"
    wait = f"subprocess.run([sys.executable, '-c', {other!r}], check=True);"
    assert compiled(tmp_path, wait + USUAL) == (0, "")


# A victim that has looked at its kernels and not used them yet; it goes on when a line arrives.
VICTIM = (
    "import sys, numpy as np; from tinytrain import kernels; k = kernels.load();"
    "print(k.backend, flush=True); sys.stdin.readline();"
    "x = np.ones((2, 4), np.float32); k.normalize_rows(x); print(x[0, 0])"
)
OTHER_USER = 65534


class Planted:
    """A pickle of it leaves a trace in the folder of whoever loads it."""

    def __reduce__(self):
        return open, ("ran", "x")


def attacked(cache, attack):
    """What a victim with `cache` says before and after `attack`, and whether what was planted ran."""
    names = [path.relative_to(cache) for path in cache.rglob("*.kernel")]
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, TINYTRAIN_CACHE=str(cache)), cwd=cache,
    )  # fmt: skip
    before = victim.stdout.readline().strip()
    attack(cache, names)
    return before, victim.communicate("\n", timeout=3000)[0].strip(), (cache / "ran").exists()


def exchange(cache, names):
    """Put another folder in the place of the verified one."""
    (cache / "jit").rename(cache / "before")
    for name in names:
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        planted = pickle.dumps(Planted())
        (cache / name).write_bytes(hashlib.sha256(planted).digest() + planted)


def exchange_as_another(cache, names):
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setresgid(OTHER_USER, OTHER_USER, OTHER_USER)
            os.setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
            exchange(cache, names)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and (cache / names[0]).stat().st_uid == OTHER_USER


@pytest.mark.slow
def test_files_that_are_exchanged_after_they_were_verified_are_not_loaded(few_run, tmp_path):
    """Also by the same user: what runs is what was verified, whatever lies there by the first call."""
    assert run("few", tmp_path) == (few_run, [])
    assert attacked(tmp_path, exchange) == ("numba", "0.5", False)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator can act as two users")
def test_another_user_who_may_write_above_the_cache_gets_nothing_loaded(few_run):
    with tempfile.TemporaryDirectory() as folder:  # one that the other user can reach, unlike tmp_path
        assert run("few", Path(folder)) == (few_run, [])
        os.chmod(folder, 0o777)
        assert attacked(Path(folder), exchange_as_another) == ("numpy", "0.5", False)


may_be_denied = pytest.mark.skipif(  # PR_GET_MDWE
    ctypes.CDLL(None).prctl(66, 0, 0, 0, 0) < 0, reason="needs Linux 6.3"
)


@may_be_denied
@pytest.mark.parametrize("warm", [False, True])
def test_a_process_that_may_not_make_memory_executable_computes_in_numpy_and_says_why(
    few_run, tmp_path, warm
):
    if warm:
        assert run("few", tmp_path) == (few_run, [])
    found, (line,) = run("few", tmp_path, preexec_fn=deny)
    assert found["backend"] == "numpy" and np.allclose(found["numbers"], few_run["numbers"], atol=1e-6)
    assert "numba-unusable: this process may not make memory executable" in line
    assert "set MemoryDenyWriteExecute=no" in line and "install" not in line


@may_be_denied
def test_kernels_that_come_after_memory_may_not_be_made_executable_any_more_run_in_numpy(few_run, tmp_path):
    assert run("few", tmp_path) == (few_run, [])
    found, lines = run("denied", tmp_path)
    assert np.allclose(found["numbers"], few_run["numbers"], atol=1e-6)
    assert "kernel-not-compiled: normalize_rows" in lines[0] and "MemoryDenyWriteExecute" in lines[0]
