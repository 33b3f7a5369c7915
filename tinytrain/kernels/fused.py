"""Fused multiply-add: rounded once if the processor has the instruction.

Two ways to compute a value give the same bits only if they round in the same places. LLVM's flag `contract`
and its `fmuladd` leave that open: they permit one instruction, and the surrounding code decides. `fused` is
always one instruction (`llvm.fma`). On a processor without it, such as Nehalem, it is always two.
"""

from functools import cache

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

import tinytrain.kernels.compiler  # noqa: F401 - it tells numba which processor is compiled for

# Without the instruction LLVM calls `fmaf` of the C library, which is about fifty times slower.
PROBE = """
declare float @llvm.fma.f32(float, float, float)
define float @f(float %a, float %b, float %c) {
  %r = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %r
}
"""


@cache
def has_instruction(triple: str, processor: str, features: str) -> bool:
    """Whether LLVM has one instruction for `fused` on this processor."""
    target = binding.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=processor, features=features)
    module = binding.parse_assembly(PROBE)
    module.triple = triple
    return "fmaf" not in machine.emit_assembly(module)


def emit_fused(context, builder, a, b, c):
    """The LLVM value a * b + c; a, b and c are float32 or vectors of it."""
    if not has_instruction(*context.codegen().magic_tuple()):
        return builder.fadd(builder.fmul(a, b), c)
    vector = f"v{a.type.count}" if isinstance(a.type, ir.VectorType) else ""
    kind = ir.FunctionType(a.type, [a.type] * 3)
    fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.{vector}f32")
    return builder.call(fma, [a, b, c])


@intrinsic
def fused(typing, a, b, c):
    """a * b + c of three float32, in compiled code."""

    def emit(context, builder, signature, arguments):
        return emit_fused(context, builder, *arguments)

    if not a == b == c == types.float32:
        return None
    return types.float32(a, b, c), emit
