"""Corrected images are kept in a bounded folder, one per class, and losing one loses nothing."""

import pytest

from tinytrain.store import kept as keeping
from tinytrain.store.kept import CorrectedImages, digest_of


@pytest.fixture
def kept(tmp_path):
    return CorrectedImages(tmp_path / "kept", most=4)


def test_an_image_is_kept_once_and_moves_with_its_class(kept, tmp_path):
    path = tmp_path / "a.PNG"
    path.write_bytes(b"one")
    assert kept.keep(str(path), "oak") and kept.keep(b"one", "oak", ".png")
    assert kept.counts() == {"oak": 1} and kept.files()[0][0].suffix == ".png"
    assert kept.keep(str(path), "elm") and kept.counts() == {"elm": 1}


def test_an_image_that_is_another_one_by_now_is_not_kept(kept, tmp_path):
    path = tmp_path / "newest.png"
    path.write_bytes(b"one")
    image = digest_of(str(path))
    path.write_bytes(b"two")
    assert not kept.keep(str(path), "oak", image=image) and kept.keep(b"one", "oak", image=image)


def test_a_label_that_is_taken_back_moves_its_image_or_takes_it_away(kept, tmp_path):
    kept.keep(b"one", "oak", ".png")
    kept.keep(b"two", "oak", ".png")
    kept.move(digest_of(b"one"), "elm")
    assert kept.counts() == {"oak": 1, "elm": 1} and (tmp_path / "kept" / "elm").exists()
    kept.move(digest_of(b"one"), None)
    kept.move(digest_of(b"two"), "a/b")  # no folder can have that name
    kept.move(digest_of(b"three"), "oak")
    assert kept.counts() == {}


def test_a_full_folder_gives_up_the_oldest_of_the_largest_class(kept):
    for k in range(3):
        kept.keep(b"oak %d" % k, "oak")
    kept.keep(b"elm", "elm")
    kept.keep(b"new", "ash")
    assert kept.counts() == {"oak": 2, "elm": 1, "ash": 1}
    assert b"oak 0" not in {path.read_bytes() for path, _ in kept.files()}


def test_bytes_are_bounded_too(kept, monkeypatch):
    monkeypatch.setattr(keeping, "MOST_BYTES", 1000)
    monkeypatch.setattr(keeping, "LARGEST", 400)
    assert not kept.keep(b"x" * 401, "oak")
    for k in range(4):
        assert kept.keep(bytes([k]) * 400, "oak")
    assert sum(path.stat().st_size for path, _ in kept.files()) <= 1000


@pytest.mark.parametrize(
    "label", ["", ".", "..", ".git", "#recycle", "@eaDir", "Thumbs.db", "a/b", "../x", "a\0b", "x" * 256]
)
def test_a_class_whose_name_no_folder_can_have_keeps_no_image(kept, tmp_path, label):
    assert not kept.keep(b"x", label)
    assert not (tmp_path / "kept").exists() and list(tmp_path.iterdir()) == []
    kept.keep(b"x", "oak")
    kept.forget(label)
    assert kept.counts() == {"oak": 1}
    kept.rename("oak", label)
    assert kept.counts() == {} and len(list(tmp_path.rglob("*"))) <= 1


def test_classes_are_forgotten_and_renamed(kept):
    kept.keep(b"1", "oak")
    kept.keep(b"2", "elm")
    kept.rename("oak", "ash")
    kept.forget("elm")
    assert kept.counts() == {"ash": 1}


def test_what_cannot_be_kept_is_no_error(kept, tmp_path, monkeypatch):
    assert not kept.keep(str(tmp_path / "gone.png"), "oak")
    assert not CorrectedImages(tmp_path / "none", most=0).keep(b"x", "oak")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keeping, "write_bytes", full)
    assert not kept.keep(b"x", "oak")
