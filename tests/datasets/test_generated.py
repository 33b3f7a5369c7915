import os
import subprocess
import sys
import tracemalloc
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from tinytrain.base.errors import InputError, StorageError, UsageError
from tinytrain.datasets import DOMAINS, Dataset, generated, open_dataset, sample_episode
from tinytrain.datasets.folder import folder_dataset
from tinytrain.datasets.generated import meters
from tinytrain.datasets.generated.leaf_shapes import SHAPES
from tinytrain.datasets.generated.leaves import species
from tinytrain.datasets.generated.materials import FAMILIES
from tinytrain.datasets.generated.sign_shapes import BODIES, SYMBOLS
from tinytrain.datasets.generated.signs import N_CLASSES, signs
from tinytrain.datasets.generated.sketch_objects import KINDS, sketch
from tinytrain.datasets.generated.solid_shapes import BODIES as THINGS
from tinytrain.datasets.generated.solid_shapes import solid
from tinytrain.datasets.generated.strokes import glyph
from tinytrain.datasets.generated.textures import material
from tinytrain.datasets.preview import GAP, MAX_SIZE, contact_sheet, export

SHEET_LINE = 14  # pixels above a row of small images


@pytest.fixture(params=DOMAINS)
def domain(request):
    """The module of a domain; the package has its main function under that name."""
    return import_module(f"tinytrain.datasets.generated.{request.param}")


def dataset(domain, *arguments, **named):
    return generated.domain(domain.__name__.rsplit(".", 1)[1])(*arguments, **named)


def test_there_are_at_least_40_classes_of_different_names_and_all_ten_readings_of_one_meter(domain):
    made = dataset(domain)
    assert made.n_classes == meters.FIGURES if domain is meters else made.n_classes >= 40
    assert len(set(made.class_names)) == made.n_classes
    assert len(made) == 60 * made.n_classes and len(set(made.names)) == len(made)
    assert len({domain.class_name(c) for c in range(domain.N_CLASSES)}) == domain.N_CLASSES >= 200


def test_domains_open_by_name_and_say_whether_mirroring_keeps_their_classes():
    opened = {name: open_dataset(name) for name in DOMAINS}
    assert all(
        made.name == name and "no restrictions" in made.provenance.licence for name, made in opened.items()
    )
    assert {name for name, made in opened.items() if made.may_flip} == {
        "textures", "leaves", "sketches", "solids", "toys",
    }  # fmt: skip


def test_the_default_classes_use_every_body_and_symbol_more_than_one_way():
    bodies, symbols = zip(*(name.split(" ") for name in signs().class_names), strict=True)
    assert len(BODIES) * len(SYMBOLS) == N_CLASSES
    assert {bodies.count(b) for b in BODIES} == {4}
    assert set(symbols) == set(SYMBOLS)


def test_the_default_classes_use_every_family_of_textures_and_leaves_more_than_once():
    for name, families in (("textures", FAMILIES), ("leaves", SHAPES)):
        used = [class_name.split(" ")[0] for class_name in open_dataset(name).class_names]
        assert min(used.count(family) for family in families) >= 2


def test_sketches_solids_and_toys_come_in_families_of_objects_and_the_other_domains_do_not():
    families = {name: open_dataset(name).families for name in DOMAINS}
    assert {name for name, known in families.items() if known is not None} == {"sketches", "solids", "toys"}
    for name, kinds in (("sketches", KINDS), ("toys", KINDS), ("solids", THINGS)):
        made = generated.domain(name)(range(100, 200), 1)
        assert [list(kinds)[f] for f in made.families] == [c.split(" ")[0] for c in made.class_names]


def test_the_last_wheel_of_a_meter_shows_the_class_and_the_one_before_it_any_figure(monkeypatch):
    seen = []
    monkeypatch.setattr(
        meters, "_wheel", lambda scene, kind, place, shown, project: seen.append(round(shown))
    )
    for class_id in (7, 13):
        del seen[:]
        for image in range(60):
            meters.generate(class_id, image, 0, 8)
        before, last = (np.array(seen[place::2]) % meters.FIGURES for place in (0, 1))
        assert set(last) == {class_id % meters.FIGURES} and set(before) == set(range(meters.FIGURES))


