"""Where images come from: a folder that a camera writes to, and names on a pipe."""

import os
import time

import pytest

from tinytrain.base.errors import InputError
from tinytrain.stream import sources
from tinytrain.stream.sources import FolderSource, named_on


def is_image(name):
    return name.endswith(".png")


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
    return FolderSource(str(tmp_path), is_image, once=True, wait=wait, **options)


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


def test_a_file_that_is_being_written_is_given_when_it_is_whole(tmp_path):
    given, looks = [], 0

    def wait(seconds):
        nonlocal looks
        looks += 1
        assert seconds <= sources.SETTLED
        if looks < 4:  # it grows between two looks
            put(tmp_path, "slow.png", 0, b"x" * 10 * looks)

    put(tmp_path, "slow.png", 0)
    for frame in FolderSource(str(tmp_path), is_image, once=True, wait=wait):
        if frame is not None:
            given.append(os.path.getsize(frame.content))
    assert given == [30]


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
    with pytest.raises(InputError, match="folder-missing"):
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
