"""How a kernel is compiled and where compiled code is kept.

Nothing is compiled at import. Every kernel has one signature (a portable product has one for each layout of
its matrices); a second one would be compiled and kept for ever, because numba never frees compiled code.
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

# Sums may be reordered, so loops vectorise. Not among the flags: the two that assume away NaN and infinity,
# so that a NaN is still seen, and `contract`, because what is rounded once is written so (`fused`). Portable
# kernels have none of it: what is written is rounded and added in the order in which it is written.
PORTABLE = portable()
MATH = set() if PORTABLE else {"reassoc", "nsz", "arcp"}
OPTIONS = {"nogil": True, "fastmath": MATH, "error_model": "numpy"}
# Between two manifests while kernels are compiled: a power cut loses no more than this.
SEAL_SECONDS = 2.0

CACHE = open_cache(cache_folder("jit"))  # before numba gets to see a file of it
if CACHE.warning and CACHE.folder:
    warn_once(CACHE.warning)


class Keeper:
    """Lists compiled kernels in the manifest, not more often than necessary."""

    def __init__(self, cache):
        self.cache, self._unlisted, self._last = cache, False, time.monotonic()

    def saved(self) -> None:
        """Numba has written a kernel."""
        self._unlisted = True
        if time.monotonic() - self._last > SEAL_SECONDS:
            self.keep()

    def keep(self) -> None:
        """List what was compiled, so that the next process may use it; where that fails it is said once."""
        if not self._unlisted:
            return
        try:
            self.cache.seal()
        except (OSError, StorageError) as error:
            self.lost(error)
        self._unlisted, self._last = False, time.monotonic()

    def lost(self, error: Exception) -> None:
        """A kernel could not be kept. One that another process has cleaned away is not worth a word."""
        if not isinstance(error, FileNotFoundError):
            warn_once(
                f"jit-cache: compiled kernels could not be kept ({error}) and are compiled again in the next"
                " run; free some space or set TINYTRAIN_CACHE to another folder"
            )


KEEPER = Keeper(CACHE)
atexit.register(KEEPER.keep)


def kernel(function):
    """Compile `function` at its first call: no GIL inside, cached on disk where that is possible."""
    compiled = _cached(function) if CACHE.folder else None
    return compiled or numba.njit(**OPTIONS)(function)


def inlined(function):
    """Compile `function` into every kernel that calls it.

    What is called instead is optimised twice, alone and inside the kernel, and which of the two runs depends
    on whether the kernel was just compiled or read from the cache. On arm64 they added in different orders.
    """
    return numba.njit(forceinline=True, **OPTIONS)(function)


def copied(function):
    """Copy `function` into every kernel that calls it, before anything is compiled.

    What is `inlined` is also compiled by itself, together with all that it calls, which may take long.
    """
    return numba.njit(inline="always", **OPTIONS)(function)


def ordered(function):
    """Compile `function` to be called by kernels, where inlining it makes them slower.

    It computes what is written, in the order in which it is written, however often it is optimised.
    """
    return numba.njit(**OPTIONS | {"fastmath": set()})(function)


def _cached(function):
    """The kernel with its cache in our folder; None if numba would put it anywhere else."""
    config = numba.config
    before = {name: getattr(config, name, "") for name in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES")}
    # Numba looks at these when it decorates. Other code in this process keeps its own cache.
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
    """Index and machine code of one kernel: only bytes that are as the manifest lists them are unpickled."""

    def __init__(self, of: IndexDataCacheFile):
        vars(self).update(vars(of))
        self._overloads = None  # the index, read once and then as this process wrote it

    def _load_index(self) -> dict:
        if self._overloads is None:
            self._overloads = self._listed_index()
        return dict(self._overloads)

    def _listed_index(self) -> dict:
        try:
            stream = io.BytesIO(CACHE.read(self._index_path))
        except OSError:
            return {}
        pickle.load(stream)  # numba's version; that and the source are what the manifest was made for
        return pickle.load(stream)[1]

    def _save_index(self, overloads: dict) -> None:
        super()._save_index(overloads)
        self._overloads = overloads

    def _load_data(self, name: str):
        return pickle.loads(CACHE.read(self._data_path(name)))


def _never_raise(cache, function) -> None:
    """What cannot be loaded is compiled, what cannot be saved is not kept; neither ends a run."""
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
