"""A process of its own for files of strangers that are dear or dangerous to read.

The operating system keeps its limits: a bomb, an endless loop or a fault of a decoder ends that process, and
the one that asked goes on. It is a fresh interpreter that starts when it is first needed, answers one request
after another, and ends after a pause or with the process that asked. Requests and answers are a line of JSON
and bytes, never a pickle.
"""

import atexit
import contextlib
import io
import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.locks import held_over_forks

MEMORY = 256 * 10**6  # bytes that it may hold, its own code included
KEPT = MEMORY // 4  # bytes with which it does not go on: libraries leak where files are damaged
SECONDS = 20  # of processor time for one request
IDLE_SECONDS = 30
SIZES = 12  # bytes of the lengths of an answer: 4 of its JSON, 8 of its bytes
STARTED = b"!"
COMMAND = "import sys; sys.path[:] = sys.argv[1:]; from tinytrain.base import confined; confined.serve()"
# Less address space that nothing uses; texts of errors that do not depend on where it runs.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "LC_ALL": "C.UTF-8"}


class _Child:
    """The process, and this end of the channel to it. Raises OSError or SubprocessError if none starts."""

    def __init__(self):
        import socket
        import subprocess

        self.channel, theirs = socket.socketpair()
        paths = [str(Path(__file__).parents[2]), *map(os.path.abspath, sys.path)]
        command = [sys.executable or "python3", "-I", "-S", "-c", COMMAND, *paths]
        try:
            with theirs:
                self.process = subprocess.Popen(
                    command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    cwd="/", env=os.environ | ENVIRONMENT, process_group=0,
                )  # fmt: skip
        except BaseException:
            self.channel.close()
            raise
        if self.channel.recv(1) != STARTED:
            raise OSError(f"it ended with {self.end(SECONDS)}")

    def ask(self, request: dict, file: BinaryIO) -> tuple[dict, bytearray]:
        import socket

        text = json.dumps(request).encode()
        socket.send_fds(self.channel, [len(text).to_bytes(4, "little")], [file.fileno()])
        self.channel.sendall(text)
        sizes = _received(self.channel, SIZES)
        length, nbytes = int.from_bytes(sizes[:4], "little"), int.from_bytes(sizes[4:], "little")
        if length + nbytes > MEMORY:
            raise EOFError
        return json.loads(_received(self.channel, length)), _received(self.channel, nbytes)

    def end(self, seconds: float = 0) -> int:
        """End it, at once or if it does not within `seconds`; its exit code, below 0 for a signal."""
        import subprocess

        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.process.kill()
        return self.process.wait()

    def forget(self) -> None:
        self.channel.close()
        self.process.returncode = 0  # it is that of the parent, who waits for it


_child: _Child | None = None


def _forget() -> None:
    """In a fork: the process belongs to the parent."""
    global _child
    if _child is not None:
        _child.forget()
    _child = None


_lock = held_over_forks(_forget)


def ask(
    module: str, file: BinaryIO | bytes, not_read: Mapping[str, tuple[str, str]], **request
) -> tuple[dict, bytearray]:
    """What ``module.answer(file, **request)`` gives in the other process: a dictionary for JSON, and bytes.

    `file` is open for reading, or bytes. Raises the InputError that `answer` raises there, or one with a code
    and message of `not_read`, in which {} is the reason: ``large`` (it took more than the limits), ``broken``
    (the reader failed) or ``alone`` (no process can be started).
    """
    if isinstance(file, bytes):
        with io.FileIO(os.memfd_create("content"), "r+") as held:
            view = memoryview(file)
            while view:
                view = view[held.write(view) :]
            held.seek(0)
            return ask(module, held, not_read, **request)
    with _lock:
        answer, content = _asked({"module": module, "seconds": SECONDS, **request}, file)
    if "code" in answer:
        raise InputError(answer["code"], answer["why"])
    if "kind" in answer:
        most = f"takes more than {MEMORY // 10**6} MB or {SECONDS} seconds"
        code, text = not_read[answer["kind"]]
        raise InputError(code, text.format(answer.get("why", most)))
    return answer, content


def _asked(request: dict, file: BinaryIO) -> tuple[dict, bytearray]:
    import signal
    import subprocess

    global _child
    if _child is not None and _child.process.poll() is not None:  # its pause was over, or it was killed
        end()
    for _ in range(2):
        try:
            child, _child = _child or _Child(), None
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return {"kind": "alone", "why": one_line(error)}, bytearray()
        try:
            answer = child.ask(request, file)
        except (OSError, EOFError, ValueError):
            code = child.end(SECONDS)  # the channel is closed: it is ending
        except BaseException:  # Ctrl-C: what it answers to this, nobody would read
            child.end()
            raise
        else:
            _child = child
            return answer
        if code:
            break
        # Its pause ended just now.
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"kind": "large"}, bytearray()
    return {"kind": "broken", "why": f"its decoder failed ({code})"}, bytearray()


def _received(channel, count: int) -> bytearray:
    data = bytearray(count)
    left = memoryview(data)
    while left:
        if not (got := channel.recv_into(left)):
            raise EOFError
        left = left[got:]
    return data


def end() -> None:
    """End the process, if there is one; the next request starts another."""
    global _child
    child, _child = _child, None  # there is none while a request is under way
    if child is not None:
        child.end()


atexit.register(end)


def serve() -> None:
    """The other process: answer requests until nobody asks any more."""
    import resource
    import select
    import signal
    import socket

    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # for the process that asks
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):  # it writes no file
        resource.setrlimit(kind, (0, 0))
    channel = socket.socket(fileno=0)
    channel.sendall(STARTED)
    while select.select([channel], [], [], IDLE_SECONDS)[0]:
        length, (descriptor,), _, _ = socket.recv_fds(channel, 4, 1)
        request = json.loads(_received(channel, int.from_bytes(length, "little")))
        with open(descriptor, "rb") as file:
            answer, content = _answer(file, **request)
        text = json.dumps(answer).encode()
        channel.sendall(len(text).to_bytes(4, "little") + len(content).to_bytes(8, "little") + text)
        channel.sendall(content)
        del answer, content, text
        if _memory()[1] > KEPT:
            return


def _answer(file: BinaryIO, module: str, seconds: int, **request) -> tuple[dict, bytes]:
    answer = import_module(module).answer
    _limit(seconds)
    try:
        return answer(file, **request)
    except InputError as error:
        return {"code": error.code, "why": error.message}, b""
    except (MemoryError, RecursionError):
        return {"kind": "large"}, b""


def _memory() -> list[int]:
    """Bytes of its address space, and of memory."""
    pages = Path("/proc/self/statm").read_text().split()[:2]
    return [int(count) * os.sysconf("SC_PAGE_SIZE") for count in pages]


def _limit(seconds: int) -> None:
    """Limit the memory in all, and the processor time from now on."""
    import resource
    import time

    size, resident = _memory()
    most = {
        # Address space without memory behind it, such as code that is not used, is no cost.
        resource.RLIMIT_AS: MEMORY + size - resident,
        resource.RLIMIT_CPU: int(time.process_time()) + 1 + seconds,
    }
    for kind, limit in most.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
