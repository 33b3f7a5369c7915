import base64

import numpy as np
import pytest
from cases import each
from targetfolders import mat_bytes

from tinytrain.base.errors import InputError
from tinytrain.datasets.meta_dataset.matfile import read_mat

# What scipy 1 writes for labels = [[3, 1, 2, 300, 1, 3]] as uint16, from byte 116 on; then compressed; then
# for [[3, 1, 2]] as doubles.
FOREIGN = {
    "plain": "000000000000Bu&4gdfENB{r;1^@s62mk;83jhEB000001poj52mk;80RR911^@s60RR911^@s6Y++($Y;ynr1ONa43;+NC"
    "0{{U40st%l0RRI400000",
    "compressed": "000000000000Bu&4*&oFHUIzsc%0*7U|{e7Vm2V=0Ag+i2w;Ws8KH78IwvtHHK&+?fd$Cs0b*vL3=@M6BO{On0swI?"
    "14R",
    "doubles": "000000000000Bu&4gdfEPyhe`1^@s62mk;81^@s6000001poj52mk;80RR910{{R30RR911^@s6Y++($Y;ynr2><{97yt"
    "kO00000000O;00000008hm000000000$",
}


def written(tmp_path, data: bytes):
    path = tmp_path / "labels.mat"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", FOREIGN)
def test_files_of_another_writer_are_read(tmp_path, kind):
    path = written(tmp_path, b" " * 116 + base64.b85decode(FOREIGN[kind]))
    expected = [[3, 1, 2]] if kind == "doubles" else [[3, 1, 2, 300, 1, 3]]
    assert read_mat(path, "labels").tolist() == expected


@each("order", "<>")
@each("compressed", [False, True])
def test_both_byte_orders_and_columns_first(tmp_path, order, compressed):
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    path = written(tmp_path, mat_bytes("labels", array, order, compressed))
    assert read_mat(path, "labels").tolist() == array.tolist()


@pytest.mark.parametrize("order", "<>")
def test_elements_of_four_bytes_at_most_share_their_tag(tmp_path, order):
    array = np.array([[3, 1, 2]], np.uint8)
    path = written(tmp_path, mat_bytes("id", array, order, small=True))
    assert path.stat().st_size != len(mat_bytes("id", array, order))
    assert read_mat(path, "id").tolist() == array.tolist()


@pytest.mark.parametrize("flags", [0x0809, 1, 4], ids=["complex", "cells", "letters"])
def test_what_is_not_real_and_numeric_is_refused(tmp_path, flags):
    path = written(tmp_path, mat_bytes("labels", np.ones((1, 3), np.uint8), flags=flags))
    with pytest.raises(InputError, match="not real and numeric"):
        read_mat(path, "labels")


def test_a_compressed_part_that_is_cut_off_or_unpacks_to_too_much_is_refused(tmp_path):
    whole = mat_bytes("labels", np.ones((1, 2**24), np.uint8))
    assert len(whole) < 2**16
    with pytest.raises(InputError, match="cut off or too large"):
        read_mat(written(tmp_path, whole), "labels")


def test_all_compressed_parts_together_have_one_limit(tmp_path):
    part = mat_bytes("other", np.ones((1, 2**23), np.uint8), compressed=True)
    whole = part + part[128:] * 3 + mat_bytes("labels", np.ones((1, 3), np.uint8))[128:]
    with pytest.raises(InputError, match="cut off or too large"):
        read_mat(written(tmp_path, whole), "labels")


def test_negative_dimensions_are_refused(tmp_path):
    data = bytearray(mat_bytes("labels", np.ones((2, 4), np.uint8), compressed=False))
    at = data.index(np.array([2, 4], "<i4").tobytes())
    data[at : at + 8] = np.array([-2, -4], "<i4").tobytes()
    with pytest.raises(InputError, match=r"\(-2, -4\)"):
        read_mat(written(tmp_path, bytes(data)), "labels")


def test_an_array_of_another_name_is_not_taken(tmp_path):
    with pytest.raises(InputError, match=r"labels\.mat.*'labels'.*not in there"):
        read_mat(written(tmp_path, mat_bytes("setid", np.ones((1, 2), np.uint8))), "labels")


def test_cut_and_flipped_files_give_an_array_or_a_clean_error(tmp_path):
    whole = mat_bytes("labels", np.arange(200, dtype=np.uint8)[None], compressed=False)
    packed = mat_bytes("labels", np.arange(200, dtype=np.uint8)[None])
    rng = np.random.default_rng(0)
    refused = 0
    for trial in range(600):
        hurt = bytearray(whole if trial % 2 else packed)
        if trial % 3 == 0:
            del hurt[rng.integers(1, len(hurt)) :]
        for at in rng.integers(0, len(hurt), 2):
            hurt[at] ^= 1 << int(rng.integers(8))
        try:
            assert read_mat(written(tmp_path, bytes(hurt)), "labels").ndim == 2
        except InputError as error:
            assert error.code == "file-damaged"
            refused += 1
    assert refused > 200


def test_an_array_that_claims_more_than_is_there_is_refused_before_allocating(tmp_path):
    data = bytearray(mat_bytes("labels", np.ones((1, 8), np.uint8), compressed=False))
    at = data.index(np.array([1, 8], "<i4").tobytes())
    data[at : at + 8] = np.array([2**30, 2**30], "<i4").tobytes()
    with pytest.raises(InputError, match="in 8 bytes"):
        read_mat(written(tmp_path, bytes(data)), "labels")
