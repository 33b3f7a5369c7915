"""Locks between processes: nobody waits for one without end, and only those hold one who may write there."""

import fcntl
import time

PAUSE_SECONDS = 0.05


def lock(descriptor: int, seconds: float = 0) -> bool:
    """False while another process has it, for all of `seconds`; True, without a lock, where the file system
    has none."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(PAUSE_SECONDS)
        except OSError:
            return True
        else:
            return True
