import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import osview
import pytest
from cases import each
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.datasets import DOMAINS, PACKS, open_dataset, packs
from tinytrain.datasets.packs import load_pack

needs_packs = pytest.mark.skipif("TINYTRAIN_DATA" not in os.environ, reason="TINYTRAIN_DATA names no packs")


def jpeg(grey):
    file = io.BytesIO()
    Image.new("RGB", (12, 10), (grey,) * 3).save(file, "JPEG")
    return np.frombuffer(file.getvalue(), np.uint8)


def raw_arrays(channels=1):
    images = np.arange(6, dtype=np.uint8).repeat(20 * channels).reshape(6, 4, 5, channels)
    return {
        "images": images,
        "labels": np.array([0, 0, 1, 1, 2, 2], np.int32),
        "class_names": np.array(list("abc")),
    }


def jpeg_arrays():
    files = [jpeg(40 * i) for i in range(6)]
    arrays = raw_arrays()
    del arrays["images"]
    offsets = np.cumsum([0, *(len(f) for f in files)]).astype(np.int64)
    return arrays | {"data": np.concatenate(files), "offsets": offsets}


def saved(folder, arrays, name="made.npz"):
    np.savez_compressed(folder / name, **arrays)
    return folder / name


@pytest.mark.parametrize("channels", [1, 3])
def test_raw_packs_are_read(tmp_path, channels):
    made = load_pack(saved(tmp_path, raw_arrays(channels)))
    assert (made.name, made.class_names, made.labels.tolist()) == (
        "made",
        ("a", "b", "c"),
        [0, 0, 1, 1, 2, 2],
    )
    assert made.labels.dtype == np.int32 and len(set(made.names)) == 6
    assert [int(made.read(i, 8)[4, 4, 2]) for i in range(6)] == list(range(6))
    assert made.groups is None and made.families is None


def test_jpeg_packs_are_read(tmp_path):
    made = load_pack(saved(tmp_path, jpeg_arrays()))
    for i in range(6):
        assert made.read(i, 8).shape == (8, 8, 3)
        assert abs(int(made.read(i, 8).mean()) - 40 * i) <= 1


def test_a_pack_with_a_strange_file_name_can_be_adapted_to_and_reported(tmp_path):
    made = load_pack(saved(tmp_path, raw_arrays(), os.fsdecode(b"\xff.npz")))
    assert made.name == "\\xff"
    assert all(name.encode() for name in made.names)


def test_uncompressed_packs_are_read_too(tmp_path):
    np.savez(tmp_path / "plain.npz", **raw_arrays())
    assert len(load_pack(tmp_path / "plain.npz")) == 6


def test_an_unknown_pack_is_never_flipped_and_its_licence_is_unknown(tmp_path):
    made = load_pack(saved(tmp_path, raw_arrays()))
    assert not made.may_flip and made.provenance.licence == "unknown"


def test_a_track_belongs_to_its_class_and_a_speaker_to_all(tmp_path):
    numbers = np.array([0, 1, 0, 1, 0, 0], np.int32)
    tracks = load_pack(saved(tmp_path, raw_arrays() | {"track": numbers})).groups
    assert tracks.dtype == np.int32 and len(set(tracks.tolist())) == 5 and tracks[4] == tracks[5]
    assert load_pack(saved(tmp_path, raw_arrays() | {"speaker": numbers})).groups.tolist() == numbers.tolist()


def test_a_class_split_keeps_its_classes_and_numbers_them_anew(tmp_path):
    extra = {"class_split": np.array([1, 0, 1], np.int32), "class_alphabet": np.array([4, 5, 6], np.int32)}
    saved(tmp_path, raw_arrays() | extra, "omniglot.npz")
    test, background = load_pack("omniglot", tmp_path), load_pack("omniglot_background", tmp_path)
    assert (test.class_names, test.labels.tolist()) == (("a", "c"), [0, 0, 1, 1])
    assert test.families.tolist() == [4, 6]
    assert [int(test.read(i, 4)[0, 0, 0]) for i in range(4)] == [0, 1, 4, 5]
    assert background.class_names == ("b",) and background.names == (
        "omniglot_background/00002",
        "omniglot_background/00003",
    )


