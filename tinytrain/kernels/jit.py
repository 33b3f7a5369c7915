"""Compilation of kernels by numba, and the cache of compiled code on disk.

Nothing is compiled at import. Every kernel has one signature; only a portable product has one for each layout
of its matrices. Further signatures would stay in memory, because numba never frees compiled code.
"""

import atexit
import io
import pickle
import time
from pathlib import Path

import numba
from numba.core.caching import IndexDataCacheFile

from tinytrain.base.cache_folder import cache_folder
from tinytrain.base.errors import StorageError
from tinytrain.kernels.compile_cache.cache import open_cache
from tinytrain.kernels.compile_cache.facts import portable
from tinytrain.kernels.fallback import warn_once

# Sums may be reordered, so that loops vectorise. Two kinds of flags are missing: those that exclude NaN and
# infinity, because a NaN must be detected, and `contract`, because `fused` says where to round once. Portable
# kernels have no flags: they round and add in the order of the source.
PORTABLE = portable()
MATH = set() if PORTABLE else {"reassoc", "nsz", "arcp"}
OPTIONS = {"nogil": True, "fastmath": MATH, "error_model": "numpy"}
# Time between two manifests while kernels are compiled: a power cut loses at most the kernels of this time.
SEAL_SECONDS = 2.0

CACHE = open_cache(cache_folder("jit"))  # before numba reads a file of it
if CACHE.warning and CACHE.folder:
    warn_once(CACHE.warning)


class Keeper:
    """Adds compiled kernels to the manifest, at most once in `SEAL_SECONDS` and at exit."""

    def __init__(self, cache):
        self.cache, self._unlisted, self._last = cache, False, time.monotonic()

    def saved(self) -> None:
        """To be called after numba has written a kernel."""
        self._unlisted = True
        if time.monotonic() - self._last > SEAL_SECONDS:
            self.keep()

    def keep(self) -> None:
        """Add new kernels to the manifest, so that the next process can use them; log a failure once."""
        if not self._unlisted:
            return
        try:
            self.cache.seal()
        except (OSError, StorageError) as error:
            self.lost(error)
        self._unlisted, self._last = False, time.monotonic()

    def lost(self, error: Exception) -> None:
        """Warn that a kernel could not be kept, unless another process has only removed the file."""
        if not isinstance(error, FileNotFoundError):
            warn_once(
                f"jit-cache: compiled kernels could not be kept ({error}) and are compiled again in the next"
                " run; free some space or set TINYTRAIN_CACHE to another folder"
            )


KEEPER = Keeper(CACHE)
atexit.register(KEEPER.keep)


def kernel(function):
    """Compile `function` at its first call, without the GIL, cached on disk if possible."""
    compiled = _cached(function) if CACHE.folder else None
    return compiled or numba.njit(**OPTIONS)(function)


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


def _cached(function):
    """The kernel, cached in our folder; None if numba would put its cache elsewhere."""
    config = numba.config
    before = {name: getattr(config, name, "") for name in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES")}
    # Numba reads these when it decorates. They are restored for other code in this process.
    config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = str(CACHE.folder), ""
    try:
        compiled = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no place for a cache: the disk is full, or the folder is gone
        return None
    finally:
        for name, value in before.items():
            setattr(config, name, value)
    if not str(compiled.stats.cache_path).startswith(str(CACHE.folder)):
        return None
    compiled._cache._cache_file = VerifiedFile(compiled._cache._cache_file)
    _never_raise(compiled._cache, function)
    return compiled


class VerifiedFile(IndexDataCacheFile):
    """Index and machine code of one kernel. Only files that match the manifest are unpickled."""

    def __init__(self, of: IndexDataCacheFile):
        vars(self).update(vars(of))
        self._overloads = None  # the index: read once, then kept up to date by `_save_index`

    def _load_index(self) -> dict:
        if self._overloads is None:
            self._overloads = self._listed_index()
        return dict(self._overloads)

    def _listed_index(self) -> dict:
        try:
            stream = io.BytesIO(CACHE.read(self._index_path))
        except OSError:
            return {}
        pickle.load(stream)  # numba's version; the manifest has checked it and the source
        return pickle.load(stream)[1]

    def _save_index(self, overloads: dict) -> None:
        super()._save_index(overloads)
        self._overloads = overloads

    def _load_data(self, name: str):
        return pickle.loads(CACHE.read(self._data_path(name)))


def _never_raise(cache, function) -> None:
    """Compile a kernel that cannot be loaded, and go on if one cannot be saved: neither ends a run."""
    load, save = cache.load_overload, cache.save_overload
    code = function.__code__
    prefix = f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}.py"

    def load_overload(*arguments):
        try:
            return load(*arguments)
        except Exception as error:  # unpickling raises anything
            warn_once(f"jit-cache: a compiled kernel could not be loaded ({error}); it is compiled again")
            return None

    def save_overload(*arguments):
        try:
            CACHE.save(prefix, lambda: save(*arguments))
            KEEPER.saved()
        except Exception as error:
            KEEPER.lost(error)

    cache.load_overload, cache.save_overload = load_overload, save_overload
