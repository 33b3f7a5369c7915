"""The domains of development: what their lists promise, and what each of them draws."""

import os
from pathlib import Path

import numpy as np
import pytest
from cases import each
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.datasets import PACKS, Dataset, open_dataset
from tinytrain.datasets.development import BARRED, CONFIRM, DEVELOPMENT, DRAWN, LISTS, PHOTOS, SETTLE
from tinytrain.datasets.pack_writer import PackForm, write_pack
from tinytrain.datasets.styles import SIDE, STYLES
from tinytrain.meta.studies.study import TARGETS, network_options, parser_of

CLASSES, EACH = 36, 2  # of the packs of these tests, beside the classes that are barred
# Generated domains that look like a pack of the benchmarks.
ALIKE = {"signs", "glyphs", "textures", "sketches"}


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    """A folder with small packs of the names that styles need; no two images are the same."""
    folder = tmp_path_factory.mktemp("packs")
    for number, pack in enumerate(sorted(set(PHOTOS.values()))):
        names = (*sorted(BARRED), *(f"thing{c:02d} or so" for c in range(CLASSES)))
        labels = np.repeat(np.arange(len(names), dtype=np.int32), EACH)
        coarse = np.random.default_rng(number).integers(0, 256, (len(labels), 8, 8, 3), np.uint8)
        made = Dataset(
            pack, labels, names, tuple(map(str, range(len(labels)))),
            lambda i, size, coarse=coarse: np.array(Image.fromarray(coarse[i]).resize((size, size))),
        )  # fmt: skip
        write_pack(made, folder / PACKS[pack].file, PackForm(size=32))
    return folder


def test_the_lists_share_no_domain_no_pack_and_no_renderer():
    assert not set(SETTLE) & set(CONFIRM) and min(len(SETTLE), len(CONFIRM)) >= 11
    packs = [{PHOTOS.get(name, name) for name in names} for names in (SETTLE, CONFIRM)]
    assert not packs[0] & packs[1]
    assert {*SETTLE, *CONFIRM} >= set(DEVELOPMENT), "no domain is made for nothing"


def test_no_domain_of_the_lists_is_a_target_or_looks_like_one():
    used = {*SETTLE, *CONFIRM, *PHOTOS.values()}
    assert not used & {*TARGETS.split(","), *ALIKE, "omniglot_background"}


@pytest.mark.skipif("TINYTRAIN_DATA" not in os.environ, reason="TINYTRAIN_DATA names no packs")
@pytest.mark.parametrize("name", LISTS)
def test_ten_domains_of_a_list_give_5_classes_of_25_images_and_several_20_classes_or_60_images(name):
    sizes = [(d.n_classes, min(map(len, d.by_class))) for d in map(open_dataset, LISTS[name])]
    assert sum(classes >= 5 and images >= 25 for classes, images in sizes) == len(sizes) >= 10
    assert sum(classes >= 30 for classes, _ in sizes) >= 5, "for tasks of 30 classes"
    assert sum(images >= 60 for _, images in sizes) >= 5, "for 50 shots and 10 queries"


@each("name", DRAWN)
def test_a_drawn_domain_has_many_classes_and_images_that_seed_class_and_number_alone_determine(name):
    made, domain = open_dataset(name), DRAWN[name]
    assert made.name == name and made.n_classes == len(set(made.class_names)) == 48 and len(made) == 48 * 60
    first = made.read(60 * 7 + 1, 48)
    assert first.shape == (48, 48, 3) and first.dtype == np.uint8
    assert np.array_equal(first, domain.generate(7, 1, 0, 48))
    for other in (domain.generate(8, 1, 0, 48), domain.generate(7, 2, 0, 48), domain.generate(7, 1, 1, 48)):
        assert np.abs(first.astype(int) - other).mean() > 3
    assert made.read(0, (20, 30)).shape == (20, 30, 3) and made.read(0, 1).shape == (1, 1, 3)


@each("name", STYLES)
def test_a_style_changes_an_image_in_the_same_way_every_time_and_leaves_what_it_was_given(name):
    image = np.asarray(Image.radial_gradient("L").resize((SIDE, SIDE)).convert("RGB")).copy()
    image[30:60, 20:50] = (200, 40, 90)
    before = image.copy()
    found, again = (STYLES[name](image, np.random.default_rng(3)) for _ in range(2))
    assert found.dtype == np.uint8 and found.shape[0] == found.shape[1] and found.shape[2] == 3
    assert np.array_equal(found, again) and np.array_equal(image, before)
    assert found.shape != image.shape or np.abs(found.astype(int) - image).mean() > 1


@each("name", STYLES)
def test_a_style_can_take_an_image_of_one_colour(name):
    assert STYLES[name](np.full((SIDE, SIDE, 3), 90, np.uint8), np.random.default_rng(0)).dtype == np.uint8


def test_styles_of_a_pack_share_its_classes_out_and_none_has_a_class_that_is_barred(packs):
    for pack in set(PHOTOS.values()):
        made = [open_dataset(name, packs) for name, source in PHOTOS.items() if source == pack]
        classes = [class_name for domain in made for class_name in domain.class_names]
        assert sorted(classes) == [f"thing{c:02d} or so" for c in range(CLASSES)]
        images = [image for domain in made for image in domain.names]
        assert len(images) == len(set(images)) == CLASSES * EACH


def test_a_styled_domain_reads_the_image_of_its_pack_in_its_style_the_same_every_time(packs):
    for name, pack in PHOTOS.items():
        made = open_dataset(name, packs)
        assert made.name == name and made.provenance.licence == PACKS[pack].licence
        assert np.array_equal(made.read(1, 40), open_dataset(name, packs).read(1, 40))
        assert made.read(0, (20, 30)).shape == (20, 30, 3)
        source = open_dataset(pack, packs)
        plain = source.read(source.names.index(made.names[1]), 40)
        assert np.abs(made.read(1, 40).astype(int) - plain).mean() > 3


def test_a_styled_domain_without_its_pack_is_refused_in_one_line_that_names_the_file(tmp_path):
    with pytest.raises(InputError, match=r"^pack-missing: no caltech101\.npz"):
        open_dataset("photos-edges", tmp_path)


def test_letters_without_freetype_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr("tinytrain.datasets.generated.drawings.features.check", lambda name: False)
    with pytest.raises(InputError, match=r"^package-missing: drawn-letters needs a pillow with FreeType"):
        open_dataset("drawn-letters").read(0, 32)


def test_the_page_has_each_domain_of_a_list_once_in_the_table_of_that_list():
    page = (Path(__file__).parents[2] / "docs/data.md").read_text()
    for name, domains in LISTS.items():
        rows = page.partition(f"| {name} |")[2].partition("\n\n")[0].splitlines()[2:]
        found = ", ".join(row.split(" | ")[0].strip("| ") for row in rows)
        assert sorted(found.split(", ")) == sorted(domains)


def test_the_name_of_a_list_stands_for_its_domains_in_the_packs_of_every_study():
    parser = parser_of("heads", "A study.", *network_options("tinytrain-small-2", "confirm"))
    assert parser.parse([]).packs == ",".join(CONFIRM)
    assert parser.parse(["--packs", "leaves,settle"]).packs == ",".join(("leaves", *SETTLE))
    assert set(LISTS) == {"settle", "confirm"}