def test_a_missing_pack_names_the_folder_and_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTRAIN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=rf"no gtsrb\.npz in '{tmp_path}'; .*TINYTRAIN_DATA") as caught:
        load_pack("gtsrb")
    assert caught.value.code == "pack-missing"
    monkeypatch.delenv("TINYTRAIN_DATA")
    with pytest.raises(InputError, match="set TINYTRAIN_DATA to the folder with dtd10"):
        load_pack("dtd10")
    with pytest.raises(InputError, match="is no file"):
        load_pack(tmp_path / "other.npz")


def replaced(**changes):
    return lambda arrays: {k: v for k, v in (arrays | changes).items() if v is not None}


INT = np.int32
HURT_RAW = {
    "no pixels": (replaced(images=None), "neither images nor data"),
    "float pixels": (replaced(images=np.zeros((6, 4, 5, 1))), "float64"),
    "two channels": (replaced(images=np.zeros((6, 4, 5, 2), np.uint8)), "1 or 3"),
    "flat pixels": (replaced(images=np.zeros((6, 20), np.uint8)), "1 or 3"),
    "no height": (replaced(images=np.zeros((6, 0, 5, 1), np.uint8)), "1 or 3"),
    "too few images": (replaced(images=np.zeros((5, 4, 5, 1), np.uint8)), r"expected \(6, h, w"),
    "no labels": (replaced(labels=None), "labels is missing"),
    "empty": (replaced(labels=np.zeros(0, INT), images=np.zeros((0, 4, 5, 1), np.uint8)), "no image"),
    "float labels": (replaced(labels=np.zeros(6)), "of integers"),
    "square labels": (replaced(labels=np.zeros((2, 3), INT)), "of integers"),
    "label above": (replaced(labels=np.array([0, 0, 1, 1, 2, 3], INT)), "from 0 to 3, there are 3"),
    "label below": (replaced(labels=np.array([-1, 0, 1, 1, 2, 2], INT)), "from -1"),
    "no class names": (replaced(class_names=None), "class_names is missing"),
    "numbered classes": (replaced(class_names=np.arange(3)), "list of texts"),
    "labels beyond 32 bits": (
        replaced(labels=np.array([0, 0, 1, 1, 2, 2]) + 2**32), "labels runs from 4294967296 to 4294967298"
    ),
    "labels below 32 bits": (replaced(labels=np.array([0, 0, 1, 1, 2, 2]) - 2**32), "beyond 32 bits"),
    "labels of 64 bits": (replaced(labels=np.array([0, 0, 1, 1, 2, 2**64 - 1], np.uint64)), "beyond 32 bits"),
    "tracks beyond 32 bits": (replaced(track=np.arange(6) + 2**32), "track runs from"),
    "alphabets beyond 32 bits": (replaced(class_alphabet=np.arange(3) + 2**32), "class_alphabet runs from"),
    "a class twice": (replaced(class_names=np.array(["a", "b", "a"])), "2 classes are called 'a'"),
    "half a letter": (replaced(class_names=np.array(["a", "\ud800", "c"])), "is not a text"),
    "no name": (replaced(class_names=np.array(["a", "", "c"])), "is not a text"),
    "no letter": (
        replaced(class_names=np.array([97, 0x110000, 99], "<u4").view("<U1")), "stand for no letter"
    ),
    "short track": (replaced(track=np.zeros(5, INT)), r"track is \(5,\)"),
}  # fmt: skip
HURT_JPEG = {
    "no offsets": (replaced(offsets=None), "offsets is missing"),
    "short offsets": (replaced(offsets=np.zeros(6, np.int64)), "one more than"),
    "32 bit offsets": (replaced(offsets=np.zeros(7, np.int32)), "int64"),
    "backward": (replaced(offsets=np.array([0, 9, 8, 20, 30, 40, 50])), "ascend"),
    "beyond": (replaced(offsets=np.array([0, 1, 2, 3, 4, 5, 10**12])), "ascend"),
    "negative": (replaced(offsets=np.array([-5, 1, 2, 3, 4, 5, 6])), "ascend"),
    "data of floats": (replaced(data=np.zeros(9000)), "one row of uint8"),
}


