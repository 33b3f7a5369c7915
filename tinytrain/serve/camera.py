"""The camera of the device: the newest frame, whether it works, and that it comes back by itself.

A Raspberry Pi camera by ``rpicam-vid``, a V4L2 device by ``ffmpeg``, the MJPEG address of a camera in the
network, or a folder that something else writes images to. What frames are is left to `stream.splitter`.
"""

import base64
import contextlib
import glob
import io
import os
import shlex
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import numpy as np

from tinytrain.base.errors import InputError, TinytrainError, one_line
from tinytrain.base.events import Note
from tinytrain.base.files import read_bytes
from tinytrain.episode.decode import load_image
from tinytrain.episode.kind import MOST_BYTES
from tinytrain.episode.kinds import IMAGES
from tinytrain.stream.camera import frames
from tinytrain.stream.sources import FolderSource
from tinytrain.stream.splitter import Splitter

OFF, STARTING, OK, LOST = "off", "starting", "ok", "lost"
BROWSER, DEVICE, FOLDER, MJPEG = "browser", "device", "folder", "mjpeg"
STALL = 5.0  # seconds without a frame, after which a camera counts as lost
AGAIN = (1.0, 2.0, 4.0, 8.0)  # seconds until it is tried again, the last one for ever
BLOCK = 2**16
RPICAM = "rpicam-vid --nopreview --timeout 0 --codec mjpeg --width 640 --height 480 --framerate 10 --output -"
V4L2 = "ffmpeg -nostdin -loglevel error -f v4l2 -framerate 10 -video_size 640x480 -i {} -q:v 4 -f mjpeg -"
V4L2_ANY = "ffmpeg -nostdin -loglevel error -f v4l2 -i {} -r 10 -q:v 4 -f mjpeg -"
SHOWN = (480, 640)  # rows and columns of what is no JPEG


class Camera:
    """The camera at `address`: "rpicam", a device such as /dev/video0, a folder, or http(s)://...

    None: that of the browser. ``tell(facts)`` hears of its states. Safe for threads.
    """

    def __init__(self, address: str | None, tell: Callable[[dict], object]):
        self._tell, self._lock = tell, threading.Lock()
        self._stop, self._thread = threading.Event(), None
        self.address, self.source = None, BROWSER
        self._state, self._text = OFF, ""
        self._newest: tuple[int, bytes] | None = None
        self.use(address)

    def use(self, address: str | None) -> None:
        """Another camera from now on. Raises InputError ``camera-failed`` for none that is known."""
        source = source_at(address)
        self.end()
        with self._lock:
            self.address, self.source, self._newest = address, source, None
            self._state, self._text, self._stop = OFF, "", threading.Event()
            if address is not None:
                self._thread = threading.Thread(target=self._run, args=(self._stop,), daemon=True)
                self._thread.start()

    def end(self) -> None:
        """No camera any more; a command of one has ended then."""
        self._stop.set()
        if self._thread is not None and self.source != MJPEG:  # that of an address may wait for it a while
            self._thread.join(10)
        self._thread = None

    def facts(self) -> dict:
        with self._lock:
            return {"source": self.source, "state": self._state, "text": self._text}

    @property
    def newest(self) -> tuple[int, bytes] | None:
        """The number and the file of the newest frame; None if there is none, or the camera is lost."""
        with self._lock:
            return self._newest

    def frame(self) -> bytes:
        """The file of the newest frame. Raises InputError ``camera-failed``."""
        if (newest := self.newest) is None:
            usual = "it is off; send an image" if self.source == BROWSER else "none has come yet"
            why = self.facts()["text"] or usual
            raise InputError("camera-failed", f"the camera of the device gives no image: {why}")
        return newest[1]

    def _run(self, stop: threading.Event) -> None:
        failures = 0
        while not stop.is_set():
            self._become(stop, STARTING, "")
            try:
                for frame in self._frames(stop):
                    failures = 0
                    with self._lock:
                        if stop.is_set():
                            break
                        self._newest = (self._newest[0] + 1 if self._newest else 1), frame
                    self._become(stop, OK, "")
                why = "it has ended"
            except TinytrainError as error:
                why = error.message
            except OSError as error:
                why = error.strerror or str(error)
            with self._lock:
                if not stop.is_set():
                    self._newest = None
            self._become(stop, LOST, one_line(why, 300))
            stop.wait(AGAIN[min(failures, len(AGAIN) - 1)])
            failures += 1

    def _become(self, stop: threading.Event, state: str, text: str) -> None:
        with self._lock:
            if stop.is_set() or (state, text) == (self._state, self._text):
                return
            if state == STARTING and self._state == LOST:
                return  # it is tried again, which is no news
            self._state, self._text = state, text
        self._tell(self.facts())

    def _frames(self, stop: threading.Event) -> Iterator[bytes]:
        """Frames as they come. Raises InputError or OSError if none comes any more."""
        if self.source == FOLDER:
            yield from _of_folder(self.address, stop)
            return
        found = (
            _of_address(self.address) if self.source == MJPEG else _of_command(command(self.address), stop)
        )
        last = time.monotonic()
        with contextlib.closing(found):
            for frame in found:
                if stop.is_set():
                    return
                if frame is not None:
                    last = time.monotonic()
                    yield frame
                elif time.monotonic() - last > STALL:
                    raise InputError("camera-failed", f"it has given no image for {STALL:.0f} seconds")


