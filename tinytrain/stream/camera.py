"""Images that a command writes to its standard output, such as those of the tools of a camera.

``rpicam-still -n -t 1 -o -`` (Raspberry Pi camera) and ``ffmpeg -f v4l2 -i /dev/video0 -frames:v 1 -f
image2pipe -`` (V4L2) give one image and end: the command is run again. ``rpicam-vid --codec mjpeg -o -`` and
``ffmpeg -f v4l2 -i /dev/video0 -f mjpeg -`` go on: of the images that have arrived the last one is given.
What lies between them is passed over, such as the headers of ``curl http://camera/stream``. So no library for
cameras is needed, and drivers stay where they are maintained.
"""

import fcntl
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.events import Note
from tinytrain.episode.kind import MOST_BYTES
from tinytrain.stream.sources import Frame
from tinytrain.stream.splitter import Splitter

BLOCK = 2**16
MOST_WORDS = 2**20  # bytes of what the command says that are held
WAIT_SECONDS = 0.1
MOST_READS = 256  # of BLOCK, before an image is given although more have arrived


def frames(
    command: str, every: float, wait: Callable[[float], object] = time.sleep, once: bool = False
) -> Iterator[Frame | Note | None]:
    """Images of the shell command `command`, one in `every` seconds at most; None while none is there.

    A Note says that bytes were passed over, once for each reason. Raises InputError ``camera-failed`` if the
    command fails, ends without a byte, or goes on without an image.
    """
    number, told = 0, set()
    while True:
        given, splitter = False, Splitter()
        for data in _run(command, splitter):
            for nbytes, why in splitter.skipped:
                if why not in told:
                    yield Note(f"skipped {_bytes(nbytes)} of the command's output: {why} (said once)")
                    told.add(why)
            splitter.skipped.clear()
            if data is None:
                yield None
                continue
            number, given, began = number + 1, True, time.monotonic()
            yield Frame(f"image {number}", data)
            while (left := every - (time.monotonic() - began)) > 0:
                yield None
                wait(left)
        if not given:
            raise InputError("camera-failed", f"{one_line(command, 200)} gave 0 images; try it in a terminal")
        if once:
            return


def _run(command: str, splitter: Splitter) -> Iterator[bytes | None]:
    """The newest image of one run of the command whenever one is asked for; None while there is none.

    A run without an image ends with what it gave instead, for a decoder to say what that is.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        try:
            fcntl.fcntl(errors, fcntl.F_SETFL, os.O_APPEND)
            for image in _images(process.stdout.fileno(), command, splitter):
                yield image
                if os.fstat(errors.fileno()).st_size > MOST_WORDS:
                    errors.truncate(0)
            if process.wait() != 0:
                why = last_words(errors) or "without a message"
                text = f"{one_line(command, 200)} ended with exit code {process.returncode}: {why}"
                raise InputError("camera-failed", f"{text}; try it in a terminal")
        finally:
            process.stdout.close()
            if process.poll() is None:
                end_group(process)


def end_group(process: subprocess.Popen) -> None:
    """End the command and what it started."""
    for signal in (15, 9):
        try:
            os.killpg(process.pid, signal)
            process.wait(2)
        except ProcessLookupError:
            process.wait()
            return
        except subprocess.TimeoutExpired:
            continue
        return


def last_words(errors: BinaryIO) -> str:
    """The end of what the command said; many tools begin with their version and their options."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - BLOCK))
    lines = errors.read(BLOCK).decode(errors="replace").split("\n")
    return one_line(next((line for line in reversed(lines) if line.strip()), ""), 200)


def _images(descriptor: int, command: str, splitter: Splitter) -> Iterator[bytes | None]:
    ended, given = False, False
    while not ended:
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            yield None
            continue
        newest, reads = None, 0
        while not ended and reads < MOST_READS and select.select([descriptor], [], [], 0)[0]:
            more, reads = os.read(descriptor, BLOCK), reads + 1
            ended = not more
            found = splitter.feed(more) if more else splitter.finish()
            newest = found[-1] if found else newest
            if splitter.lost > MOST_BYTES:
                text = f"{one_line(command, 200)} gave more than {MOST_BYTES:,} bytes without an image"
                raise InputError("camera-failed", f"{text} ({splitter.why}); let it write JPEG, PNG or PPM")
        if newest is not None:
            given = True
            yield newest
    if not given and splitter.beginning:
        splitter.skipped.clear()
        yield splitter.beginning
    yield None


def _bytes(count: int) -> str:
    return f"{count:,} byte" + "s" * (count != 1)