@each("name", [*HURT_RAW, *HURT_JPEG])
def test_every_contradiction_in_a_pack_is_refused_with_its_reason(tmp_path, name):
    change, reason = (HURT_RAW | HURT_JPEG)[name]
    path = saved(tmp_path, change(raw_arrays() if name in HURT_RAW else jpeg_arrays()))
    with pytest.raises(InputError, match=rf"made\.npz.*{reason}") as caught:
        load_pack(path)
    assert caught.value.code == "file-damaged"


def test_a_pack_for_which_the_memory_is_missing_is_not_called_broken(tmp_path, monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr("tinytrain.datasets.packs._read_array", full)
    with pytest.raises(MemoryError):
        load_pack(saved(tmp_path, raw_arrays()))


class Payload:
    def __reduce__(self):
        return os.mkdir, ("PAYLOAD",)


def test_nothing_in_a_pack_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = np.array([Payload()] * 6, dtype=object)
    np.savez("evil.npz", **(raw_arrays() | {"labels": evil}))
    (tmp_path / "bare.npz").write_bytes(pickle.dumps(Payload()))
    for name in ("./evil.npz", "./bare.npz"):
        with pytest.raises(InputError) as caught:
            load_pack(name)
        assert caught.value.code == "file-damaged"
    assert not (tmp_path / "PAYLOAD").exists()


def with_member(folder, name, data):
    path = saved(folder, {k: v for k, v in raw_arrays().items() if k != name})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", data)
    return path


@each("shape", [(10**13, 4, 5, 1), (6, 2**40, 2**40, 1), (-6, 4, 5, 1), (5, 4, 5, 1)])
def test_a_header_that_lies_about_its_size_is_refused_before_allocating(tmp_path, shape):
    file = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(InputError, match=r"images\.npy claims") as caught:
        load_pack(with_member(tmp_path, "images", file.getvalue() + b"\0" * 120))
    assert caught.value.code == "file-damaged"


def test_a_pack_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packs, "MAX_BYTES", 100_000)
    path = saved(tmp_path, raw_arrays() | {"images": np.zeros((6, 200, 200, 1), np.uint8)})
    assert path.stat().st_size < 5_000
    with pytest.raises(InputError, match="when unpacked, the limit is 100,000"):
        load_pack(path)


def test_class_names_of_no_length_are_refused_however_many_there_are(tmp_path):
    file = io.BytesIO()
    header = {"descr": "<U0", "fortran_order": False, "shape": (10**9,)}
    np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(InputError, match=r"class_names\.npy claims \(1000000000,\)"):
        load_pack(with_member(tmp_path, "class_names", file.getvalue()))


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_unpack_without_limit_are_refused(tmp_path, kind):
    path = saved(tmp_path, {k: v for k, v in raw_arrays().items() if k != "images"})
    file = io.BytesIO()
    np.save(file, raw_arrays()["images"])
    with zipfile.ZipFile(path, "a", kind) as archive:
        archive.writestr("images.npy", file.getvalue() + bytes(10**7))
    with pytest.raises(InputError, match=r"images\.npy is compressed in a way that numpy does not use"):
        load_pack(path)


def test_a_long_header_of_an_array_is_refused_before_it_is_read(tmp_path):
    header = b"\x93NUMPY\2\0" + (10**8).to_bytes(4, "little") + b" " * 10**8
    path = with_member(tmp_path, "images", header)
    osview.settled()
    before = osview.status("VmHWM")
    with pytest.raises(InputError, match=r"images\.npy has a header of more than 10,000 bytes"):
        load_pack(path)
    assert osview.status("VmHWM") - before < 10**7