def source_at(address: str | None) -> str:
    """What is at an address. Raises InputError ``camera-failed``."""
    if address is None:
        return BROWSER
    if address == "rpicam" or address.startswith("/dev/"):
        return DEVICE
    if address.startswith(("http://", "https://")):
        return MJPEG
    if os.path.isdir(address):
        return FOLDER
    text = f"{one_line(address, 100)!r} is no camera"
    raise InputError("camera-failed", f"{text}; give rpicam, /dev/video0, http://... or a folder")


def of_board() -> str | None:
    """The camera of a Raspberry Pi, which needs no permission; None elsewhere."""
    return "rpicam" if shutil.which("rpicam-vid") else None


def of_device() -> str | None:
    """The camera of this device, if it has one that can be used."""
    if board := of_board():
        return board
    if shutil.which("ffmpeg") and (devices := sorted(glob.glob("/dev/video*"))):
        return devices[0]
    return None


def command(address: str) -> str:
    """The command that writes the frames of a camera of the device."""
    if address == "rpicam":
        return RPICAM
    device = shlex.quote(address)  # many cameras know the usual size and rate; others give what they can
    return f"{V4L2.format(device)} || {V4L2_ANY.format(device)}"


def _of_command(words: str, stop: threading.Event) -> Iterator[bytes | None]:
    for frame in frames(words, 0.0, stop.wait, once=True):
        if not isinstance(frame, Note):
            yield None if frame is None else frame.content


def _of_address(address: str) -> Iterator[bytes | None]:
    """The images of an answer that does not end; None where a part of one has come."""
    splitter = Splitter()
    try:
        with urllib.request.urlopen(_request(address), timeout=STALL) as answer:
            while data := answer.read1(BLOCK):
                images = splitter.feed(data)
                splitter.skipped.clear()
                if splitter.lost > MOST_BYTES:
                    break
                yield images[-1] if images else None
            yield from splitter.finish()[-1:]
    except TimeoutError:
        raise InputError("camera-failed", f"it has sent nothing for {STALL:.0f} seconds") from None
    except urllib.error.URLError as error:
        raise InputError("camera-failed", f"it cannot be reached ({one_line(error.reason, 100)})") from None
    except (ValueError, HTTPException) as error:
        raise InputError("camera-failed", f"it cannot be read ({one_line(error, 100)})") from None


def _request(address: str) -> urllib.request.Request:
    """With the name and password that an address may have before its host."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=host)))
    if parts.username is not None:
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(given).decode()}")
    return request


def _of_folder(folder: str, stop: threading.Event) -> Iterator[bytes]:
    """The newest image that is there, and then new ones."""
    source = FolderSource(folder, IMAGES, every=0.5, wait=stop.wait)
    source.skip_present()
    there = [p for p in Path(folder).rglob("*") if IMAGES.owns(p) and p.is_file()]
    if there:
        yield read_bytes(max(there, key=lambda path: path.stat().st_mtime), MOST_BYTES)
    for frame in source:
        if stop.is_set():
            return
        if not os.path.isdir(folder):
            raise InputError("camera-failed", "its folder is gone")
        if frame is not None and not isinstance(frame, Note):
            yield frame.data or read_bytes(frame.content, MOST_BYTES)


def shown(frame: bytes) -> bytes:
    """A frame as a JPEG file, which every browser shows. Raises InputError."""
    if frame.startswith(b"\xff\xd8"):
        return frame
    return as_jpeg(load_image(frame, SHOWN, "the frame"))


def as_jpeg(image: np.ndarray) -> bytes:
    """A uint8 (h, w, 3) image as a JPEG file."""
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(image).save(held, "JPEG", quality=85)
    return held.getvalue()