@pytest.mark.slow
def test_no_two_of_a_thousand_sketches_or_solids_of_a_family_are_nearly_the_same():
    def outline(c):  # how far the object reaches in 24 directions, and how much of it there is
        points = np.concatenate([part.points for part in sketch(c).parts])
        turn = np.arctan2(points[:, 1], points[:, 0])
        sector = ((turn / (2 * np.pi) + 0.5) * 24).astype(int) % 24
        reach = np.hypot(*points.T)
        return np.array([reach[sector == k].max(initial=0) for k in range(24)])

    def extent(c):
        points = np.concatenate([s.points.reshape(-1, 3) for s in solid(c).surfaces])
        return np.quantile(points, (0.05, 0.3, 0.5, 0.7, 0.95), axis=0).ravel()

    for measure, families, least in ((outline, len(KINDS), 0.1), (extent, len(THINGS), 0.03)):
        rows = np.array([measure(c) for c in range(1000)])
        for family in range(families):
            own = rows[family::families]
            apart = np.linalg.norm(own[:, None] - own, axis=2) + 9 * np.eye(len(own))
            assert apart.min() > least


def test_no_two_characters_of_the_default_range_are_nearly_the_same():
    def far(a, b):  # the mean way from a point of one to the nearest of the other
        return np.hypot(*(a[:, None] - b).transpose(2, 0, 1)).min(axis=1).mean()

    written = [glyph(c).reshape(-1, 2) for c in range(48)]
    assert min(max(far(a, b), far(b, a)) for a, b in combinations(written, 2)) > 0.1


def test_no_two_species_and_materials_of_a_family_are_nearly_the_same():
    def texture(c):
        kind = material(c)
        return np.array([*kind.parameters, np.log(kind.across / 4) / np.log(3), np.log2(kind.aspect / 0.7)])

    for count, families, numbers in (
        (288, len(FAMILIES), texture),
        (240, len(SHAPES), lambda c: species(c).parameters),
    ):
        points = [numbers(c) for c in range(count)]
        for family in range(families):
            pairs = combinations(points[family::families], 2)
            assert min(np.linalg.norm(a - b) for a, b in pairs) > 0.25


def test_a_image_depends_on_class_image_and_seed_alone(domain):
    first = domain.generate(3, 5, 0, 64)
    assert first.shape == (64, 64, 3) and first.dtype == np.uint8
    assert np.array_equal(first, domain.generate(3, 5, 0, 64))
    for other in (domain.generate(4, 5, 0, 64), domain.generate(3, 6, 0, 64), domain.generate(3, 5, 1, 64)):
        assert np.abs(first.astype(int) - other).mean() > 5


@pytest.mark.slow
def test_images_are_the_same_in_every_process(domain):
    code = f"from {domain.__name__} import generate; print(generate(7, 1, 2, 48).tobytes().hex())"
    for hash_seed in ("1", "2"):
        out = subprocess.check_output(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, text=True
        )
        assert out.strip() == domain.generate(7, 1, 2, 48).tobytes().hex()


# Means of 3 x 3 blocks, with some room: another build of the JPEG library or of numpy may round otherwise.
PINNED = {
    "signs": (40.2, 42.6, 35.1, 40.5, 81.5, 67.8, 74.2, 70.2, 72.8),
    "glyphs": (130.0, 142.4, 199.6, 153.9, 165.5, 253.2, 215.9, 232.5, 255.0),
    "textures": (53.6, 53.6, 50.8, 58.9, 60.2, 59.8, 66.6, 67.1, 65.4),
    "sketches": (239.8, 227.8, 243.0, 240.7, 211.0, 243.0, 242.9, 230.2, 243.0),
    "solids": (82.2, 73.4, 116.6, 97.3, 87.8, 93.6, 74.1, 60.6, 84.3),
    "toys": (61.6, 109.3, 45.6, 39.2, 76.6, 45.0, 43.3, 53.8, 49.1),
    "meters": (64.2, 75.4, 86.4, 68.9, 86.9, 81.3, 41.2, 57.7, 60.7),
    "leaves": (105.5, 83.0, 94.7, 115.2, 56.6, 77.0, 128.0, 92.7, 123.6),
}


