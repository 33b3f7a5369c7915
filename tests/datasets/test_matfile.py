import base64
import sys

import numpy as np
import pytest
from cases import each
from targetfolders import mat_bytes

from tinytrain.base.errors import InputError
from tinytrain.datasets.meta_dataset.photographs import MAX_LABELS, read_mat

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


def with_shape(before, after) -> bytes:
    """A file whose array claims another shape than it has."""
    data = mat_bytes("labels", np.ones(before, np.uint8), compressed=False)
    return data.replace(np.array(before, "<i4").tobytes(), np.array(after, "<i4").tobytes())


REFUSED = {
    "complex": mat_bytes("labels", np.ones((1, 3), np.uint8), flags=0x0809),
    "cells": mat_bytes("labels", np.ones((1, 3), np.uint8), flags=1),
    "letters": mat_bytes("labels", np.ones((1, 3), np.uint8), flags=4),
    "another name": mat_bytes("setid", np.ones((1, 2), np.uint8)),
    "negative dimensions": with_shape((2, 4), (-2, -4)),
    "more than is there": with_shape((1, 8), (2**30, 2**30)),
    "cut off": mat_bytes("labels", np.ones((1, 99), np.uint8))[:-9],
}


@each("kind", REFUSED)
def test_what_is_no_array_of_numbers_of_this_name_is_refused_in_one_line(kind, tmp_path):
    with pytest.raises(
        InputError, match=r"labels\.mat' is no MATLAB 5 file with an array 'labels'"
    ) as refused:
        read_mat(written(tmp_path, REFUSED[kind]), "labels")
    assert refused.value.code == "file-damaged" and "\n" not in str(refused.value)


def test_a_file_is_not_larger_than_its_labels_can_be(tmp_path):
    whole = mat_bytes("labels", np.ones((1, MAX_LABELS), np.uint8), compressed=False)
    with pytest.raises(InputError, match="file-kind"):
        read_mat(written(tmp_path, whole), "labels")


def test_without_scipy_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(InputError, match="run pip install 'scipy") as refused:
        read_mat(written(tmp_path, mat_bytes("labels", np.ones((1, 3), np.uint8))), "labels")
    assert refused.value.code == "package-missing"


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
