"""The same bits on every processor, where `TINYTRAIN_PORTABLE` asks for them.

Every arrangement is a process of its own: the processor that runs the tests, with all that numba, BLAS and
numpy make of it, and the same one taken for its oldest relative. Kernels that sum, and the loss, by default;
``TINYTRAIN_PORTABLE_RUNS=3`` takes all kernels, and as many whole adaptations by the command line.
"""

import hashlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from kernelcases import CASES, Output

RUNS = int(os.environ.get("TINYTRAIN_PORTABLE_RUNS", "0"))
OLDER = {
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512_SKX ASIMDHP",
}
SUMS = ("depthwise_grad_weight", "inverse_diagonal", "matmul", "prototype_loss")
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


def process(command, variables, cache):
    environment = os.environ | {"TINYTRAIN_CACHE": str(cache), "TINYTRAIN_PORTABLE": "1"} | variables
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr


def arguments(name):
    """Arguments of a kernel, the same whoever asks."""
    found = CASES[name](np.random.default_rng(7))
    return [np.array(a.start) if isinstance(a, Output) else a for a in found]


def outputs(folder, variables):
    """What kernels made of their arrays, in a process with `variables`: "kernel argument" -> array."""
    folder.mkdir()
    # Made here and handed over, because making them takes numpy's own sums.
    calls = {name: arguments(name) for name in (CASES if RUNS else SUMS)}
    (folder / "calls").write_bytes(pickle.dumps(calls))
    process(["-c", CALLS, str(folder / "calls")], variables, folder)
    backend, calls = pickle.loads((folder / "calls").read_bytes())
    assert backend == "portable"
    arrays = {f"{name} {k}": a for name, given in calls.items() for k, a in enumerate(given)}
    return {name: a for name, a in arrays.items() if isinstance(a, np.ndarray)}


@pytest.fixture(scope="module")
def portable(tmp_path_factory):
    return outputs(tmp_path_factory.mktemp("portable") / "this", {})


def test_portable_kernels_give_the_same_bits_on_an_older_processor(portable, tmp_path):
    older = outputs(tmp_path / "older", OLDER)
    assert portable.keys() == older.keys()
    assert {n for n in portable if portable[n].tobytes() != older[n].tobytes()} == set()


def test_a_portable_product_is_rounded_and_summed_as_written(portable):
    y, x, w = (portable[f"matmul {k}"] for k in range(3))
    assert x.shape[1] > 8, "too short to see an order"
    want = np.zeros_like(y)
    for k in range(len(w)):
        want += x[:, k, None] * w[k]
    assert y.tobytes() == want.tobytes()
    assert y.tobytes() != (x @ w).tobytes(), "BLAS happens to use that order: this shows nothing"


@pytest.mark.skipif(not RUNS, reason="whole adaptations: TINYTRAIN_PORTABLE_RUNS=3")
@pytest.mark.parametrize("seed", range(RUNS))
def test_a_portable_adaptation_is_the_same_bytes_on_an_older_processor(tmp_path, seed):
    digests = {}
    for name, variables in (("this", {}), ("older", OLDER)):
        out = tmp_path / f"{name}.safetensors"
        command = ["-m", "tinytrain", "adapt", "--seed", str(seed), "--out", str(out)]
        process(command, variables, tmp_path / name)
        digests[name] = hashlib.sha256(out.read_bytes()).hexdigest()
    assert digests["this"] == digests["older"]
