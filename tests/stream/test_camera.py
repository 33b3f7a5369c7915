"""Images of a command: one for each run, or a stream of images of which the newest counts."""

import io
import select
import time

import numpy as np
import pytest
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.stream import camera
from tinytrain.stream.camera import frames
from tinytrain.stream.sources import Note


def jpeg(seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=75)
    return file.getvalue()


def given(command, **options):
    options.setdefault("wait", lambda s: time.sleep(min(s, 0.02)))
    return [f for f in frames(command, 0.05, once=True, **options) if f is not None]


def test_a_command_that_gives_one_image_and_ends_is_run_again(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG whatever")
    source = (f for f in frames(f"cat '{path}'", 0.05, lambda s: time.sleep(0.01)) if f is not None)
    two = [next(source), next(source)]
    assert [f.name for f in two] == ["image 1", "image 2"] and two[1].content == path.read_bytes()
    source.close()


def test_a_command_that_goes_on_gives_the_newest_image(tmp_path):
    both, third, taken = tmp_path / "both.jpg", tmp_path / "third.jpg", tmp_path / "taken"
    both.write_bytes(jpeg(0) + jpeg(1))
    third.write_bytes(jpeg(2))
    assert both.stat().st_size <= select.PIPE_BUF, "so that both arrive at once"
    command = f"cat '{both}'; while [ ! -e '{taken}' ]; do sleep 0.02; done; cat '{third}'"
    found = []
    for frame in frames(command, 0.05, lambda s: time.sleep(min(s, 0.02)), once=True):
        if frame is not None:
            found.append(frame.content)
            taken.touch()
    assert found == [jpeg(1), jpeg(2)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo no camera >&2; exit 3", "exit code 3: no camera"),
        ("true", "gave 0 images"),
        ("no-such-command-at-all", "exit code 127"),
    ],
)
def test_a_command_that_fails_is_named_with_what_it_said(command, words):
    with pytest.raises(InputError, match=words) as caught:
        given(command)
    assert caught.value.code == "camera-failed" and "\n" not in str(caught.value)


def test_a_stream_without_an_image_is_refused(monkeypatch):
    monkeypatch.setattr(camera, "MOST_BYTES", 10_000)
    with pytest.raises(InputError, match="more than 10,000 bytes without an image"):
        given("head -c 200000 /dev/zero; sleep 5")


def test_what_is_skipped_between_images_is_said_once(tmp_path):
    path, taken = tmp_path / "image.jpg", tmp_path / "taken"
    path.write_bytes(b"--frame\r\n\r\n" + jpeg() + b"\r\n")
    command = (
        f"for n in 1 2 3; do cat '{path}'; while [ ! -e '{taken}' ]; do sleep 0.02; done; rm '{taken}'; done"
    )
    found = []
    for frame in frames(command, 0.05, lambda s: time.sleep(min(s, 0.02)), once=True):
        if frame is not None:
            found.append(frame)
        if getattr(frame, "content", None) == jpeg():
            taken.touch()
    assert [f.name for f in found if not isinstance(f, Note)] == ["image 1", "image 2", "image 3"]
    (note,) = (f.text for f in found if isinstance(f, Note))
    assert "skipped 11 bytes" in note and "no image begins there" in note


def test_a_run_without_an_image_gives_what_it_wrote_so_that_it_can_be_named():
    page = "<!doctype html><title>404</title>"
    (frame,) = given(f"echo '{page}'")
    assert frame.name == "image 1" and page.encode() in frame.content


def test_of_what_a_command_says_the_last_line_is_the_reason_and_little_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(camera, "MOST_WORDS", 1000)
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    words = "(echo version; head -c 5000 /dev/zero) >&2"
    with pytest.raises(InputError, match="exit code 1: no signal;"):
        given(f"{words}; cat '{path}'; sleep 0.3; echo no signal >&2; false")


def test_what_the_command_started_ends_with_it(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    pid = tmp_path / "pid"
    source = frames(f"sh -c 'echo $$ > {pid}; cat {path}; sleep 60' & wait", 0.05, lambda s: time.sleep(0.01))
    while next(source) is None:
        pass
    source.close()
    end = time.monotonic() + 50
    while _runs(int(pid.read_text())) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _runs(int(pid.read_text()))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
