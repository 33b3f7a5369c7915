"""Downloads a small file over HTTP, with timeouts, a size limit and one-line errors.

The content is kept only in memory, so an interrupted download leaves nothing behind.
"""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from tinytrain.base.errors import InputError
from tinytrain.base.units import format_bytes

TIMEOUT = 20  # seconds without data from the server
DEADLINE = 600  # seconds in all, because a very slow server never reaches TIMEOUT
CHUNK = 2**16


def download(address: str, limit: int, remedy: str, progress: Callable[[int], None]) -> bytes:
    """Content of `address`, at most `limit` bytes; calls `progress(bytes so far)` after every packet.

    Raises InputError ``download-failed`` if there is no connection, the answer is not the file, the server
    is silent, or the file ends early or is too large. The message ends with `remedy`.
    """
    try:
        request = urllib.request.Request(address, headers={"User-Agent": "tinytrain"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return _read(answer, limit, progress)
    except (OSError, http.client.HTTPException, ValueError, _BadAnswerError) as error:
        raise InputError("download-failed", f"{address}: {_reason(error)}; {remedy}") from error


class _BadAnswerError(Exception):
    """The answer is too short, too long or too slow."""


def _read(answer, limit: int, progress: Callable[[int], None]) -> bytes:
    announced = answer.headers.get("Content-Length", "")
    total = int(announced) if announced.isascii() and announced.isdigit() else None
    parts, done, start = [], 0, time.monotonic()
    # read1 returns after every packet; read would wait for a whole chunk and delay the deadline.
    while (total is None or done < total) and (part := answer.read1(CHUNK)):
        parts.append(part)
        done += len(part)
        if max(done, total or 0) > limit:
            raise _BadAnswerError(f"it holds more than the {format_bytes(limit)} that are allowed")
        if time.monotonic() - start > DEADLINE:
            raise _BadAnswerError(f"not done within {DEADLINE} s")
        progress(done)
    if total is not None and done < total:
        raise _BadAnswerError(f"the download ended after {done} of {total} bytes")
    return b"".join(parts)


def _reason(error: Exception) -> str:
    """A short description of `error`."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()  # it holds the connection
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, TimeoutError):
        return f"no answer for {TIMEOUT} s"
    if isinstance(error, http.client.IncompleteRead):
        return f"the download ended after {len(error.partial)} bytes of a part"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
