"""Compilation of kernels by numba, and the cache of compiled code on disk.

Nothing is compiled at import. Every kernel has one signature; only a portable product has one for each layout
of its matrices. Further signatures would stay in memory, because numba never frees compiled code.
"""

import hashlib
import pickle

import numba
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from tinytrain.base.cache_folder import cache_folder
from tinytrain.kernels.compile_cache.cache import open_cache
from tinytrain.kernels.compile_cache.facts import portable
from tinytrain.kernels.compile_cache.watch import WATCH
from tinytrain.kernels.fallback import warn_once

# Sums may be reordered, so that loops vectorise. Two kinds of flags are missing: those that exclude NaN and
# infinity, because a NaN must be detected, and `contract`, because `fused` says where to round once. Portable
# kernels have no flags: they round and add in the order of the source.
PORTABLE = portable()
MATH = set() if PORTABLE else {"reassoc", "nsz", "arcp"}
OPTIONS = {"nogil": True, "fastmath": MATH, "error_model": "numpy"}
CACHE = open_cache(cache_folder("jit"))  # before numba gets to see a file of it
if CACHE.warning and CACHE.folder:
    warn_once(CACHE.warning)


def kernel(function):
    """Compile `function` at its first call: no GIL inside, cached on disk where that is possible."""
    compiled = numba.njit(**OPTIONS)(function)
    if CACHE.folder:
        compiled._cache = KernelFiles(function)
    return compiled


def inlined(function):
    """Compile `function` into every kernel that calls it.

    Otherwise LLVM optimises it twice, alone and inside the kernel. Which version runs depends on whether the
    kernel was just compiled or read from the cache; on arm64 the two added in different orders.
    """
    return numba.njit(forceinline=True, **OPTIONS)(function)


def copied(function):
    """Copy the code of `function` into every kernel that calls it, before compilation.

    An `inlined` function is also compiled alone with all functions that it calls, which may take long.
    """
    return numba.njit(inline="always", **OPTIONS)(function)


def ordered(function):
    """Compile `function` to be called by kernels; for functions that make kernels slower if inlined.

    It has no fast-math flags, so every optimised version computes in the order of the source.
    """
    return numba.njit(**OPTIONS | {"fastmath": set()})(function)


def expect(kernels) -> None:
    """Of the compiled `kernels`, those without a file will be compiled: whoever watches is told how many."""
    kept = {name.rpartition("-")[0] for name in CACHE.verified}
    names = (k._cache.name for k in kernels if isinstance(getattr(k, "_cache", None), KernelFiles))
    WATCH.expect(name for name in names if name not in kept)


class KernelFiles:
    """The cache of one kernel, in place of numba's own: a file for each signature, in our folder."""

    def __init__(self, function):
        self.name, self._code = f"{function.__module__}.{function.__qualname__}", function.__code__.co_code

    @property
    def cache_path(self) -> str:
        return str(CACHE.folder)

    def _file(self, signature, codegen) -> str:
        key = repr((signature, codegen.magic_tuple(), self._code)).encode()
        return f"{self.name}-{hashlib.sha256(key).hexdigest()[:16]}.kernel"

    def load_overload(self, signature, target_context):
        """The kernel for `signature`, None if it must be compiled; never ends a run."""
        try:
            target_context.refresh()
            parts = pickle.loads(CACHE.read(self._file(signature, target_context.codegen())))
            return CompileResult._rebuild(target_context, *parts)
        except FileNotFoundError:
            pass
        except Exception as error:  # unpickling raises anything
            warn_once(f"jit-cache: a compiled kernel could not be loaded ({error}); it is compiled again")
        WATCH.begin(self.name)
        return None

    def save_overload(self, signature, compiled) -> None:
        """Keep `compiled` for the next process; never ends a run."""
        WATCH.end()
        if not CACHE.kept or compiled.lifted or compiled.library.has_dynamic_globals:
            return
        try:
            CACHE.write(self._file(signature, compiled.codegen), dumps(compiled._reduce()))
        except Exception as error:
            warn_once(
                f"jit-cache: compiled kernels could not be kept ({error}) and are compiled again in the next"
                " run; free some space or set TINYTRAIN_CACHE to another folder"
            )
