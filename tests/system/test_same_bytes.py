"""Same seed, same machine, same bytes: the delta file of the main job, written by fresh processes.

Two arrangements by default, beside the one that they are compared with; ``TINYTRAIN_SAME_RUNS=20`` takes 20
rounds of every number of threads with every hash seed, and compiles all kernels anew once for each number.
"""

import hashlib
import itertools
import os
import subprocess
import sys

import pytest

ROUNDS = int(os.environ.get("TINYTRAIN_SAME_RUNS", "0"))
THREADS, HASH_SEEDS = (1, 2, 3, 4), ("0", "1", "random")
FEW = [(1, "1", "warm"), (4, "random", "warm")]
ALL = [*itertools.product(THREADS, HASH_SEEDS, ["warm"] * ROUNDS), *((n, "random", "cold") for n in THREADS)]
TASK = ("--way", "3", "--shots", "3", "--queries", "3")


def digest(folder, threads, hash_seed, cache=None, seed=0):
    """SHA-256 of the delta that one process writes."""
    out = folder / "delta.safetensors"
    command = [sys.executable, "-m", "tinytrain", "adapt", *TASK, "--seed", str(seed), "--out", str(out)]
    variables = {"PYTHONHASHSEED": hash_seed, "OPENBLAS_NUM_THREADS": str(threads)}
    if cache:
        variables["TINYTRAIN_CACHE"] = str(cache)
    command += ["--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, timeout=3000)
    assert done.returncode == 0, done.stderr
    return hashlib.sha256(out.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return digest(tmp_path_factory.mktemp("first"), 2, "0")


@pytest.mark.parametrize("threads, hash_seed, kernels", ALL if ROUNDS else FEW)
def test_threads_also_those_of_blas_hash_seeds_and_cold_kernels_change_no_byte_of_a_delta(
    expected, tmp_path, threads, hash_seed, kernels
):
    assert digest(tmp_path, threads, hash_seed, tmp_path if kernels == "cold" else None) == expected


def test_another_seed_is_another_delta(expected, tmp_path):
    assert digest(tmp_path, 2, "0", seed=1) != expected
