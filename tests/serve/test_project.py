"""Images of a project are plain files, changes of them are on the medium at once, and can be undone."""

import io
import os
import time

import numpy as np
import pytest
from PIL import Image

from tinytrain.base.errors import InputError, StorageError
from tinytrain.serve import project as module
from tinytrain.serve.project import Project


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "fruit")


def picture(seed, side=40, noise=0.0):
    """A JPEG file of blocks; with `noise` nearly the same."""
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 5, 3)).repeat(side // 5, 0).repeat(side // 5, 1)
    blocks = blocks + np.random.default_rng(int(1000 * noise)).normal(0, noise or 1e-9, blocks.shape)
    held = io.BytesIO()
    Image.fromarray(blocks.clip(0, 255).astype(np.uint8)).save(held, "JPEG", quality=95)
    return held.getvalue()


def files(project):
    return {p.relative_to(project.images).as_posix() for p in project.images.rglob("*") if p.is_file()}


def filled(project):
    project.add_class("apple")
    project.add_class("pear")
    return [project.add("apple", picture(seed))["id"] for seed in range(3)]


def test_images_lie_in_the_folder_of_their_class_as_they_came(project):
    filled(project)
    held = [path.read_bytes() for path in (project.images / "apple").iterdir()]
    assert sorted(held) == sorted(map(picture, range(3)))
    (project.images / "apple" / "notes.txt").write_text("no image")
    (project.images / "plum").mkdir()
    (project.images / "plum" / "a.JPG").write_bytes(picture(7))
    counts = {name: len(images) for name, images in project.classes().items()}
    assert counts == {"apple": 3, "pear": 0, "plum": 1}


@pytest.mark.parametrize("change", ["add class", "rename", "delete class", "add", "move", "delete"])
def test_every_change_is_undone(project, change):
    first, *_ = filled(project)
    before = files(project), sorted(project.classes())
    {
        "add class": lambda: project.add_class("plum"),
        "rename": lambda: project.rename_class("apple", "plum"),
        "delete class": lambda: project.delete_class("apple"),
        "add": lambda: project.add("pear", picture(9)),
        "move": lambda: project.move(first, "pear"),
        "delete": lambda: project.delete(first),
    }[change]()
    assert (files(project), sorted(project.classes())) != before and project.undo_text
    project.undo()
    assert (files(project), sorted(project.classes())) == before


def test_images_that_come_closely_are_one_step_and_all_steps_are_undone_in_order(project):
    filled(project)
    project.rename_class("apple", "plum")
    assert project.undo().renamed == ("apple", "plum")
    assert project.undo_text == "added 3 images to apple"
    for _ in range(3):
        project.undo()
    assert project.classes() == {} and project.undo_text is None
    with pytest.raises(InputError, match="nothing to undo"):
        project.undo()


def test_undo_replaces_nothing_that_is_there_again(project):
    filled(project)
    project.delete_class("pear")
    project.add_class("pear")
    project._steps.pop()
    with pytest.raises(InputError, match="'pear' is there again"):
        project.undo()


def test_near_copies_of_a_recording_are_left_out_and_others_are_kept(project):
    project.add_class("apple")
    kept = [project.add("apple", picture(1, noise=n), recording=True) for n in (0.0, 1.0, 2.0, 3.0)]
    assert [row["kept"] for row in kept] == [True, False, False, False] and kept[1]["why"] == "near copy"
    assert project.add("apple", picture(2), recording=True)["kept"]
    assert project.add("apple", picture(1, noise=1.0))["kept"], "what is not recorded is meant as it is"
    assert project.add("apple", picture(2))["why"] == "it is there already"


def test_names_that_no_folder_of_a_class_can_have_are_refused(project):
    project.add_class("café")
    for name in ("", " ", ".", "..", "a/b", "../x", "a\0b", "@eadir", "#x", ".hidden", "x" * 81, "a\nb"):
        with pytest.raises(InputError) as caught:
            project.add_class(name)
        assert caught.value.code == "class-names", name
    with pytest.raises(InputError, match="already"):
        project.add_class("cafe\u0301")
    assert os.listdir(project.images) == ["café"]


def test_what_is_no_image_is_refused_and_leaves_nothing(project):
    project.add_class("apple")
    for data in (b"<svg></svg>", b"", picture(1)[:300], b"GIF89a"):
        with pytest.raises(InputError):
            project.add("apple", data)
    assert files(project) == set() and project.undo_text == "added class apple"


def test_a_full_disk_is_said_and_leaves_no_part_of_an_image(project, monkeypatch):
    project.add_class("apple")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tinytrain.base.files.os.fsync", full)
    with pytest.raises(StorageError, match="free some space"):
        project.add("apple", picture(1))
    assert files(project) == set()


def test_the_trash_is_emptied_of_what_is_old_or_too_much(project, monkeypatch):
    old, new, *_ = filled(project)
    project.delete(old)
    place = next((project.path / ".trash").iterdir())
    os.utime(place, (time.time() - 8 * 86400,) * 2)
    project.delete(new)
    (project.images / "apple" / ".a.jpg.0123.tmp").touch()
    Project(project.path)
    assert not list(project.images.glob("*/.*")), "nor a part of an image that was being written"
    assert len(list((project.path / ".trash").iterdir())) == 1
    monkeypatch.setattr(module, "TRASH_BYTES", 10)
    Project(project.path)
    assert not list((project.path / ".trash").iterdir())


def test_a_folder_of_other_things_is_no_project(tmp_path):
    (tmp_path / "apple").mkdir()
    with pytest.raises(InputError, match="no images/"):
        Project(tmp_path)
    assert os.listdir(tmp_path) == ["apple"]
    with pytest.raises(StorageError, match="create the folder first"):
        Project(tmp_path / "a" / "b")