def blocks(domain):
    grey = domain.generate(7, 1, 2, 48).astype(float).mean(axis=2)
    return grey.reshape(3, 16, 3, 16).mean(axis=(1, 3)).ravel()


def test_images_stay_the_same_from_release_to_release(domain):
    assert np.abs(blocks(domain) - PINNED[domain.__name__.rsplit(".", 1)[1]]).max() < 1


@pytest.mark.parametrize("size", [1, 2, 16, 97, 224])
def test_any_size_can_be_drawn(domain, size):
    assert domain.generate(0, 0, 0, size).shape == (size, size, 3)


def test_size_changes_the_resolution_and_not_the_scene(domain):
    for image in range(8):
        small = domain.generate(image, image, 0, 48).astype(float)
        large = Image.fromarray(domain.generate(image, image, 0, 192)).resize((48, 48), Image.Resampling.BOX)
        assert np.corrcoef(small.ravel(), np.asarray(large).ravel())[0, 1] > 0.8


def test_the_dataset_reads_what_generate_draws(domain):
    made = dataset(domain, classes=range(48, 60), per_class=4, seed=9)
    assert np.array_equal(made.read(4 * 2 + 3, 32), domain.generate(50, 3, 9, 32))
    assert made.labels[4 * 2 + 3] == 2 and made.class_names[2] == domain.class_name(50)
    assert made.name != dataset(domain).name


def test_classes_that_do_not_exist_are_refused_with_the_range(domain):
    last = domain.N_CLASSES - 1
    for classes in (range(0), range(-1, 5), range(last + 1, last + 2)):
        with pytest.raises(UsageError, match=rf"classes 0\.\.{last}"):
            dataset(domain, classes)
    with pytest.raises(UsageError, match="x 0 given"):
        dataset(domain, per_class=0)


def nearest_prototype(episode, features):
    def seen(images):
        return np.stack([features(images.read(i, 24).astype(float)) for i in range(len(images))])

    support, query = seen(episode.support), seen(episode.query)
    prototypes = np.stack([support[episode.support.labels == c].mean(axis=0) for c in range(episode.n_way)])
    distance = ((query[:, None] - prototypes) ** 2).sum(axis=2)
    return (distance.argmin(axis=1) == episode.query.labels).mean()


@pytest.mark.slow
def test_neither_raw_pixels_nor_the_mean_colour_solve_a_domain(domain):
    episodes = [sample_episode(dataset(domain), 5, 5, 10, 0, i) for i in range(6)]
    assert np.mean([nearest_prototype(e, np.ravel) for e in episodes]) < 0.6
    assert np.mean([nearest_prototype(e, lambda x: x.mean(axis=(0, 1))) for e in episodes]) < 0.4


def test_a_contact_sheet_has_a_row_per_class():
    sheet = contact_sheet(signs(), [0, 5, 7], per_class=4, size=20)
    assert sheet.size == (4 * 20 + 3 * GAP, 3 * (SHEET_LINE + 20) + 2 * GAP) and sheet.mode == "RGB"
    assert np.array_equal(np.asarray(sheet), np.asarray(contact_sheet(signs(), [0, 5, 7], 4, 20)))


def name_lines(*names):
    """What stands above each row of a sheet of white images, as darkness (lines, height, width)."""
    labels = np.repeat(np.arange(len(names), dtype=np.int32), 2)
    images = tuple(map(str, labels))
    made = Dataset("named", labels, names, images, lambda i, s: np.full((s, s, 3), 255, np.uint8))
    sheet = 255 - np.asarray(contact_sheet(made, per_class=2, size=30))[..., 0]
    step = SHEET_LINE + 30 + GAP
    assert not any(sheet[k * step + SHEET_LINE + 2 : (k + 1) * step].any() for k in range(len(names)))
    return np.array([sheet[k * step : k * step + SHEET_LINE] for k in range(len(names))])


def test_a_contact_sheet_names_the_class_above_each_row():
    one, two, again, odd, empty = name_lines("ant", "bee", "ant ", "a\nb", "\u202e")
    assert one.any() and (one != two).any() and (one == again).all()
    assert (odd == name_lines("a\\nb", "x")[0]).all() and empty.any(), "control characters are written out"


