"""Kernels on processors that the tests do not run on.

On every processor, every way to call a kernel gives the same bits, because the kernel says where a product
and its sum are rounded once. The code that LLVM makes for each processor is read. If this one can run it, it
is run as well.
"""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.codegen import JITCPUCodegen
from processors import PROCESSORS, X86

HERE = Path(__file__).parent
ALL_FUSED = {"depthwise_forward", "depthwise_grad_input", "dequantize"}
# What numba compiles for, floats in a register, processors that LLVM then compiles for.
GROUPS = [
    ("nehalem", 8, ["nehalem"]),
    ("haswell", 4, ["cortex-a53", "cortex-a76"]),
    ("haswell", 8, ["haswell", "znver3", "alderlake"]),
    ("skylake-avx512", 16, ["skylake-avx512", "sapphirerapids", "znver4"]),
]
BITS = "single_pixels or rows_of_the_whole or rounded_once"
RUN = f"""
import sys
import pytest
from tinytrain.kernels import depthwise_rows

depthwise_rows.REGISTER = int(sys.argv[1])
sys.exit(pytest.main(["-n", "0", "-q", "-p", "no:cacheprovider", sys.argv[2], "-k", "{BITS}"]))
"""
PRODUCTS, FUSED_ROWS = ("product_codes", "product_wide"), ("grad_input_codes", "grad_weight_codes")
PARTS = ("grad_input_columns", "grad_input_rows", "grad_weight_columns")
AGREE = f"""
import sys
import pytest

names = " or ".join({sorted(("add_codes", "depthwise_codes", *PRODUCTS, *FUSED_ROWS, *PARTS))})
sys.exit(pytest.main(["-n", "0", "-q", "-p", "no:cacheprovider", sys.argv[1], "-k", names]))
"""

# Instructions that kernels of int8 programs have: vector products, and what turns the weights of a block of
# output channels (vpunpcklwd).
AVX2 = {"add_codes": ["vpmulld"]} | {name: ["vfmadd231ps"] for name in FUSED_ROWS}
INT8 = {
    "nehalem": {
        "add_codes": ["pmulld"],
        "depthwise_codes": ["pmulld", "pmuldq"],
        **{name: ["mulps"] for name in FUSED_ROWS},
        **{name: ["pmaddwd", "pmuldq"] for name in PRODUCTS},
    },
    "haswell": AVX2
    | {name: ["vpmaddwd", "vpmuldq", "vpunpcklwd"] for name in PRODUCTS}
    | {"depthwise_codes": ["vpmaddwd", "vpmuldq"]},
    "sapphirerapids": AVX2
    | {name: ["vpdpwssd", "vpmuldq", "vpunpcklwd"] for name in PRODUCTS}
    | {name: ["vpdpbusd", "vpmuldq"] for name in ("depthwise_codes", "product_codes")},
    "cortex-a53": {
        "add_codes": ["mla"],
        "product_codes": ["smull", "smlal2", "sadalp", "sqdmulh", "srshl"],
        "product_wide": ["smlal", "smlal2", "sqdmulh", "srshl"],
        "depthwise_codes": ["smlal", "smlal2", "sqdmulh", "srshl"],
        **{name: ["fmla"] for name in FUSED_ROWS},
    },
}

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="compiles for x86-64 first, and takes more than 512 MiB"
)


def process(command, processor, cache):
    environment = os.environ | {
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": "",
        "TINYTRAIN_CACHE": str(cache),
        "PYTHONPATH": os.pathsep.join([str(HERE.parent / "support"), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, *map(str, command)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3000)


@pytest.mark.skipif(
    not hasattr(JITCPUCodegen, "_pass_builder"), reason="this numba lays out its code generator otherwise"
)
@pytest.mark.slow
@pytest.mark.parametrize("frontend,register,processors", GROUPS, ids=[" ".join(g[2]) for g in GROUPS])
def test_products_are_fused_with_their_sums_where_the_processor_can_and_nowhere_else(
    tmp_path, frontend, register, processors
):
    done = process([HERE / "processor_code.py", register, *processors], frontend, tmp_path)
    assert done.returncode == 0, done.stderr
    found = {row["processor"]: row["kernels"] for row in map(json.loads, done.stdout.splitlines())}
    assert found.keys() == set(processors)
    for processor, kernels in found.items():
        can = PROCESSORS[processor][2]
        for name, counts in kernels.items():
            where = f"{name} on {processor}: {counts}"
            assert not counts["calls"], where
            if can:
                assert counts["fused"] and not counts["unfused"], where
                assert not (name in ALL_FUSED and counts["plain"]), where
            else:
                assert counts["unfused"] and not counts["fused"], where


@pytest.mark.skipif(
    not hasattr(JITCPUCodegen, "_pass_builder"), reason="this numba lays out its code generator otherwise"
)
@pytest.mark.slow
@pytest.mark.parametrize("processor", INT8)
def test_int8_kernels_use_the_vector_products_of_a_processor(tmp_path, processor):
    done = process([HERE / "int8_code.py", processor], "haswell", tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["kernels"]
    assert found.keys() == INT8[processor].keys()
    for kernel, instructions in INT8[processor].items():
        missing = [name for name in instructions if name not in found[kernel]]
        assert not missing, f"{kernel} on {processor} has no {missing}: {found[kernel]}"


def run_there(processor, cache, *command) -> None:
    """Tests in a process whose kernels are compiled for `processor`."""
    done = process(command, processor, cache)
    if done.returncode == -signal.SIGILL:
        pytest.skip(f"this processor lacks instructions of {processor}, whose code is only read")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("processor", [name for name in INT8 if PROCESSORS[name][0] == X86])
def test_int8_kernels_agree_with_the_reference_on_every_kind_of_processor(tmp_path, processor):
    tests = HERE.parent / "kernels" / "test_bounds.py"
    run_there(processor, tmp_path, "-c", AGREE, tests)


@pytest.mark.slow
@pytest.mark.parametrize("processor", [name for name, row in PROCESSORS.items() if row[0] == X86])
def test_every_way_to_call_a_kernel_gives_the_same_bits(tmp_path, processor):
    register = PROCESSORS[processor][1]
    tests = HERE.parent / "kernels" / "test_depthwise.py"
    run_there(processor, tmp_path, "-c", RUN, register, tests)