# What stands before the end record, what it says of the length of the list, and what is said of that.
LISTS = {
    "long": (b"", (10**6).to_bytes(4, "little"), "1,000,000 bytes name its members, the limit is 65,536"),
    "of 64 bits": (
        b"PK\6\7" + bytes(16),
        bytes(4),
        "a zip64 file, which numpy.savez makes of no pack; fetch",
    ),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_of_members_that_may_be_long_is_refused_before_it_is_read(tmp_path, kind):
    locator, size, said = LISTS[kind]
    path = saved(tmp_path, raw_arrays())
    data = path.read_bytes()
    path.write_bytes(data[:-22] + locator + data[-22:-10] + size + data[-6:])
    with pytest.raises(InputError, match=said):
        load_pack(path)


@pytest.mark.parametrize("shape", [(1, 6000, 6000, 1), (1, 1, 70_000, 3)])
def test_raw_images_are_limited_as_files_are(tmp_path, shape):
    arrays = {"images": np.zeros(shape, np.uint8), "labels": np.zeros(1, INT), "class_names": np.array(["a"])}
    with pytest.raises(
        InputError, match=rf"images are {shape[2]} x {shape[1]} pixels, the limit is 35 million"
    ):
        load_pack(saved(tmp_path, arrays))


def test_one_image_of_a_pack_has_a_limit_of_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(packs, "MAX_IMAGE", 600)
    with pytest.raises(InputError, match=r"one of its images has [0-9]+ bytes, the limit is 600"):
        load_pack(saved(tmp_path, jpeg_arrays()))


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x03\x04" + b"\0" * 50])
def test_what_is_no_archive_is_refused(tmp_path, data):
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"x\.npz.*cannot be read"):
        load_pack(tmp_path / "x.npz")


@pytest.mark.parametrize("arrays", [raw_arrays, jpeg_arrays])
def test_cut_and_flipped_packs_never_cause_another_exception(tmp_path, arrays):
    path = saved(tmp_path, arrays())
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(120):
        hurt = bytearray(whole if trial % 2 else whole[: rng.integers(len(whole))])
        for at in rng.integers(0, len(hurt) or 1, 2 if len(hurt) else 0):
            hurt[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(hurt)
        try:
            made = load_pack(path)
            for i in range(len(made)):
                made.read(i, 8)
        except InputError as error:
            assert error.code in ("file-damaged", "image-unreadable", "image-too-large")


def test_a_broken_jpeg_inside_a_pack_is_named(tmp_path):
    arrays = jpeg_arrays()
    arrays["data"][arrays["offsets"][2] : arrays["offsets"][3]] = 0
    made = load_pack(saved(tmp_path, arrays))
    with pytest.raises(InputError, match="'made/00002'") as caught:
        made.read(2, 8)
    assert caught.value.code == "image-unreadable"


def test_open_dataset_takes_domains_files_and_folders(tmp_path):
    assert open_dataset("signs").n_classes >= 40
    assert open_dataset(saved(tmp_path, raw_arrays())).name == "made"
    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (5, 5)).save(tmp_path / "photos" / name / "x.png")
    assert open_dataset(tmp_path / "photos").class_names == ("a", "b")


def test_an_unknown_name_is_answered_with_the_closest_and_the_list():
    known = "known names: signs, glyphs, textures, leaves, sketches, solids, toys, meters, sounds, speech, "
    with pytest.raises(InputError, match=rf"did you mean 'gtsrb'\? {known}") as caught:
        open_dataset("gtsbr")
    assert caught.value.code == "unknown-name"
    with pytest.raises(InputError) as caught:
        open_dataset("zzzzzz")
    assert "did you mean" not in str(caught.value)
    assert all(name in str(caught.value) for name in [*DOMAINS, *PACKS])


@needs_packs
@pytest.mark.parametrize("name", [n for n in PACKS if "tiny" not in n])
def test_every_pack_loads_and_hands_over_images(name):
    if name.startswith("free_") and not (Path(os.environ["TINYTRAIN_DATA"]) / PACKS[name].file).is_file():
        pytest.skip(f"{PACKS[name].file} is made by a command")
    made = load_pack(name)
    assert made.provenance.licence and made.provenance.citation
    for i in (0, len(made) // 2, len(made) - 1):
        image = made.read(i, 64)
        assert image.shape == (64, 64, 3) and image.std() > 5
    assert made.may_flip == (name not in ("gtsrb", "omniglot", "omniglot_background", "fsdd_logmel"))
    assert (made.groups is not None) == (name in ("gtsrb", "fsdd_logmel", "free_photos"))


@needs_packs
def test_omniglot_evaluates_on_the_classes_of_its_evaluation_part():
    made, background = load_pack("omniglot"), load_pack("omniglot_background")
    assert made.n_classes == 659 and len(made) == 659 * 20
    assert len(np.unique(made.families)) == 20
    alphabets = [{name.split("/")[0] for name in d.class_names} for d in (made, background)]
    assert not alphabets[0] & alphabets[1]