def test_a_class_name_that_is_wider_than_its_sheet_is_shortened_and_none_leaves_it():
    long, dots, short = name_lines("m" * 500, "...", "mmmm")
    shown = np.flatnonzero(long.any(axis=0))
    assert shown.max() < long.shape[1] - 1 and shown.max() > long.shape[1] - 15
    width = np.flatnonzero(dots.any(axis=0)).max() + 1
    end = shown.max() + 1
    assert (long[:, end - width + 2 : end] == dots[:, 2:width]).all(), "it ends in dots"
    assert (long[:, :20] == short[:, :20]).all()


def test_without_freetype_a_contact_sheet_has_plain_letters(monkeypatch):
    from PIL import ImageFont

    bitmap = getattr(ImageFont, "load_default_imagefont", None)
    if bitmap is None:
        pytest.skip("this pillow has no plain font of its own to ask for")
    monkeypatch.setattr("tinytrain.datasets.preview.features.check", lambda name: False)
    monkeypatch.setattr(ImageFont, "load_default", lambda: bitmap())
    ant, bee, odd = name_lines("ant", "bee", "\u4e2d")
    assert (ant != bee).any() and odd.any()


@pytest.mark.parametrize(
    ("size", "per_class", "said"),
    [(100_000, 1, "at most 2,048"), (MAX_SIZE + 1, 1, "at most 2,048"), (1000, 10**9, "at most 64,000,000")],
)
def test_a_sheet_or_a_image_that_is_too_large_is_refused_before_anything_is_held(size, per_class, said):
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=said):
            contact_sheet(signs(range(2), per_class=1), per_class=per_class, size=size)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_images_that_are_too_large_are_not_exported(tmp_path):
    with pytest.raises(UsageError, match="at most 2,048"):
        export(signs(range(2), per_class=1), tmp_path / "out", size=MAX_SIZE + 1)
    assert not (tmp_path / "out").exists()


def test_an_export_can_be_opened_as_a_folder(tmp_path):
    made = signs(range(3), per_class=5)
    assert export(made, tmp_path / "out", per_class=4, size=24) == 12
    again = folder_dataset(tmp_path / "out")
    assert again.class_names == tuple(sorted(name.replace(" ", "-") for name in made.class_names))
    assert np.bincount(again.labels).tolist() == [4, 4, 4] and again.provenance.skipped == ()
    first = made.class_names.index(again.class_names[0].replace("-", " ", 1))
    originals = [made.read(int(i), 24) for i in made.by_class[first]]
    assert any(np.array_equal(again.read(0, 24), image) for image in originals)
    assert again.names[0] == f"{again.class_names[0]}/{again.class_names[0]}-01.png"


def test_exported_images_may_be_read_by_whom_the_user_lets(tmp_path):
    old = os.umask(0o027)
    try:
        export(signs(range(2), per_class=1), tmp_path / "out", size=8)
    finally:
        os.umask(old)
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "out").rglob("*.png")} == {0o640}


def test_images_that_cannot_be_decoded_are_named_and_others_drawn_for_them(tmp_path):
    def read(i, size):
        if i == 1:
            raise InputError("image-unreadable", "'p1' is broken")
        return np.full((size, size, 3), i, np.uint8)

    made = Dataset("s", np.zeros(4, np.int32), ("a",), tuple(f"p{i}" for i in range(4)), read)
    told = []
    assert export(made, tmp_path / "out", per_class=3, size=8, skip=told.append) == 3
    kept = {int(np.asarray(Image.open(p)).max()) for p in (tmp_path / "out").rglob("*.png")}
    assert kept == {0, 2, 3} and told == ["skipped image-unreadable: 'p1' is broken"]
    sheet = np.asarray(contact_sheet(made, per_class=3, size=8))
    assert set(np.unique(sheet[SHEET_LINE:])) == {0, 2, 3, 255}


def test_a_class_without_any_image_that_can_be_decoded_is_an_error(tmp_path):
    def read(i, size):
        raise InputError("image-unreadable", "'p' is broken")

    made = Dataset("s", np.zeros(2, np.int32), ("a",), ("p", "p"), read)
    for show in (contact_sheet, lambda d: export(d, tmp_path / "out")):
        with pytest.raises(InputError, match="'p' is broken"):
            show(made)


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

    monkeypatch.setattr(os, "fsync", full)
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
