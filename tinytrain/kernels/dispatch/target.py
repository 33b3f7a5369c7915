"""The processor that kernels are compiled for.

On x86-64 it is a level, which says what all processors of it can do: code for a level has the same bits on
all of them, and can be compiled on another machine, beforehand.
"""

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from llvmlite import binding

from tinytrain.kernels.compile_cache.cache import packaged_for
from tinytrain.kernels.compile_cache.facts import settings

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
ARMV8 = "-aes,+crc,+fp-armv8,+neon,-rand,-sha2,-sve"


class Target(NamedTuple):
    """System and processor as LLVM knows them, and `features` in which it is not as the name says."""

    triple: str
    name: str
    features: str


# Processors that code is compiled for beforehand. Features of ARM are what LLVM finds under Linux on a
# Raspberry Pi Zero 2 W, 4 and 5.
PROCESSORS = {
    "x86-64-v4-vnni": Target(X86, "x86-64-v4", "+avx512vnni"),
    "x86-64-v4": Target(X86, "x86-64-v4", ""),
    "x86-64-v3": Target(X86, "x86-64-v3", ""),
    "cortex-a53": Target(ARM, "cortex-a53", ARMV8),
    "cortex-a72": Target(ARM, "cortex-a72", ARMV8),
    "cortex-a76": Target(ARM, "cortex-a76", "+aes,+crc,+fp-armv8,+lse,+neon,-rand,+sha2,-sve"),
}
V3 = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
LEVELS = {"x86-64-v4-vnni": f"{V4} avx512vnni", "x86-64-v4": V4, "x86-64-v3": V3}  # the highest first
NAMED = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
_others: list[Target] = []


def compile_for(other: Target) -> None:
    """From now on this process compiles for `other`; what it compiles is not run here."""
    _others[:] = [other]
    target.cache_clear()


@functools.cache
def target() -> Target:
    """What this process compiles for: the level, or this processor as LLVM knows it.

    The variables `NAMED` name another one, if both are set. With another setting of numba it is numba that
    decides, and the setting is a fact of its own (`facts`).
    """
    if _others:
        return _others[0]
    triple, known = binding.get_process_triple(), os.environ
    if known.keys() >= set(NAMED):
        return Target(triple, *(known[name] for name in NAMED))
    features = binding.get_host_cpu_features()
    here = Target(triple, binding.get_host_cpu_name(), features.flatten())
    return here if settings() else level(triple, features) or here


def level(triple: str, features: Mapping[str, bool]) -> Target | None:
    """The highest level whose features a processor has."""
    names = (name for name, needs in LEVELS.items() if all(features.get(n) for n in needs.split()))
    found = PROCESSORS.get(next(names, ""))
    return found if found and found.triple == triple else None


def packaged() -> Path | None:
    """Where the package may bring kernels for this process; None if a setting of numba asks for others."""
    return None if settings(NAMED) else packaged_for(target())


def is_chosen() -> bool:
    """Whether numba has to be told what to compile for."""
    return target() in PROCESSORS.values() and not settings()
