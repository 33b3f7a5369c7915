import json
import os

import numpy as np
import pytest
from cases import each
from osview import settled
from PIL import Image
from targetfolders import FOLDERS, drawing, grey_of, plain

from tinytrain.base.errors import InputError, UsageError
from tinytrain.datasets import TARGETS, open_dataset, open_target, sample_episode, sample_meta_dataset_episode
from tinytrain.datasets.dataset import subset
from tinytrain.datasets.meta_dataset.check import check_target
from tinytrain.datasets.meta_dataset.classes import TEST_CLASSES
from tinytrain.meta.training.recipe import SourceSettings
from tinytrain.meta.training.sources import Source

CLASSES = {
    "omniglot": [f"{a}/character0{c}" for a, n in (("Angelic", 5), ("Tengwar", 6)) for c in range(1, n + 1)],
    "gtsrb": ["00000", "00007", "00014", "00033", "00042"],
    "aircraft": ["737-400", "Boeing 717", "MD-90", "Saab 2000", "Spitfire"],
    "flowers": ["005", "009", "015", "019", "035"],
    "cub": ["008.Rhinoceros_Auklet", "046.Gadwall", "085.Horned_Lark", "103.Sayornis", "194.Cactus_Wren"],
    "dtd": ["banded", "bumpy", "crosshatched", "knitted", "woven"],
    "quickdraw": ["angel", "bat", "palm tree", "wheel", "yoga"],
    "fungi": [
        "0008.Agaricus campestris", "0009.Twin", "0019.Agaricus sylvicola", "0038.Panther", "0044.Grisette",
    ],
    "mscoco": ["banana", "bicycle", "car", "cup", "scissors"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """All nine miniatures below one folder, each in its usual place."""
    root = tmp_path_factory.mktemp("downloads")
    for name, make in FOLDERS.items():
        make(root / TARGETS[name].folder)
    return root


@pytest.mark.parametrize("name", TARGETS)
def test_the_test_classes_are_found_and_others_left_out(folders, name):
    made = open_target(name, folders)
    assert list(made.class_names) == CLASSES[name] and made.name == name
    assert made.provenance.skipped == () and made.provenance.licence and made.provenance.citation
    assert min(len(members) for members in made.by_class) >= 4
    assert name != "aircraft" or len(made) == 5 * 6, "images of both lists"


@each("name", [n for n in TARGETS if n != "quickdraw"])
def test_every_image_is_one_of_its_class(folders, name):
    made = open_target(name, folders)
    for i, label in enumerate(made.labels):
        seen = made.read(i, 8)
        class_name = made.class_names[label]
        assert seen.shape == (8, 8, 3) and abs(int(seen[4, 4, 0]) - grey_of(class_name)) <= 3, made.names[i]


@each("name", TARGETS)
def test_episodes_of_both_samplers_keep_images_and_groups_apart(folders, name):
    made = open_target(name, folders)
    ids = [(made.groups[i] if made.groups is not None else i) for i in range(len(made))]
    at = {made.names[i]: ids[i] for i in range(len(made)) if name != "mscoco"}
    for k in range(5):
        for episode in (sample_episode(made, 5, 1, 1, 0, k), sample_meta_dataset_episode(made, 0, k)):
            sides = [
                set(p.names) if name == "mscoco" else {at[n] for n in p.names} for p in episode_sides(episode)
            ]
            assert not sides[0] & sides[1]


def episode_sides(episode):
    return episode.support, episode.query


def test_objects_of_one_photograph_are_a_group_and_so_are_tracks_and_drawers(folders):
    coco, signs, letters = (open_target(n, folders) for n in ("mscoco", "gtsrb", "omniglot"))
    assert len(np.unique(coco.groups)) == 8 and len(coco) == 40
    assert len(np.unique(signs.groups)) == 5 * 4 and len(signs) == 60
    assert len(np.unique(letters.groups)) == 2 * 8 and len(letters) == 88
    same = [i for i, name in enumerate(letters.names) if "Tengwar" in name and name.endswith("_03.png")]
    assert len(same) == 6 and len(set(letters.groups[same])) == 1


def test_alphabets_are_families(folders):
    made = open_target("omniglot", folders)
    assert made.families.tolist() == [0] * 5 + [1] * 6
    assert subset(made, [6, 0]).families.tolist() == [1, 0]


def test_only_shapes_with_a_handedness_are_never_mirrored(folders):
    assert {name for name in TARGETS if not open_target(name, folders).may_flip} == {"omniglot", "gtsrb"}


def test_an_object_is_cut_out_a_fifth_larger_than_its_box(tmp_path):
    root = FOLDERS["mscoco"](tmp_path)
    lists, path = root / "annotations" / "instances_train2017.json", root / "train2017" / "000000000001.jpg"
    image = Image.new("RGB", (100, 60), "white")
    image.paste((0, 0, 0), (20, 20, 40, 40))
    image.save(path, quality=95)
    content = json.loads(lists.read_text())
    content["annotations"] = [{"category_id": 3, "image_id": 1, "bbox": [20.0, 20.0, 20.0, 20.0]}]
    lists.write_text(json.dumps(content))
    made = open_target("mscoco", root)
    # From 20 to 40 grows to 18 to 42; Meta-Dataset's rounding takes one more pixel at the end.
    dark = made.read(0, 25)[..., 0] < 128
    assert (np.flatnonzero(dark[12]) == np.flatnonzero(dark[:, 12])).all()
    assert np.flatnonzero(dark[12]).tolist() == list(range(2, 22))


def test_bitmaps_and_drawings_are_white_on_black(folders):
    made = open_target("quickdraw", folders)
    bat = made.by_class[list(made.class_names).index("bat")]
    for k, i in enumerate(bat):
        seen = made.read(int(i), 256)[..., 0]
        assert seen[40 * k + 20, 60] == 255 and seen[(40 * k + 148) % 256, 60] == 0 and seen[128, 128] == 255
    yoga = made.by_class[list(made.class_names).index("yoga")]
    assert [int(made.read(int(i), 28)[0, 0, 0]) for i in yoga] == list(range(6))
    assert made.names[int(yoga[3])] == "yoga/000003" and made.read(int(yoga[3]), 28)[9, 9, 0] == grey_of(
        "yoga"
    )


def test_a_bitmap_file_is_mapped_and_not_read(tmp_path):
    rows = np.lib.format.open_memmap(tmp_path / "yoga.npy", "w+", np.uint8, (100_000, 784))
    rows[99_999] = 7
    del rows
    before = settled("RssAnon")
    made = open_target("quickdraw", tmp_path)
    assert len(made) == 100_000 and made.read(99_999, 28)[5, 5, 0] == 7
    assert settled("RssAnon") - before < 20 * 10**6, "the file holds 78 MB"


def test_bitmaps_come_before_drawings_of_the_same_class(tmp_path):
    (tmp_path / "bat.ndjson").write_text(f"{drawing(0)}\n")
    np.save(tmp_path / "bat.npy", np.full((2, 784), 9, np.uint8))
    made = open_target("quickdraw", tmp_path)
    assert len(made) == 2 and (made.read(1, 28) == 9).all()


def test_open_dataset_takes_name_and_folder(folders):
    assert open_dataset(f"gtsrb:{folders}").class_names == tuple(CLASSES["gtsrb"])
    assert open_dataset(f"gtsrb:{folders}/GTSRB").n_classes == 5
    assert open_dataset(f"dtd/all:{folders}").n_classes == 7
    with pytest.raises(InputError, match="did you mean 'gtsrb:DIR'"):
        open_dataset("gtsrp:DIR")


def test_a_recipe_can_name_a_part_of_a_set_as_its_source(folders):
    source = Source(SourceSettings(data=f"mscoco/all:{folders}", classes=(1, 5)), seed=0)
    assert source.train.class_names == ("bicycle", "car", "cup", "person")
    assert source.train.groups is not None and source.store.read(0).shape[:2] == (source.settings.size,) * 2


def test_a_splits_file_beside_the_data_replaces_the_list_and_adds_parts(tmp_path):
    root = FOLDERS["cub"](tmp_path)
    with pytest.raises(InputError, match=r"cu_birds_splits\.json") as caught:
        open_target("cub", root, "train")
    assert caught.value.code == "file-missing"
    splits = {"train": ["001.Black_footed_Albatross"], "valid": ["046.Gadwall"], "test": ["103.Sayornis"]}
    (root / "cu_birds_splits.json").write_text(json.dumps(splits))
    for part, names in splits.items():
        assert list(open_target("cub", root, part).class_names) == names
    (root / "cu_birds_splits.json").write_text(json.dumps(splits | {"test": "x"}))
    with pytest.raises(InputError, match="no list 'test'") as caught:
        open_target("cub", root)
    assert caught.value.code == "file-damaged"


def test_the_lists_have_as_many_test_classes_as_meta_dataset_and_none_twice():
    for target in TARGETS.values():
        if target.meta_name in TEST_CLASSES:
            names = TEST_CLASSES[target.meta_name]
            assert len(set(names)) == len(names) == target.test[0]
    assert [t.test[0] for t in TARGETS.values()] == [659, 43, 15, 16, 30, 7, 52, 200, 40]


HURT = {
    "a line too short": ("aircraft", "data/images_box.txt", "0000001 1 2 3\n", "4 instead of 5"),
    "words for numbers": ("aircraft", "data/images_box.txt", "0000001 1 2 3 x\n", "four numbers"),
    "no box": ("aircraft", "data/images_box.txt", "0999999 1 2 3 4\n", "has no box"),
    "bytes": ("cub", "images.txt", b"\xff\xfe", "is no text"),
    "no JSON": ("fungi", "val.json", "{", "is no JSON"),
    "another JSON": ("fungi", "val.json", "[]", "no JSON object"),
    "no categories": ("fungi", "train.json", "{}", "KeyError: 'categories'"),
    "unknown category": (
        "mscoco", "annotations/instances_train2017.json",
        '{"categories": [], "annotations": [{"category_id": 3, "image_id": 1, "bbox": [1, 2, 3, 4]}]}',
        "KeyError",
    ),
    "a box of three": (
        "mscoco", "annotations/instances_train2017.json",
        '{"categories": [{"id": 3, "name": "car"}],'
        ' "annotations": [{"category_id": 3, "image_id": 1, "bbox": [1, 2, 3]}]}', "ValueError",
    ),
    "no bitmap": ("quickdraw", "yoga.npy", b"\x93NUMPY", "is no .npy"),
    "no MATLAB": ("flowers", "imagelabels.mat", b"x" * 300, "no MATLAB 5 file"),
}  # fmt: skip


@each("case", HURT)
def test_a_damaged_list_is_refused_by_name_and_reason(tmp_path, case):
    name, file, content, reason = HURT[case]
    root = FOLDERS[name](tmp_path / "x")
    (root / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=reason) as caught:
        open_target(name, root)
    assert caught.value.code == "file-damaged" and os.path.basename(file) in str(caught.value)


def test_a_pickled_bitmap_file_is_not_unpickled(tmp_path):
    np.save(tmp_path / "yoga.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"is no \.npy"):
        open_target("quickdraw", tmp_path)


@each("line", ["", "{}", "[1]", '{"drawing": [[[1], [2, 3]]]}', '{"drawing": [["a", "b"]]}'])
def test_a_line_that_is_no_drawing_is_named_when_it_is_read(tmp_path, line):
    (tmp_path / "bat.ndjson").write_text(f"{drawing(0)}\n{line}\n{drawing(1)}\n")
    made = open_target("quickdraw", tmp_path)
    with pytest.raises(InputError, match=r"line 2 of .*bat\.ndjson") as caught:
        made.read(1, 28)
    assert caught.value.code == "image-unreadable" and made.read(2, 28).max() > 200


def test_an_unknown_set_part_or_empty_folder_is_refused(tmp_path):
    for name, part in (("birds", "test"), ("cub", "testing")):
        with pytest.raises(UsageError, match="sets: omniglot"):
            open_target(name, tmp_path, part)
    with pytest.raises(InputError, match=r"CUB_200_2011\.tgz from https") as caught:
        open_target("cub", tmp_path)
    assert caught.value.code == "file-missing"
    plain(tmp_path / "images" / "braided" / "x.jpg", "braided")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "labels_joint_anno.txt").touch()
    with pytest.raises(InputError, match="0 of 7 classes"):
        open_target("dtd", tmp_path)


def test_check_names_what_is_not_there(folders):
    facts = {name: check_target(name, folders) for name in TARGETS}
    assert {f["state"] for f in facts.values()} == {"incomplete"}
    assert facts["dtd"]["lacks"] == ["class sprinkled", "class stratified"] and facts["dtd"]["images"] == 20
    assert facts["gtsrb"]["lacks"] == ["38 classes"]


def test_check_names_listed_files_that_are_not_there(tmp_path):
    root = FOLDERS["flowers"](tmp_path)
    for k in (3, 4, 7, 8, 9, 10, 11):
        (root / "jpg" / f"image_{k:05d}.jpg").unlink()
    lacks = check_target("flowers", root)["lacks"]
    assert "file jpg/image_00003.jpg" in lacks and "2 more files" in lacks
    made = open_target("flowers", root, "all")
    assert len(made) == 25 and len(made.provenance.skipped) == 7
    assert made.provenance.skipped[0] == ("jpg/image_00003.jpg", "is missing", "missing")


def test_names_that_are_no_utf_8_can_be_printed_and_stored(tmp_path):
    plain(tmp_path / "Final_Training" / "Images" / os.fsdecode(b"0\xff") / "00000_00000.ppm", "x")
    made = open_target("gtsrb", tmp_path)
    assert made.class_names == ("0\\xff",) and made.names[0].encode().endswith(b"0\\xff/00000_00000.ppm")
    np.save(tmp_path / os.fsdecode(b"bat\xff.npy"), np.full((1, 784), 9, np.uint8))
    made = open_target("quickdraw", tmp_path, "all")
    assert made.class_names == ("bat\\xff",) and made.names[0] == "bat\\xff/000000"
    assert (made.read(0, 28) == 9).all()


def test_check_says_complete_of_a_whole_set_and_counts_a_lost_image(tmp_path):
    plain(tmp_path / "one.jpg", "banded")
    for name in TEST_CLASSES["dtd"]:
        (tmp_path / "dtd" / "images" / name).mkdir(parents=True)
        for k in range(120):
            os.link(tmp_path / "one.jpg", tmp_path / "dtd" / "images" / name / f"{k}.jpg")
    assert check_target("dtd", tmp_path)["state"] == "complete"
    (tmp_path / "dtd" / "images" / "woven" / "7.jpg").unlink()
    facts = check_target("dtd", tmp_path)
    assert (facts["state"], facts["lacks"]) == ("incomplete", ["1 images"])


def test_check_keeps_the_reason_of_a_damaged_set(tmp_path):
    (FOLDERS["fungi"](tmp_path) / "val.json").write_text("{")
    facts = check_target("fungi", tmp_path)
    assert facts["state"] == "broken" and "is no JSON" in facts["reason"]
    assert check_target("cub", tmp_path)["state"] == "absent"
