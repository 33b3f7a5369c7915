"""The same bits on every processor that can fuse a product and a sum.

Every arrangement is a process of its own: the processor that runs the tests, with all that numba, BLAS, numpy
and the C library make of it, and the same one taken for an older relative. Some kernels by default;
``TINYTRAIN_BITS_RUNS=3`` takes all of them and adapts three times.
"""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from kernelarrays import Output
from kernelcases import CASES

from tinytrain.delta.file import load_delta
from tinytrain.pipeline.head_tasks import made_up

RUNS = int(os.environ.get("TINYTRAIN_BITS_RUNS", "0"))
long = pytest.mark.skipif(not RUNS, reason="minutes: TINYTRAIN_BITS_RUNS=3")
OLDER = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", ())),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA",
}
SUMS = (
    "depthwise_grad_input_codes", "depthwise_grad_weight", "grad_input_codes", "grad_weight_codes",
    "inverse_diagonal", "matmul", "prototype_loss",
)  # fmt: skip
CALLS = """
import pickle, sys
from pathlib import Path
from tinytrain import kernels

file, table = Path(sys.argv[1]), kernels.load("numba")
calls = pickle.loads(file.read_bytes())
for name, arguments in calls.items():
    getattr(table, name)(*arguments)
file.write_bytes(pickle.dumps((table.backend, calls)))
"""
HEADS = """
import pickle, sys
from pathlib import Path
from tinytrain.heads.registry import HEADS
from tinytrain.pipeline.head_conformance import fingerprint

file = Path(sys.argv[1])
tasks = pickle.loads(file.read_bytes())
file.write_bytes(pickle.dumps({name: fingerprint(method, tasks, "numba") for name, method in HEADS.items()}))
"""


def process(command, variables, cache):
    environment = os.environ | {"TINYTRAIN_CACHE": str(cache)} | variables
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr


def arguments(name):
    """Arguments of a kernel, the same whoever asks."""
    r = np.random.default_rng(7)
    if name == "matmul":  # long sums, so that an order shows
        x, w = r.standard_normal((24, 160)).astype("f"), r.standard_normal((160, 40)).astype("f")
        return [np.full((24, 40), np.nan, "f"), x, w]
    return [np.array(a.start) if isinstance(a, Output) else a for a in CASES[name](r)]


def outputs(folder, variables):
    """What kernels made of their arrays, in a process with `variables`: "kernel argument" -> array."""
    folder.mkdir()
    # Made here and handed over, because making them takes numpy's own sums.
    calls = {name: arguments(name) for name in (CASES if RUNS else SUMS)}
    (folder / "calls").write_bytes(pickle.dumps(calls))
    process(["-c", CALLS, str(folder / "calls")], variables, folder)
    found, calls = pickle.loads((folder / "calls").read_bytes())
    assert found == "numba"
    arrays = {f"{name} {k}": a for name, given in calls.items() for k, a in enumerate(given)}
    return {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}


def unlike(a, b):
    """Kernels of which any bit differs."""
    assert a.keys() == b.keys()
    return {name.split()[0] for name in a if a[name].tobytes() != b[name].tobytes()}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return outputs(tmp_path_factory.mktemp("bits") / "this", {})


@pytest.mark.slow
def test_kernels_give_the_same_bits_on_an_older_processor(here, tmp_path):
    assert unlike(here, outputs(tmp_path / "older", OLDER)) == set()


@pytest.mark.slow
def test_a_head_is_fitted_and_updated_to_the_same_bits_on_an_older_processor(tmp_path):
    found = []
    for name, variables in (("this", {}), ("older", OLDER)):
        file = tmp_path / f"{name} tasks"
        file.write_bytes(pickle.dumps([made_up(5, 160, 20), made_up(3, 160, 4)]))
        process(["-c", HEADS, str(file)], variables, tmp_path / name)
        found.append(pickle.loads(file.read_bytes()))
    assert found[0] == found[1] and len(found[0]) > 5


@long
@pytest.mark.parametrize("how", ["--macs 15%", "--macs 30%", "--precision int8"])
@pytest.mark.parametrize("seed", range(RUNS))
def test_an_adaptation_trains_the_same_bits_on_an_older_processor(tmp_path, seed, how):
    photos, deltas = tmp_path / "photos", []
    process(["-m", "tinytrain", "data", "export", "leaves", str(photos), "--per-class", "8"], {}, tmp_path)
    for name, variables in (("this", {}), ("older", OLDER)):
        out = tmp_path / f"{name}.safetensors"
        task = [str(photos), "--way", "5", "--seed", str(seed), *how.split(), "--out", str(out)]
        process(["-m", "tinytrain", "adapt", *task], variables, tmp_path / name)
        deltas.append(load_delta(out))
    this, older = deltas
    assert len(this.slices) == len(older.slices) > 5
    for a, b in zip(this.slices, older.slices, strict=True):
        assert (a.layer, a.part, a.values.tobytes()) == (b.layer, b.part, b.values.tobytes())
        assert (a.channels == b.channels).all()
    assert this.head.weights.tobytes() == older.head.weights.tobytes()
