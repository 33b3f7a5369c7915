"""Where images come from: a folder that a camera writes to, and names on a pipe."""

import io
import os
import shutil
import time

import numpy as np
import pytest
from cases import each
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.episode.kinds import IMAGES
from tinytrain.stream import seen, sources
from tinytrain.stream.sources import FolderSource, Note, named_on


def put(folder, name, age=60.0, content=b"x"):
    """A file that was changed `age` seconds ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age,) * 2)
    return path


def names(source, tmp_path):
    """All that a source with `once` gives, relative to the folder."""
    return [os.path.relpath(frame.content, tmp_path) for frame in source if frame is not None]


def once(tmp_path, **options):
    wait = lambda seconds: time.sleep(min(seconds, 0.05))  # noqa: E731
    return FolderSource(str(tmp_path), IMAGES, once=True, wait=wait, **options)


def test_images_come_oldest_first_and_only_images(tmp_path):
    for name, age in (("b.png", 30), ("a.png", 20), ("sub/c.png", 90), ("note.txt", 50), (".hidden.png", 40)):
        put(tmp_path, name, age)
    assert names(once(tmp_path), tmp_path) == ["sub/c.png", "b.png", "a.png"]


def test_an_image_is_given_once_and_again_when_it_has_changed(tmp_path):
    source = once(tmp_path)
    put(tmp_path, "a.png")
    assert names(source, tmp_path) == ["a.png"] and names(source, tmp_path) == []
    put(tmp_path, "a.png", 30, b"longer")
    assert names(source, tmp_path) == ["a.png"]


def test_images_that_are_there_already_can_be_passed_over(tmp_path):
    put(tmp_path, "old.png")
    source = once(tmp_path)
    source.skip_present()
    put(tmp_path, "new.png")
    assert names(source, tmp_path) == ["new.png"]


class Clock:
    """A source of a folder and a clock that goes on only where it waits; `steps` are done there, one each."""

    def __init__(self, folder, *steps, once=True, **options):
        self.now, self.steps, self.folder = 0.0, list(steps), folder
        self.source = FolderSource(
            str(folder), IMAGES, once=once, wait=self.wait, clock=lambda: self.now, **options
        )

    def wait(self, seconds):
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()

    def frames(self, looks=8):
        """What is given until there was nothing for so many looks behind the last step."""
        found = []
        for frame in self.source:
            if frame is not None:
                found.append(frame)
            elif not self.steps:
                looks -= 1
                if not looks:
                    break
        return found


def image(seed=0):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (9, 9, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_an_image_is_given_as_soon_as_it_is_whole_however_slowly_it_comes(tmp_path):
    data, given = image(), []
    path = put(tmp_path, "slow.png", 0, data[:50])
    pauses = [lambda: None] * 15

    def grow():
        put(tmp_path, "slow.png", 0, data[: path.stat().st_size + 100])

    last = lambda: put(tmp_path, "slow.png", 0, data)  # noqa: E731
    clock = Clock(tmp_path, *pauses, grow, *pauses, grow, *pauses, last)
    for frame in clock.source:
        if frame is not None:
            given.append((path.read_bytes(), clock.now))
    assert [content for content, _ in given] == [data]
    assert given[0][1] > sources.PATIENCE, "it was cut off for longer, and not given up"


def test_a_cut_image_is_given_once_when_it_has_not_changed_for_long(tmp_path):
    clock = Clock(tmp_path, once=False)
    put(tmp_path, "cut.png", 0, image()[:100])
    put(tmp_path, "whole.png", 0, image())
    found = clock.frames(looks=100)
    assert [os.path.basename(frame.name) for frame in found] == ["whole.png", "cut.png"]
    assert clock.now >= sources.PATIENCE
    put(tmp_path, "old.png", sources.PATIENCE, image()[:100])
    found = Clock(tmp_path, once=False).frames(looks=5)
    assert "old.png" not in [os.path.basename(frame.name) for frame in found], "a clock may have jumped"
    assert "old.png" in [os.path.basename(frame.name) for frame in Clock(tmp_path).frames(looks=1)]


def test_no_image_is_named_when_it_has_settled_and_what_cannot_be_read_later(tmp_path):
    (tmp_path / "none.png").write_bytes(b"<html>no image</html>")
    clock = Clock(tmp_path)
    assert [frame.content for frame in clock.frames()] == [str(tmp_path / "none.png")]
    assert sources.SETTLED <= clock.now < sources.PATIENCE
    put(tmp_path, "none.png", 60, b"<html>no image</html>")
    clock = Clock(tmp_path, once=False)
    assert len(clock.frames(looks=1)) == 1 and clock.now == 0, "it has settled already"


def test_a_file_that_gets_its_size_first_and_grows_behind_its_image_is_given_once(tmp_path):
    data, now = image(), time.time()

    def write(content):
        (tmp_path / "a.png").write_bytes(content)
        os.utime(tmp_path / "a.png", (now, now))

    write(bytes(len(data)))
    clock = Clock(tmp_path, lambda: write(data), once=False)
    assert [frame.name for frame in clock.frames()] == [str(tmp_path / "a.png")]
    write(data + b"film behind it")
    assert clock.frames() == []


def test_a_file_that_is_replaced_all_the_time_is_looked_at_each_time(tmp_path):
    number = 0

    def replace():
        nonlocal number
        number += 1
        put(tmp_path, ".part", 0, image(number // 2))
        os.replace(tmp_path / ".part", tmp_path / "latest.png")

    replace()
    found = Clock(tmp_path, *[replace] * 9, once=False).frames()
    contents = [frame.content if isinstance(frame.content, bytes) else None for frame in found]
    # A name that is new stands for its image. Each image comes twice in a row, and counts once.
    assert contents == [None, *(image(k) for k in range(1, 6))]


@pytest.mark.parametrize("size", ["same", "other"])
def test_what_looks_the_same_to_a_coarse_clock_is_told_apart(tmp_path, size):
    one = image(0)
    two = image(1)[: len(one)].ljust(len(one), b"\0") if size == "same" else image(1) + bytes(300)
    now = time.time()

    def write(data):
        (tmp_path / "a.png").write_bytes(data)
        os.utime(tmp_path / "a.png", (now, now))

    write(one)
    assert len(Clock(tmp_path, lambda: write(two), once=False).frames()) == 2


def remounted(folder, change=lambda path: None):
    """The folder is gone, then empty, then there again with other facts about the same files."""
    away = folder.with_name("away")

    def back():
        folder.rmdir()
        away.rename(folder)
        for path in folder.iterdir():
            change(path)

    return [lambda: folder.rename(away), lambda: None, folder.mkdir, lambda: None, back]


CHANGES = {
    "as they were": lambda path: None,
    "an hour later": lambda path: os.utime(path, (path.stat().st_mtime + 3600,) * 2),
    "an hour earlier": lambda path: os.utime(path, (path.stat().st_mtime - 3600,) * 2),
    "with other inodes": lambda path: (shutil.copy2(path, f"{path}.x"), os.replace(f"{path}.x", path)),
}


@each("change", CHANGES.values(), ids=CHANGES)
def test_images_of_a_folder_that_comes_back_are_not_given_again(tmp_path, change):
    folder = tmp_path / "camera"
    for k in range(3):
        put(folder, f"{k}.png", 5000 - k, image(k))
    clock = Clock(
        folder, *remounted(folder, change), lambda: put(folder, "new.png", 60, image(9)), once=False
    )
    found = clock.frames()
    names = [os.path.basename(frame.name) for frame in found if not isinstance(frame, Note)]
    assert names == ["0.png", "1.png", "2.png", "new.png"]
    (note,) = (frame.text for frame in found if isinstance(frame, Note))
    assert "camera cannot be listed (No such file or directory)" in note


def test_images_that_were_passed_over_stay_so_when_their_folder_comes_back(tmp_path):
    folder = tmp_path / "camera"
    for k in range(3):
        put(folder, f"{k}.png", 5000, image(k))
    clock = Clock(folder, *remounted(folder), once=False)
    clock.source.skip_present()
    assert [frame for frame in clock.frames() if not isinstance(frame, Note)] == []


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(tmp_path, monkeypatch):
    put(tmp_path, "sub/a.png", 60, image())
    listed = os.scandir

    def scandir(path):
        if str(path) == failing:
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    failing = str(tmp_path / "sub")
    (note,) = list(filter(None, Clock(tmp_path).source))
    assert "sub cannot be listed (Permission denied)" in note.text
    failing = str(tmp_path)
    with pytest.raises(InputError, match=r"file-missing.*cannot be listed \(Permission"):
        Clock(tmp_path).frames()


def test_a_copy_a_link_and_a_file_that_is_moved_in_are_new_but_a_touched_one_is_not(tmp_path):
    folder = tmp_path / "camera"
    put(folder, "a.png", 500, image())
    put(tmp_path, "old.png", 9000, image(1))
    found = Clock(
        folder,
        lambda: os.utime(folder / "a.png"),
        lambda: shutil.copy2(folder / "a.png", folder / "copy.png"),
        lambda: os.link(folder / "a.png", folder / "link.png"),
        lambda: os.rename(tmp_path / "old.png", folder / "moved.png"),
        lambda: os.replace(folder / "copy.png", folder / "link.png"),
        once=False,
    ).frames()
    names = [os.path.basename(frame.name) for frame in found]
    assert names == ["a.png", "copy.png", "link.png", "moved.png"]


def test_of_files_that_are_gone_the_last_ones_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(seen, "MOST_GONE", 3)
    steps, sizes = [], []
    for k in range(12):
        steps += [
            lambda k=k: put(tmp_path, f"{k}.png", 100, image(k)),
            lambda k=k: (tmp_path / f"{k}.png").unlink(),
            lambda: sizes.append(clock.source._seen._table.shape[1]),
        ]
    again = [lambda k=k: put(tmp_path, f"{k}.png", 100, image(k)) for k in (11, 10, 9, 8)]
    clock = Clock(tmp_path, *steps, *again, once=False)
    names = [os.path.basename(frame.name) for frame in clock.frames()]
    assert names == [*(f"{k}.png" for k in range(12)), "8.png"]
    assert max(sizes) <= 5


def test_what_cannot_be_listed_is_not_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(seen, "MOST_GONE", 0)
    folder = tmp_path / "camera"
    put(folder, "a.png", 500, image())
    away = [
        lambda: folder.rename(tmp_path / "away"),
        lambda: None,
        lambda: (tmp_path / "away").rename(folder),
    ]
    found = Clock(folder, *away, once=False).frames()
    assert [isinstance(frame, Note) for frame in found] == [False, True]


def test_the_store_inside_of_the_folder_and_links_to_folders_are_left_out(tmp_path):
    put(tmp_path, "state/kept/oak/a.png")
    put(tmp_path, "b.png")
    os.symlink(tmp_path / "state", tmp_path / "link")
    assert names(once(tmp_path, without=str(tmp_path / "state")), tmp_path) == ["b.png"]


def test_a_large_backlog_comes_whole_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MOST", 7)
    for k in range(30):
        put(tmp_path, f"{k:02d}.png", 100 - k)
    assert names(once(tmp_path), tmp_path) == [f"{k:02d}.png" for k in range(30)]


def test_a_folder_that_is_missing_is_refused(tmp_path):
    with pytest.raises(InputError, match="file-missing"):
        list(once(tmp_path / "nothing"))


@pytest.mark.parametrize(("end", "text"), [(b"\n", b"a b.png\r\n\nc\nd.png"), (b"\0", b"a b.png\0c\0d.png")])
def test_names_on_a_pipe_end_as_they_are_told_to_and_the_last_one_need_not(end, text):
    reading, writing = os.pipe()
    os.write(writing, text[:5])
    frames = named_on(reading, end)
    assert next(frames) is None  # a name is not whole yet
    os.write(writing, text[5:])
    os.close(writing)
    assert [frame.name for frame in frames if frame is not None] == ["a b.png", "c", "d.png"]
    os.close(reading)


def test_a_line_that_is_longer_than_what_is_kept_is_one_text_that_is_cut_between_words(tmp_path):
    lines = ["é " * 100_000, "x" * 70_000, "\0" * 300_000, "me"]
    (tmp_path / "lines").write_text("\n".join(lines))
    with open(tmp_path / "lines") as file:
        frames = [frame for frame in named_on(file.fileno(), items=True) if frame is not None]
    assert len(frames) == 4 and frames[3].name == "me"
    assert 2**15 < len(frames[0].content.decode().split()) * 3 <= 2**16 and frames[1].name == "x" * 2**16
