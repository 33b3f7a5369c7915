"""A stream is cut into its images again behind any damage, and a growing file is whole when its image is."""

import io
import random
import struct
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from tinytrain.episode import boundaries
from tinytrain.episode.boundaries import CUT_OFF, DAMAGED, NOTHING, NoImageError, whole_end
from tinytrain.stream import splitter
from tinytrain.stream.splitter import Splitter

THUMBNAIL = (8, 8)


def encoded(seed, kind="JPEG", size=(16, 24), mode="RGB", **options):
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind, **options)
    return file.getvalue()


def with_thumbnail(seed):
    """EXIF 2.3 as cameras write it: a second directory says where the thumbnail is."""
    thumbnail = encoded(seed + 100, size=THUMBNAIL)
    first = struct.pack("<HHHIII", 1, 274, 3, 1, 1, 26)
    second = struct.pack("<HHHIIHHIII", 2, 0x201, 4, 1, 56, 0x202, 4, 1, len(thumbnail), 0)
    return encoded(seed, exif=b"Exif\0\0II*\0\x08\0\0\0" + first + second + thumbnail)


KINDS = {
    "jpeg": encoded,
    "jpeg in scans": lambda seed: encoded(seed, progressive=True),
    "jpeg with restarts": lambda seed: encoded(seed, restart_marker_blocks=1),
    "jpeg with a thumbnail": with_thumbnail,
    "png": lambda seed: encoded(seed, "PNG"),
    "ppm": lambda seed: encoded(seed, "PPM"),
    "pgm": lambda seed: encoded(seed, "PPM", mode="L"),
    "pbm": lambda seed: encoded(seed, "PPM", mode="1"),
    "bmp": lambda seed: encoded(seed, "BMP"),
    "webp": lambda seed: encoded(seed, "WEBP"),
}


@pytest.fixture(params=KINDS, scope="module")
def three(request):
    return tuple(KINDS[request.param](seed) for seed in range(3))


def split(data, block=10**9):
    cut, found = Splitter(), []
    for start in range(0, len(data), block):
        found += cut.feed(data[start : start + block])
    return found + cut.finish(), cut


def places(data):
    """All places in headers, and some among the pixels."""
    return sorted({*range(min(len(data), 700)), *range(0, len(data), 7), *range(len(data) - 20, len(data))})


@pytest.mark.parametrize("block", [1, 100, 10**9])
def test_whole_images_come_as_they_are_however_the_bytes_arrive(three, block):
    found, cut = split(b"".join(three), block)
    assert found == list(three) and not cut.skipped


def test_an_image_is_given_with_its_last_byte(three):
    cut = Splitter()
    assert cut.feed(three[0][:-1]) == [] and cut.feed(three[0][-1:]) == [three[0]]


def test_behind_an_image_that_is_cut_anywhere_every_image_comes_once(three):
    one, two, last = three
    for place in places(one)[1:]:
        found, cut = split(one[:place] + two + last)
        assert found == [two, last], place
        assert [nbytes for nbytes, _ in cut.skipped] == [place]


def test_a_stream_that_begins_anywhere_in_an_image_gives_all_behind_it(three):
    one, two, last = three
    for place in places(one)[1:]:
        assert split(one[place:] + two + last)[0] == [two, last], place


@pytest.mark.parametrize("lost", [0, 1, 2, 30])
def test_inserted_and_lost_bytes_cost_one_image_at_most(three, lost):
    one, two, last = three
    draw = random.Random(lost)
    for place in places(one)[1:]:
        more = b"" if lost else draw.randbytes(draw.choice((1, 2, 3, 50)))
        found, _ = split(two + one[:place] + more + one[place + lost :] + two + last)
        assert found[0] == two and found[-2:] == [two, last] and len(found) <= 4, place


def test_between_images_any_bytes_are_skipped_and_counted(three):
    gaps = (
        b"\0\0\0",
        b"\xff" * 64,
        b"\r\n--b\r\nContent-Length: 9\r\n\r\n",
        random.Random(0).randbytes(5000),
    )
    data = b"".join(gap + image for gap, image in zip(gaps, (*three, b""), strict=True))
    for block in (1000, 10**9):
        found, cut = split(data, block)
        assert found == list(three)
        assert cut.skipped == [(len(gap), NOTHING) for gap in gaps]


def test_images_of_several_kinds_follow_each_other():
    images = [make(1) for make in KINDS.values()]
    assert split(b"\0".join(images))[0] == images


def test_the_reason_says_whether_an_image_was_cut_or_damaged_or_none_was_there():
    one, two = encoded(0), encoded(1)
    png = bytearray(encoded(0, "PNG"))
    png[60] ^= 1
    chance = b"\xff\xd8\xff" + b"abcdefgh" * 9000
    for data, why in ((one[:-9], CUT_OFF), (bytes(png), DAMAGED), (b"abc", NOTHING), (chance, NOTHING)):
        assert split(data + two)[1].skipped == [(len(data), why)]
    assert split(two + one[:-9])[1].skipped == [(len(one) - 9, CUT_OFF)]


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "AVIF"])
def test_an_image_that_does_not_say_where_it_ends_is_the_whole_stream(kind):
    data = encoded(0, kind)
    assert split(data, 100)[0] == [data]


def test_a_stream_of_nothing_takes_no_memory_and_its_beginning_is_held(monkeypatch):
    for module in (boundaries, splitter):
        monkeypatch.setattr(module, "MOST_BYTES", 100_000)
    monkeypatch.setattr(splitter, "HELD_BYTES", 10_000)
    block, cut = random.Random(0).randbytes(50_000), Splitter()
    endless = b"P6 9999 9999 255\n" + encoded(0)[:200]  # claims more than any image may take
    tracemalloc.start()
    for _ in range(40):
        assert cut.feed(block) + cut.feed(endless) == []
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 500_000
    assert cut.beginning == block[:10_000]
    assert cut.feed(encoded(1)) == [encoded(1)] and not cut.beginning
    assert cut.skipped[0][0] == 40 * len(block + endless)


def test_coded_pixels_without_an_end_are_given_up(monkeypatch):
    for module in (boundaries, splitter):
        monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    cut, one = Splitter(), encoded(0)
    for _ in range(30):
        assert cut.feed((one[:-2] if not cut.lost and cut.beginning == b"" else b"") + b"a" * 1000) == []
    assert cut.lost > 20_000 and cut.why == "an image takes more than 10,000 bytes"
    assert cut.feed(one) == [one]


def test_a_file_is_whole_when_its_image_is(three):
    one = three[0]
    assert whole_end(one + b"more") == len(one)
    assert all(whole_end(one[:place]) is None for place in places(one)), "never taken for broken"


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "AVIF"])
def test_a_file_that_does_not_say_where_it_ends_is_whole_when_it_can_be_decoded(kind):
    data = encoded(0, kind)
    assert whole_end(data) == len(data) and whole_end(data[:-40]) is None


def test_more_bytes_would_not_make_an_image_of_a_text():
    for data in (b"x", b"<html>404</html>", encoded(0)[:20] + b"x" * 500):
        with pytest.raises(NoImageError):
            whole_end(data)
    assert whole_end(b"\0" * 500) is None, "the content of a file may come behind its size"
