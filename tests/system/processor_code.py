"""Compile kernels for other processors: processor_code.py REGISTER PROCESSOR..., one JSON line each.

Kernels are compiled for the processor that NUMBA_CPU_NAME names, with register tiles for vectors of REGISTER
floats, and then for every PROCESSOR. Each line counts per kernel: separate float32 products in the assembly,
fused sums, and products that are added by a separate instruction.
"""

import json
import re
import sys

import numpy as np
from kernelarrays import Output
from kernelcases import CASES
from numba.core.compiler_lock import global_compiler_lock
from processors import FUSED, PLAIN, PROCESSORS, compiled_again, recorded

from tinytrain import kernels
from tinytrain.kernels import compiler, depthwise_rows

# Kernels that round a product and its sum once, everywhere. Some of them can be called in several ways (row
# tiles or the whole image, register tiles or single pixels, one or more pieces) and promise the same bits.
NAMES = (
    "add_fisher", "depthwise_forward", "depthwise_grad_input", "depthwise_grad_weight", "dequantize",
    "momentum_step", "quantize",
)  # fmt: skip


def unfused(code: str) -> int:
    """How many products in LLVM's code are added by an instruction of their own, also in another block."""
    products, before = set(re.findall(r"(%\S+) = fmul ", code)), set()
    passed_on = re.findall(r"(%\S+) = (?:phi|fneg) ([^\n]*)", code)
    while products != before:
        before = set(products)
        products |= {name for name, rest in passed_on if before & set(re.findall(r"%[^\s,\]]+", rest))}
    added = re.findall(r" = f(?:add|sub) ([^\n]*)", code)
    return sum(bool(products & set(re.findall(r"%[^\s,]+", rest))) for rest in added)


def compile_kernels() -> dict:
    """Kernel -> what numba compiled. Nothing runs: this processor may lack the instructions."""
    table, libraries = kernels.load("numba"), {}
    for name in NAMES:
        arguments = CASES[name](np.random.default_rng(1))
        arrays = [np.array(a.start) if isinstance(a, Output) else a for a in arguments]
        libraries[name] = compiler.compiled(getattr(table, name).source(), arrays).library
    return libraries


def main(register: str, *processors: str) -> None:
    depthwise_rows.REGISTER = int(register)
    with recorded():
        libraries = compile_kernels()
    for processor in processors:
        triple, found = PROCESSORS[processor][0], {}
        for name, library in libraries.items():
            with global_compiler_lock:
                code, assembly = compiled_again(library, processor)
            assert " contract " not in code, name
            found[name] = {
                "plain": len(re.findall(PLAIN[triple], assembly)),
                "fused": len(re.findall(FUSED[triple], assembly)),
                "unfused": unfused(code),
                "calls": assembly.count("fmaf"),
            }
        print(json.dumps({"processor": processor, "kernels": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
