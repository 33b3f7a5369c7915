"""Tensor files: compatible with the safetensors library; every broken file is refused for what is wrong."""

import json
import mmap
import os
import re
import struct
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinytrain.base import safetensors as tensorfile
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import CHECKSUM, decode, encode, read_file, value_places


def raw(header, payload=b"", length=None) -> bytes:
    """A file with any header (object, text or bytes), any payload and any claimed header length."""
    text = header if isinstance(header, bytes | str) else json.dumps(header)
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(text) if length is None else length) + text + payload


def entry(dtype="F32", shape=(1,), offsets=(0, 4)) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def entry_text(dtype='"F32"', shape="[1]", offsets="[0,4]") -> str:
    return f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}'


FOUR = b"\0" * 4
NAN_KEY = '{"__metadata__":{"a":NaN}}'
HOSTILE = [
    ("are not a model file", b""),
    ("are not a model file", b"\2\0\0"),
    ("are allowed; is it a model file", raw("{}", length=10**6 + 1)),
    ("are allowed; is it a model file", raw("{}", length=2**64 - 1)),
    ("the header needs", raw("{}", length=3)),
    ("the header needs", raw(entry_text(), FOUR)[:30]),
    ("is not UTF-8", raw(b'{"\xff":1}')),
    ("is not UTF-8", raw(b'{"\xed\xa0\x80":1}')),
    ("half a surrogate pair", raw('{"__metadata__":{"a":"\\ud800"}}')),
    ("half a surrogate pair", raw('{"__metadata__":{"\\udc00":"a"}}')),
    ("is not a JSON object", raw("")),
    ("is not a JSON object", raw("[]")),
    ("is not a JSON object", raw(" {}")),
    ("is not a JSON object", raw("\ufeff{}")),
    ("not JSON", raw("{")),
    ("not JSON", raw('{"a":1,}')),
    ("not JSON", raw("{}\0")),
    ("not JSON", raw('{"a\n":1}')),
    ("not JSON", raw("{} {}")),
    ("nested too deeply", raw('{"a":' + "[" * 100_000)),
    ("nested too deeply", raw('{"a":' * 100_000)),
    ("a key occurs twice", raw('{"a":1,"a":1}')),
    ("a key occurs twice", raw('{"__metadata__":{"k":"1","k":"2"}}')),
    ("a key occurs twice", raw('{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', FOUR)),
    ("is not a whole number|is out of range", raw(NAN_KEY)),
    ("is not a whole number|is out of range", raw(NAN_KEY.replace("NaN", "-Infinity"))),
    ("is not a whole number|is out of range", raw(entry_text(shape="[-1]"), FOUR)),
    ("is not a whole number|is out of range", raw(entry_text(shape="[-0]", offsets="[0,0]"))),
    ("is not a whole number|is out of range", raw(entry_text(shape="[1.0]"), FOUR)),
    ("is not a whole number|is out of range", raw(entry_text(shape="[1e0]"), FOUR)),
    ("is not a whole number|is out of range", raw(entry_text(shape=f"[{2**63}]"), FOUR)),
    ("is not a whole number|is out of range", raw(entry_text(shape=f"[{'9' * 5000}]"), FOUR)),
    ("metadata must map text to text", raw({"__metadata__": {"a": 1}})),
    ("metadata must map text to text", raw({"__metadata__": {"a": None}})),
    ("metadata must map text to text", raw({"__metadata__": ["a"]})),
    ("metadata must map text to text", raw({"__metadata__": {"a": {"b": "c"}}})),
    ("tensors; at most", raw({f"t{i}": entry(shape=[0], offsets=[0, 0]) for i in range(4097)})),
    (
        "are allowed; is it a model file",
        raw({f"t{i}": entry(shape=[0], offsets=[0, 0]) for i in range(100_000)}),
    ),
    ("must have exactly dtype, shape and", raw({"a": 1})),
    ("must have exactly dtype, shape and", raw({"a": {"dtype": "F32", "shape": [1]}}, FOUR)),
    ("must have exactly dtype, shape and", raw({"a": {**entry(), "more": 1}}, FOUR)),
    ("must be one of", raw({"a": entry("F64", [1], [0, 8])}, FOUR * 2)),
    ("must be one of", raw({"a": entry("BOOL", [4])}, FOUR)),
    ("must be one of", raw(entry_text(dtype="[]"), FOUR)),
    ("the shape must be at most|more than", raw(entry_text(shape="[true]"), FOUR)),
    ("the shape must be at most|more than", raw(entry_text(shape='["1"]'), FOUR)),
    ("the shape must be at most|more than", raw(entry_text(shape="1"), FOUR)),
    ("the shape must be at most|more than", raw(entry_text(shape="null"), FOUR)),
    ("the shape must be at most|more than", raw({"a": entry(shape=[1] * 9)}, FOUR)),
    ("the shape must be at most|more than", raw({"a": entry(shape=[2**32, 2**32])}, FOUR)),
    ("the shape must be at most|more than", raw({"a": entry(shape=[2**59, 2**59, 0], offsets=[0, 0])})),
    ("data_offsets must be two", raw({"a": entry(offsets=[4, 0])}, FOUR)),
    ("data_offsets must be two", raw({"a": entry(offsets=[0])}, FOUR)),
    ("data_offsets must be two", raw({"a": entry(offsets=[0, 4, 8])}, FOUR)),
    ("data_offsets must be two", raw(entry_text(offsets="[false,4]"), FOUR)),
    ("data_offsets must be two", raw(entry_text(offsets='"04"'), FOUR)),
    ("bytes and has", raw({"a": entry(shape=[2])}, FOUR)),
    ("bytes and has", raw({"a": entry(shape=[0])}, FOUR)),
    ("bytes and has", raw({"a": entry(shape=[10**12 // 4])}, FOUR)),
    ("starts at byte .* instead of", raw({"a": entry(offsets=[4, 8])}, FOUR * 2)),
    ("starts at byte .* instead of", raw({"a": entry(), "b": entry(offsets=[8, 12])}, FOUR * 3)),
    ("starts at byte .* instead of", raw({"a": entry(), "b": entry()}, FOUR)),
    (
        "starts at byte .* instead of",
        raw({"a": entry(shape=[2], offsets=[0, 8]), "b": entry(offsets=[4, 8])}, FOUR * 2),
    ),
    ("off its item size", raw({"a": entry("U8", [1], [0, 1]), "b": entry(offsets=[1, 5])}, b"\0" * 5)),
    ("the tensors need", raw({"a": entry()}, FOUR[:3])),
    ("the tensors need", raw({"a": entry(shape=[10**9], offsets=[0, 4 * 10**9])}, FOUR)),
    ("follow the last tensor", raw({"a": entry()}, FOUR + b"\0")),
    ("follow the last tensor", raw("{}", b"PK\3\4")),
]


@each(("fact", "data"), HOSTILE, ids=[f"{i}-{fact}" for i, (fact, _) in enumerate(HOSTILE)])
def test_each_hostile_file_is_refused_for_what_is_wrong_and_in_little_memory(fact, data):
    tracemalloc.start()
    with pytest.raises(InputError) as caught:
        decode(data, "net.safetensors")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).startswith("file-damaged: net.safetensors: ")
    assert re.search(fact, caught.value.message)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    assert peak < len(data) + 8 * 2**20


def test_enough_hostile_files_are_tried():
    assert len(HOSTILE) >= 60 and len({fact for fact, _ in HOSTILE}) >= 20


TENSORS = st.dictionaries(
    st.text(max_size=20).filter(lambda name: name != "__metadata__"),
    st.sampled_from([np.float32, np.int32, np.int8, np.uint8]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    ),
    max_size=5,
)
METADATA = st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3)


def assert_same_tensors(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
        assert array.tobytes() == theirs[name].tobytes()


@settings(max_examples=300, deadline=None)
@given(TENSORS, METADATA)
def test_the_library_and_this_reader_read_each_other_s_files(tensors, metadata):
    data = encode(tensors, metadata)
    assert_same_tensors(tensors, safetensors.numpy.load(data))
    ours, texts = decode(data)
    assert_same_tensors(tensors, ours)
    assert texts == metadata
    theirs, texts = decode(safetensors.numpy.save(tensors, metadata=metadata or None))
    assert_same_tensors(tensors, theirs)
    assert texts == metadata


def test_the_values_of_metadata_lie_where_it_is_said():
    metadata = {'a"': '"b":"', "g\n": "\\", "z\N{SNOWMAN}": "last", "": ""}
    data, places = encode({"x": np.zeros(3, np.int8)}, metadata), value_places(metadata)
    assert places.keys() == {*metadata, CHECKSUM}
    for name, value in metadata.items():
        written = json.dumps(name) + ":" + json.dumps(value)
        assert data[: places[name] + len(json.dumps(value)) - 1].endswith(written.encode())
    assert re.fullmatch(b'[0-9a-f]{64}"', data[places[CHECKSUM] :][:65])


def test_the_order_of_arguments_does_not_change_the_bytes():
    tensors = {"b": np.zeros(3, np.int8), "a": np.ones((2, 2), np.float32), "c": np.zeros(1, np.int32)}
    metadata = {"x": "1", "a": "2"}
    backwards = encode(dict(reversed(tensors.items())), dict(reversed(metadata.items())))
    assert encode(tensors, metadata) == backwards


def test_wide_arrays_are_aligned_in_the_file_and_views_of_it():
    data = encode({"a": np.zeros(3, np.int8), "b": np.ones(2, np.float32)}, {"k": "v"})
    tensors, _ = decode(data)
    whole = np.frombuffer(data, np.uint8)
    for array in tensors.values():
        assert array.flags.aligned and array.flags.c_contiguous and not array.flags.writeable
        assert np.shares_memory(array, whole)


@each("array", [np.zeros(1), np.zeros(1, ">f4"), np.zeros(1, object), np.zeros(1, np.int16)])
def test_a_dtype_outside_the_format_cannot_be_written(array):
    with pytest.raises(ValueError, match="cannot store"):
        encode({"a": array}, {})


def test_a_file_that_could_not_be_read_back_is_not_written():
    with pytest.raises(ValueError, match="__metadata__"):
        encode({"__metadata__": np.zeros(1, np.int8)}, {})
    with pytest.raises(InputError) as caught:
        encode({}, {"report": "x" * 10**6})
    assert caught.value.code == "file-damaged" and "at most 1000000 are allowed" in caught.value.message
    with pytest.raises(InputError):
        encode({"\ud800": np.zeros(1, np.int8)}, {})


def test_a_read_only_mmap_is_read_without_a_copy(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(encode({"a": np.arange(6, dtype=np.int32)}, {}))
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        tensors, _ = decode(view)
        assert tensors["a"].tolist() == [0, 1, 2, 3, 4, 5] and not tensors["a"].flags.writeable
        del tensors


def test_read_file_names_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"\1")
    with pytest.raises(InputError, match=r"file-damaged: .*a\.safetensors: 1 bytes"):
        read_file(path)
    os.truncate(path, tensorfile.MAX_FILE + 1)
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert caught.value.code == "file-kind"
