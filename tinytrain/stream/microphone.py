"""Sound as it comes: from a microphone by ``arecord`` of alsa-utils, from a pipe, or from a WAV file.

Every source gives samples (n,) int16 of one channel, a Note, or None where there is nothing new.
"""

import os
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.base.events import Note
from tinytrain.episode.wav import wav_of
from tinytrain.stream.arriving import BLOCK, GoneError, blocks, returning
from tinytrain.stream.camera import end_group, last_words
from tinytrain.stream.listening import Ear, Trigger
from tinytrain.stream.sources import Frame

STDIN = "-"  # a pipe of samples of 16 bits
Sound = Iterator[np.ndarray | Note | None]


def sound_of(source: str, rate: int, wait: Callable[[float], object] = time.sleep) -> Sound:
    """Samples of STDIN, of a WAV file, or else of the ALSA device of that name, `rate` a second.

    Raises InputError ``image-unreadable`` for a file of another form, ``camera-failed`` if no sound comes.
    """
    if source == STDIN:
        return _samples(blocks(0))
    if os.path.isfile(source):
        return file_samples(source, rate)
    name, remedy = f"microphone {one_line(source, 100)}", "'arecord -L' names those that are here"
    return returning(partial(_recorded, source, rate), name, "sound", wait, remedy)


def file_samples(path: str, rate: int) -> Iterator[np.ndarray]:
    """Samples (n,) int16 of a WAV file of any length. Raises InputError ``image-unreadable``."""
    try:
        with wave.open(path) as file:
            form = file.getsampwidth(), file.getnchannels(), file.getframerate()
            if form == (2, 1, rate):
                yield from _samples(iter(partial(file.readframes, BLOCK), b""))  # the last one may be cut
                return
        why = f"has {8 * form[0]} bits, {form[1]} channels and {form[2]} samples a second"
    except (OSError, EOFError, wave.Error) as error:
        why = f"cannot be read ({one_line(str(error) or 'it is cut off', 100)})"
    remedy = f"'ffmpeg -i FROM -ac 1 -ar {rate} -sample_fmt s16 TO.wav' makes one that can be listened to"
    raise InputError("image-unreadable", f"{one_line(path, 200)} {why}; {remedy}")


def folder_samples(path: str, rate: int) -> Iterator[np.ndarray]:
    """Those of a WAV file, or of all in a folder, one after another. Raises as `file_samples` does."""
    files = [path]
    if os.path.isdir(path):
        found = (name for name in sorted(os.listdir(path)) if name.lower().endswith((".wav", ".wave")))
        files = [os.path.join(path, name) for name in found]
    if not files:
        text = f"{one_line(path, 200)} has no WAV file; give one, or a folder of them"
        raise InputError("file-missing", text)
    for file in files:
        yield from file_samples(file, rate)


def frames(sound: Sound, ear: Ear, trigger: Trigger) -> Iterator[Frame | Note | None]:
    """The words in `sound` as the `trigger` gives them, called by the seconds from the beginning to there."""
    for block in sound:
        if not isinstance(block, np.ndarray):
            yield block
            continue
        for end, score in ear.hear(block):
            if trigger.fires(end, score):
                yield Frame(f"{end / ear.rate:.2f} s", wav_of(ear.window.samples(), ear.rate))
        yield None


def _recorded(device: str, rate: int) -> Sound:
    """What one run of ``arecord`` gives. Raises GoneError with its last words."""
    command = ["arecord", "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", str(rate), "-D", device]
    with tempfile.TemporaryFile() as errors:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": errors, "bufsize": 0}
        try:
            process = subprocess.Popen(command, **pipes, start_new_session=True)
        except OSError as error:
            text = f"arecord cannot be run ({error.strerror}); install alsa-utils, or pipe samples to '-'"
            raise InputError("camera-failed", text) from error
        try:
            yield from _samples(blocks(process.stdout.fileno()))
        finally:
            process.stdout.close()
            end_group(process)
        if why := last_words(errors):
            raise GoneError(why)


def _samples(arriving: Iterator[bytes | None]) -> Iterator[np.ndarray | None]:
    """Samples of two bytes, the first of which may end a block."""
    rest = b""
    for block in arriving:
        if block is None:
            yield None
            continue
        block = rest + block
        whole, rest = np.frombuffer(block, "<i2", len(block) // 2), block[len(block) // 2 * 2 :]
        yield whole.astype(np.int16)
