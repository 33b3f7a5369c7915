"""Images of a command: one for each run, or a stream of JPEG images of which the newest counts."""

import io
import select
import time

import numpy as np
import pytest
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.stream import camera
from tinytrain.stream.camera import frames, jpeg_end, newest_jpeg


def jpeg(seed=0, progressive=False, exif=b""):
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=75, progressive=progressive, exif=exif)
    return file.getvalue()


@pytest.mark.parametrize("progressive", [False, True])
def test_an_image_ends_where_its_own_end_is_and_not_that_of_its_thumbnail(progressive):
    data = jpeg(progressive=progressive, exif=b"Exif\0\0" + jpeg(1))
    assert data.count(camera.END) >= 2
    assert jpeg_end(data + b"more") == len(data)


def test_a_part_of_an_image_has_no_end():
    data = jpeg()
    assert all(jpeg_end(data[:n]) is None for n in range(len(data)))
    assert jpeg_end(b"\x89PNG....") is None and jpeg_end(b"\xff\xd8\0\0\0\0\0\0") is None


def test_of_the_images_that_have_arrived_the_last_whole_one_is_given():
    one, two, three = (jpeg(k) for k in range(3))
    assert newest_jpeg(one + two + three[:50]) == (two, three[:50])
    assert newest_jpeg(one[:50]) == (None, one[:50])


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


def test_an_image_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(camera, "MOST_BYTES", 10_000)
    with pytest.raises(InputError, match="more than 10,000 bytes"):
        given("head -c 200000 /dev/zero; sleep 5")


def test_what_the_command_started_ends_with_it(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    pid = tmp_path / "pid"
    source = frames(f"sh -c 'echo $$ > {pid}; cat {path}; sleep 60' & wait", 0.05, lambda s: time.sleep(0.01))
    while next(source) is None:
        pass
    source.close()
    end = time.monotonic() + 5
    while _runs(int(pid.read_text())) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _runs(int(pid.read_text()))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
