"""The one place that knows numba: how a kernel is compiled and where compiled code is kept.

Nothing is compiled at import. Every kernel has one signature; a second one would be compiled
and kept for ever, because numba never frees compiled code.
"""

import os

import numba

from tinytrain.cachefolder import cache_folder

# All of fastmath but the two flags that assume away NaN and infinity: sums may be reordered,
# so loops vectorise, and a NaN is still seen.
MATH = {"contract", "reassoc", "nsz", "arcp"}
FOLDER = cache_folder("jit")  # of compiled kernels


def _prepare_cache() -> bool:
    """True if compiled kernels can be kept on disk."""
    try:
        FOLDER.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    numba.config.CACHE_DIR = str(FOLDER)
    return os.access(FOLDER, os.W_OK)


CACHED = _prepare_cache()


def kernel(function):
    """Compile `function` at its first call: no GIL inside, cached on disk where that is possible."""
    return numba.njit(cache=CACHED, nogil=True, fastmath=MATH, error_model="numpy")(function)
