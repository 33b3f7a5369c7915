"""Compile kernels of int8 programs for another processor and count instructions: int8_code.py PROCESSOR.

One JSON line. Numba compiles for the processor from the start, because some kernels ask for it. Nothing is
run: this processor may be of another kind.
"""

import json
import re
import sys

import numpy as np
from int8cases import INT8_CASES
from kernelarrays import Output
from numba.core.compiler_lock import global_compiler_lock
from processors import PROCESSORS, codegen_for

from tinytrain import kernels
from tinytrain.kernels import compiler
from tinytrain.kit.cross import cross_compile

NAMES = (
    "add_codes", "depthwise_codes", "grad_input_codes", "grad_weight_codes", "product_codes", "product_wide",
)  # fmt: skip
INSTRUCTION = re.compile(r"^\s+([a-z][\w.]*)\s", re.MULTILINE)


def counts(assembly: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in INSTRUCTION.findall(assembly):
        found[name] = found.get(name, 0) + 1
    return found


def main(processor: str) -> None:
    codegen = codegen_for(processor)
    cross_compile(codegen)
    table, found = kernels.load("numba"), {}
    for name in NAMES:
        arguments = INT8_CASES[name](np.random.default_rng(1))
        arrays = [np.array(a.start) if isinstance(a, Output) else a for a in arguments]
        compiled = compiler.compiled(getattr(table, name).source(), arrays)
        with global_compiler_lock:
            found[name] = counts(codegen._tm.emit_assembly(compiled.library._final_module))
    print(json.dumps({"processor": processor, "kernels": found}), flush=True)


if __name__ == "__main__":
    assert set(sys.argv[1:]) <= PROCESSORS.keys()
    main(*sys.argv[1:])
