"""Compiled kernels for processors that the tests do not run on.

Numba compiles a kernel once; what it hands to LLVM is kept and compiled again for each processor, in the same
steps. The result is code to be read.
"""

import re
from contextlib import contextmanager

from llvmlite import binding
from numba.core import cgutils
from numba.core.codegen import CPUCodeLibrary

from tinytrain.kernels.dispatch.target import ARM, X86, Target
from tinytrain.kit.cross import Codegen

# Name, as LLVM knows it -> (triple, float32 in a vector register as `strip` takes them, fused multiply-add).
PROCESSORS = {
    "nehalem": (X86, 8, False),
    "haswell": (X86, 8, True),
    "znver3": (X86, 8, True),
    "alderlake": (X86, 8, True),
    "skylake-avx512": (X86, 16, True),
    "sapphirerapids": (X86, 16, True),
    "znver4": (X86, 16, True),
    "cortex-a53": (ARM, 4, True),
    "cortex-a76": (ARM, 4, True),
}
PLAIN = {X86: r"\bv?mul[sp]s\b", ARM: r"\bfn?mul\b"}  # float32 products that are no part of a fused sum
FUSED = {X86: r"\bvfn?m(add|sub)\w*[sp]s\b", ARM: r"\bfn?m(add|sub|la|ls)\b"}


@contextmanager
def recorded():
    """While it lasts, libraries that numba compiles keep the LLVM code that they were given."""
    before = CPUCodeLibrary.add_ir_module

    def add_ir_module(self, module):
        self.__dict__.setdefault("given", []).append(cgutils.normalize_ir_text(str(module)))
        before(self, module)

    CPUCodeLibrary.add_ir_module = add_ir_module
    try:
        yield
    finally:
        CPUCodeLibrary.add_ir_module = before


class _Library(CPUCodeLibrary):
    """Is optimised as numba does it, and never run."""

    def _finalize_final_module(self):
        self._finalized = True


class _Codegen(Codegen):
    _library_class = _Library


def codegen_for(processor: str) -> _Codegen:
    """Numba's code generator for a processor of PROCESSORS; what it makes is read and never run."""
    return _Codegen(Target(PROCESSORS[processor][0], processor, ""))


def compiled_again(library, processor: str) -> tuple[str, str]:
    """What LLVM makes of a `recorded` library for a processor of PROCESSORS: (its own code, assembly)."""
    codegen = codegen_for(processor)
    module = _again(library, codegen, {})._final_module
    return str(module), codegen._tm.emit_assembly(module)


def _again(library, codegen: _Codegen, known: dict) -> _Library:
    """`library` and those that it links to, compiled by `codegen`."""
    if library not in known:
        new = known[library] = codegen.create_library(library.name)
        for text in library.given:
            text = re.sub(r"^target (triple|datalayout) = .*\n", "", text, flags=re.MULTILINE)
            module = binding.parse_assembly(text)
            module.triple = codegen.target.triple
            new.add_llvm_module(module)
        for other in library._linking_libraries:
            new.add_linking_library(_again(other, codegen, known))
        new.finalize()
    return known[library]
