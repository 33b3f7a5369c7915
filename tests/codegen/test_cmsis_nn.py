"""Products of emitted int8 C by CMSIS-NN: the codes and bits of the kernels that are emitted.

``TINYTRAIN_CMSIS_NN`` is a folder of CMSIS-NN, with ``Include`` and ``Source``.
"""

import ctypes
import os
import subprocess
from pathlib import Path

import emitted
import int8nets
import numpy as np
import pytest
from emitted import HERE, plan_of

FOLDER = Path(os.environ.get("TINYTRAIN_CMSIS_NN", ""))
SOURCE = FOLDER / "Source" / "NNSupportFunctions" / "arm_nn_mat_mult_nt_t_s8.c"
SINGLE = "-DCMSIS_NN_USE_SINGLE_ROUNDING"

pytestmark = [
    pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang"),
    pytest.mark.skipif(not SOURCE.is_file(), reason="set TINYTRAIN_CMSIS_NN to a folder of CMSIS-NN"),
]


def build(*options) -> None:
    command = [emitted.compilers()[0], "-std=c99", "-O2", "-ffp-contract=off", f"-I{FOLDER / 'Include'}"]
    done = subprocess.run([*command, *map(str, options)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rounding", ["single", "double"])
def test_sums_become_the_codes_of_the_rule_if_they_are_rounded_once(rounding, tmp_path):
    """Factors, shifts and sums at random and at their ends; rounded twice, some codes are others."""
    library = tmp_path / "requantize.so"
    options = [SINGLE] if rounding == "single" else []
    build(*options, "-shared", "-fPIC", HERE / "requantize.c", "-o", library)
    requantize = ctypes.CDLL(str(library)).requantize
    rng, n = np.random.default_rng(0), 200_000
    factors = rng.integers(2**30, 2**31, n, dtype=np.int64)
    shifts = rng.integers(32, 63, n)
    sums = rng.integers(-(2**31), 2**31, n) >> rng.integers(0, 31, n)
    sums[:2], factors[:4] = (-(2**31), 2**31 - 1), 2**31 - 1
    found, given = np.empty(n, np.int32), [a.astype(np.int32) for a in (sums, factors, 31 - shifts)]
    requantize(*(a.ctypes.data_as(ctypes.c_void_p) for a in (found, *given)), n)
    rows = zip(sums.tolist(), factors.tolist(), shifts.tolist(), strict=True)
    exact = [(s * f + (1 << k - 1)) >> k for s, f, k in rows]
    assert (found.tolist() == exact) == (rounding == "single")


def test_an_adaptation_by_cmsis_nn_learns_the_same_bits(tmp_path):
    network = int8nets.toy8("headed")
    plan = plan_of(network, 2, 3, "lda", 60_000, 0.3, precision="int8", steps=3)
    folder = tmp_path / "emitted"
    emitted.add_examples(folder, emitted.emit(folder, network, plan, 3))
    said = []
    for name, options in (("own", ()), ("cmsis", ("-DTT_CMSIS_NN", SINGLE, SOURCE))):
        build(*options, *emitted.demo_of(folder), "-o", tmp_path / name)
        done = subprocess.run([tmp_path / name], capture_output=True, text=True)
        assert done.returncode == 0
        said.append(done.stdout)
    assert said[0] == said[1] and "learnt: " in said[0]
    symbols = subprocess.run(["nm", tmp_path / "cmsis"], capture_output=True, text=True).stdout
    assert "arm_nn_mat_mult_nt_t_s8" in symbols
