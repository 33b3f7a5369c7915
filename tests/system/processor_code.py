"""What kernels become on other processors: processor_code.py REGISTER PROCESSOR..., one JSON line each.

Kernels are compiled for this process as NUMBA_CPU_NAME says, with strips for vectors of REGISTER floats, and
from there for every PROCESSOR. Each line says for every kernel how many float32 products stand alone in the
assembly, how many sums are fused, and how many products are added by an instruction of their own.
"""

import json
import re
import sys

import numpy as np
from kernelcases import CASES, Output
from numba.core.compiler_lock import global_compiler_lock
from processors import FUSED, PLAIN, PROCESSORS, compiled_again, recorded

from tinytrain import kernels
from tinytrain.kernels import depthwise_rows as strip
from tinytrain.kernels import jit

# Kernels whose every product is added in the same rounding. Several are called in more than one way (in bands
# of rows or whole, in strips or pixel by pixel, in one piece or in pieces) and promise the same bits.
NAMES = (
    "add_fisher", "depthwise_forward", "depthwise_grad_input", "depthwise_grad_weight", "dequantize",
    "momentum", "quantize", "sgd",
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
    """Kernel -> what numba compiled."""
    table = kernels.load("numba")
    for name in NAMES:
        getattr(table, name)(
            *(
                np.array(a.start) if isinstance(a, Output) else a
                for a in CASES[name](np.random.default_rng(1))
            )
        )
    return {name: next(iter(getattr(table, name).overloads.values())).library for name in NAMES}


def main(register: str, *processors: str) -> None:
    strip.REGISTER = int(register)
    jit._cached = lambda function: None  # what is loaded from a cache cannot be compiled again
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
