"""What arrives from a device: one that stops or is unplugged is said, and tried again until it is back."""

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from tinytrain.base.errors import InputError
from tinytrain.base.events import Note

BLOCK, WAIT_SECONDS = 2**14, 0.1
STALLED, AGAIN = 5.0, 2.0  # seconds of nothing that are too many, and until it is tried again


class GoneError(Exception):
    """Why nothing comes any more."""


def blocks(descriptor: int, is_over: Callable[[], bool] = lambda: True) -> Iterator[bytes | None]:
    """What arrives, None while nothing does; it ends with what it reads if that `is_over`, or has STALLED."""
    last = time.monotonic()
    while descriptor == 0 or time.monotonic() - last < STALLED:
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            yield None
            continue
        if not (block := os.read(descriptor, BLOCK)) and is_over():
            return
        last = time.monotonic()
        yield block or None


def returning(
    attempt: Callable[[], Iterator],
    name: str,
    gives: str,
    wait: Callable[[float], object],
    remedy: str | None = None,
) -> Iterator:
    """What `attempt` gives, anew if it ends or raises GoneError; that is said once, as is its return.

    Raises InputError ``camera-failed`` if there is a `remedy`, and the first attempt gives nothing but None.
    """
    ever, lost = remedy is None, False
    while True:
        why = f"no {gives} for {STALLED:.0f} seconds"
        try:
            with closing(attempt()) as found:
                for one in found:
                    if lost and one is not None:
                        yield Note(f"{name} is back")
                    ever, lost = ever or one is not None, lost and one is None
                    yield one
        except GoneError as error:
            why = str(error)
        if not ever:
            raise InputError("camera-failed", f"{name}: {why}; {remedy}")
        if not lost:
            yield Note(f"{name} gives no {gives} ({why}); it is tried again")
        lost = True
        yield None
        wait(AGAIN)
