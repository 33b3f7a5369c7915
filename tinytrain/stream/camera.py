"""Images that a command writes to its standard output, such as those of the tools of a camera.

``rpicam-still -n -t 1 -o -`` (Raspberry Pi camera) and ``ffmpeg -f v4l2 -i /dev/video0 -frames:v 1 -f
image2pipe -`` (V4L2) give one image and end: the command is run again. ``rpicam-vid --codec mjpeg -o -`` and
``ffmpeg -f v4l2 -i /dev/video0 -f mjpeg -`` go on: of the JPEG images that have arrived the last one is
given. So no library for cameras is needed, and drivers stay where they are maintained.
"""

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

from tinytrain.base.errors import InputError, one_line
from tinytrain.stream.sources import Frame

BLOCK = 2**16
MOST_BYTES = 2**26  # of an image
WAIT_SECONDS = 0.1
MOST_READS = 256  # of BLOCK, before an image is given although more have arrived
START, END = b"\xff\xd8", b"\xff\xd9"
ALONE = {0x01, 0xD8, *range(0xD0, 0xD8)}  # markers without a length
SCAN = 0xDA


def frames(
    command: str, every: float, wait: Callable[[float], object] = time.sleep, once: bool = False
) -> Iterator[Frame | None]:
    """Images of the shell command `command`, one in `every` seconds at most; None while none is there.

    Raises InputError ``camera-failed`` if the command fails or ends without an image.
    """
    number = 0
    while True:
        given = False
        for data in _run(command):
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


def _run(command: str) -> Iterator[bytes | None]:
    """The newest image of one run of the command whenever one is asked for; None while there is none."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield from _images(process.stdout.fileno(), command)
            if process.wait() != 0:
                errors.seek(0)
                why = one_line(errors.read(BLOCK).decode(errors="replace"), 200) or "without a message"
                text = f"{one_line(command, 200)} ended with exit code {process.returncode}: {why}"
                raise InputError("camera-failed", f"{text}; try it in a terminal")
        finally:
            process.stdout.close()
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen) -> None:
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


def _images(descriptor: int, command: str) -> Iterator[bytes | None]:
    data, ended = b"", False
    while not ended:
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            yield None
            continue
        newest, reads = None, 0
        while not ended and reads < MOST_READS and select.select([descriptor], [], [], 0)[0]:
            more, reads = os.read(descriptor, BLOCK), reads + 1
            ended = not more
            found, data = newest_jpeg(data + more)
            newest = found or newest
            if len(data) > MOST_BYTES:
                text = f"{one_line(command, 200)} gave more than {MOST_BYTES:,} bytes for one image"
                raise InputError("camera-failed", f"{text}; let it write smaller ones")
        if newest is not None:
            yield newest
    if data:
        yield data  # an image of another kind, which ends with the command


def newest_jpeg(data: bytes) -> tuple[bytes | None, bytes]:
    """The last complete JPEG image at the beginning of `data`, None without one, and what is left."""
    newest, place = None, 0
    while (end := jpeg_end(data, place)) is not None:
        newest, place = data[place:end], end
    return newest, data[place:]


def jpeg_end(data: bytes, start: int = 0) -> int | None:
    """The place behind the JPEG image that begins at `start`; None if none does, or its end is not there.

    Thumbnails inside of it have ends of their own: the segments are followed as ITU-T T.81, B.1 has them.
    """
    if data[start : start + 2] != START:
        return None
    place = start + 2
    while place + 4 <= len(data) or data[place : place + 2] == END:
        if data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if marker == 0xD9:
            return place + 2
        if marker == 0xFF or marker in ALONE:
            place += 1 if marker == 0xFF else 2
            continue
        place += 2 + int.from_bytes(data[place + 2 : place + 4])
        if marker == SCAN:
            place = _scan_end(data, place)
            if place is None:
                return None
    return None


def _scan_end(data: bytes, place: int) -> int | None:
    """The place of the marker that ends a scan; None if it is not there."""
    while (place := data.find(b"\xff", place)) >= 0 and place + 1 < len(data):
        if data[place + 1] and not 0xD0 <= data[place + 1] < 0xD8:
            return place
        place += 2
    return None
