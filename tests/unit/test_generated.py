import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tinytrain.datasets import Dataset, sample_episode
from tinytrain.datasets.folder import folder_dataset
from tinytrain.datasets.preview import GAP, contact_sheet, export
from tinytrain.datasets.signs import N_CLASSES, class_name, generate, signs
from tinytrain.datasets.symbols import BODIES, SYMBOLS
from tinytrain.errors import StorageError, UsageError


def test_there_are_at_least_40_classes_of_different_names():
    made = signs()
    assert made.n_classes >= 40 and len(set(made.class_names)) == made.n_classes
    assert len(made) == 60 * made.n_classes and len(set(made.names)) == len(made)
    assert len({class_name(c) for c in range(N_CLASSES)}) == N_CLASSES == len(BODIES) * len(SYMBOLS)


def test_the_default_classes_use_every_body_and_symbol_more_than_one_way():
    bodies, symbols = zip(*(name.split(" ") for name in signs().class_names), strict=True)
    assert {bodies.count(b) for b in BODIES} == {4}
    assert set(symbols) == set(SYMBOLS)


def test_a_picture_depends_on_class_picture_and_seed_alone():
    first = generate(3, 5, 0, 64)
    assert first.shape == (64, 64, 3) and first.dtype == np.uint8
    assert np.array_equal(first, generate(3, 5, 0, 64))
    for other in (generate(4, 5, 0, 64), generate(3, 6, 0, 64), generate(3, 5, 1, 64)):
        assert np.abs(first.astype(int) - other).mean() > 5


def test_pictures_are_the_same_in_every_process():
    code = "from tinytrain.datasets.signs import generate; print(generate(7, 1, 2, 48).astype(int).sum())"
    for hash_seed in ("1", "2"):
        out = subprocess.check_output(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, text=True
        )
        assert int(out) == generate(7, 1, 2, 48).astype(int).sum()


@pytest.mark.parametrize("size", [1, 2, 16, 97, 224])
def test_any_size_can_be_drawn(size):
    assert generate(0, 0, 0, size).shape == (size, size, 3)


def test_size_changes_the_resolution_and_not_the_scene():
    for picture in range(8):
        small = generate(0, picture, 0, 48).astype(float)
        large = np.asarray(
            Image.fromarray(generate(0, picture, 0, 192)).resize((48, 48), Image.Resampling.BOX)
        )
        assert np.corrcoef(small.ravel(), large.ravel())[0, 1] > 0.8


def test_the_dataset_reads_what_generate_draws():
    made = signs(classes=range(48, 60), per_class=4, seed=9)
    assert np.array_equal(made.read(4 * 2 + 3, 32), generate(50, 3, 9, 32))
    assert made.labels[4 * 2 + 3] == 2 and made.class_names[2] == class_name(50)
    assert not made.may_flip and made.name != signs().name


@pytest.mark.parametrize("classes", [range(0), range(-1, 5), range(N_CLASSES, N_CLASSES + 1)])
def test_classes_that_do_not_exist_are_refused_with_the_range(classes):
    with pytest.raises(UsageError, match=rf"classes 0\.\.{N_CLASSES - 1}"):
        signs(classes)


def nearest_prototype(episode, size=24):
    def pixels(pictures):
        return np.stack([pictures.read(i, size).ravel() for i in range(len(pictures))]).astype(float)

    support, query = pixels(episode.support), pixels(episode.query)
    prototypes = np.stack([support[episode.support.labels == c].mean(axis=0) for c in range(episode.n_way)])
    distance = ((query[:, None] - prototypes) ** 2).sum(axis=2)
    return (distance.argmin(axis=1) == episode.query.labels).mean()


def test_raw_pixels_do_not_solve_the_domain():
    accuracy = np.mean([nearest_prototype(sample_episode(signs(), 5, 5, 10, 0, i)) for i in range(6)])
    assert accuracy < 0.6


def test_a_contact_sheet_has_a_row_per_class():
    sheet = contact_sheet(signs(), [0, 5, 7], per_class=4, size=20)
    assert sheet.size == (4 * 20 + 3 * GAP, 3 * 20 + 2 * GAP) and sheet.mode == "RGB"
    assert np.array_equal(np.asarray(sheet), np.asarray(contact_sheet(signs(), [0, 5, 7], 4, 20)))


def test_an_export_can_be_opened_as_a_folder(tmp_path):
    made = signs(range(3), per_class=5)
    assert export(made, tmp_path / "out", per_class=4, size=24) == 12
    again = folder_dataset(tmp_path / "out")
    assert [name.split(" ", 1)[1] for name in again.class_names] == list(made.class_names)
    assert np.bincount(again.labels).tolist() == [4, 4, 4] and again.skipped == ()
    originals = [made.read(i, 24) for i in range(5)]
    assert any(np.array_equal(again.read(0, 24), picture) for picture in originals)


def test_class_names_cannot_lead_an_export_out_of_its_folder(tmp_path):
    names = ("../../evil", "/etc", ".hidden", "a\0b", "x" * 300, "same", "same")
    labels = np.arange(len(names), dtype=np.int32)
    made = Dataset("odd", labels, names, names, lambda i, size: np.zeros((size, size, 3), np.uint8))
    assert export(made, tmp_path / "out", size=8) == len(names)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert folder_dataset(tmp_path / "out").n_classes == len(names)


def test_an_export_mixes_with_nothing_and_leaves_nothing_half_written(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="not empty"):
        export(signs(), tmp_path)
    assert os_names(tmp_path) == ["mine.txt"]
    with pytest.raises(StorageError, match="cannot be written"):
        export(signs(), tmp_path / "mine.txt" / "below")

    def read(i, size):
        raise KeyboardInterrupt

    stopped = Dataset("s", np.zeros(1, np.int32), ("a",), ("p",), read)
    with pytest.raises(KeyboardInterrupt):
        export(stopped, tmp_path / "out")
    assert [p for p in (tmp_path / "out").rglob("*") if p.is_file()] == []


def os_names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_failed_write_leaves_no_temporary_file(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    made = Dataset(
        "s", np.zeros(1, np.int32), ("a",), ("p",), lambda i, size: np.zeros((size, size, 3), np.uint8)
    )
    with pytest.raises(StorageError, match="No space left"):
        export(made, tmp_path / "out")
    assert [p for p in (tmp_path / "out").rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("classes", [[], [48], [-1]])
def test_previews_of_classes_that_do_not_exist_are_refused(classes):
    with pytest.raises(UsageError, match=r"classes 0\.\.47"):
        contact_sheet(signs(), classes)
