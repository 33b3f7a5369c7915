"""Pickles of arrays: what checkpoints need is rebuilt, the rest is refused in one line and nothing runs."""

import io
import itertools
import pickle
import struct
import sys

import numpy as np
import pytest
from cases import each
from toycheckpoint import archive

from tinytrain.backbones import pickled
from tinytrain.backbones.pickled import read_checkpoint
from tinytrain.base import confined
from tinytrain.base.errors import InputError


def read(pickled: bytes, **storages: bytes):
    entries = {f"archive/data/{key.removeprefix('k')}": data for key, data in storages.items()}
    return read_checkpoint(archive(pickled, entries), "net.pkl")


def test_containers_numbers_and_scalars_of_numpy_come_back():
    content = {"a": [np.int64(-3), (1, 2**70, None, True), "é"], "b": np.float32(0.5), "c": {"": []}}
    for protocol in (2, 4):
        found = read(pickle.dumps(content, protocol))
        assert found == {"a": [-3, (1, 2**70, None, True), "é"], "b": 0.5, "c": {"": []}}
        assert type(found["a"][1]) is tuple and type(found["a"][0]) is int


@each(
    "name",
    [
        "builtins eval", "builtins getattr", "__builtin__ exec", "subprocess Popen", "numpy load",
        "numpy fromfile", "numpy.core.multiarray fromfile", "_codecs decode", "codecs encode",
        "collections namedtuple", "torch load", "torch._utils _rebuild_parameter", "numpy ndarray.tofile",
        "numpy.ndarray tofile", "nt system",
    ],
)  # fmt: skip
def test_a_name_outside_the_list_is_refused_by_name(name):
    module, attribute = name.split()
    with pytest.raises(InputError, match=rf"net\.pkl: asks for '{module}\.{attribute}'.*nothing") as caught:
        read(f"c{module}\n{attribute}\n.".encode())
    assert caught.value.code == "unsupported"


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text.encode())]) + text.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def array_pickle(shape=b"K\4\x85", dtype="i1", order="|", data=b"C\4abcd") -> bytes:
    """The pickle of one array, each part of it free."""
    start = b"\x80\4cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85C\1b\x87R"
    kind = b"cnumpy\ndtype\n" + short(dtype) + b"\x89\x88\x87R(K\3" + short(order) + b"NNN" + number(-1) * 2
    return start + b"(K\1" + shape + kind + b"K\0tb\x89" + data + b"tb."


def tensor_pickle(offset=0, size=(2, 2), stride=(2, 1), count=4, kind="CharStorage", key="0") -> bytes:
    """The pickle of one torch tensor whose storage lies beside it."""
    shapes = b"".join(b"(" + b"".join(map(number, numbers)) + b"t" for numbers in (size, stride))
    storage = b"(" + short("storage") + b"ctorch\n" + kind.encode() + b"\n" + short(key) + short("cpu")
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    rebuild = b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n("
    return rebuild + storage + number(count) + b"tQ" + number(offset) + shapes + hooks + b"tR."


def test_an_array_and_a_torch_tensor_are_rebuilt():
    assert bytes(read(array_pickle())) == b"abcd"
    tensor = read(tensor_pickle(offset=1, count=5), k0=bytes(range(5)))
    assert tensor.tolist() == [[1, 2], [3, 4]] and not tensor.flags.writeable
    tensor = read(tensor_pickle(kind="FloatStorage", key="1"), k1=np.arange(4, dtype="<f4").tobytes())
    assert tensor.tolist() == [[0, 1], [2, 3]]


@each("order", list(itertools.permutations(range(4))))
def test_axes_of_a_tensor_may_lie_in_any_order(order):
    """Torch keeps a transposed array as it lies and writes its strides."""
    content = np.arange(1 * 3 * 4 * 5, dtype="<f4").reshape(3, 1, 5, 4)
    view = content.transpose(order)
    strides = tuple(step // 4 for step in view.strides)
    data = tensor_pickle(size=view.shape, stride=strides, count=60, kind="FloatStorage")
    np.testing.assert_array_equal(read(data, k0=content.tobytes()), view)


LONG_TEXT = b"X" + struct.pack("<I", 10**6) + b"a" * 10**6 + b"q\0"
HOSTILE = {
    "empty": ("file-damaged", "broken pickle", b""),
    "stops at once": ("file-damaged", "broken pickle", b"."),
    "a text longer than the file": ("file-damaged", "broken pickle", b"X\xff\xff\xff\xffab."),
    "bytes longer than the file": ("file-damaged", "broken pickle|takes more", b"B\xff\xff\xff\x7f."),
    "a frame longer than the file": ("file-damaged", "broken pickle", b"\x80\4\x95" + b"\xff" * 7 + b"\x7f."),
    "a place that was never filled": ("file-damaged", "broken pickle", b"h\1."),
    "a place far away": ("file-damaged", "broken pickle|takes more", b"Nr\xff\xff\xff\x7f."),
    "a key that repeats itself inside": (
        "file-damaged", "takes more than 256 MB or 1 seconds",
        b"})" + b"q\0h\0\x86" * 100 + b"K\1s.",
    ),
    "keys that are no text": ("file-damaged", "dictionary keys that are no text", b"}(K\1K\2u."),
    "deep nesting": ("file-damaged", "takes more than", b"N" + b"\x85" * 100_000 + b"."),
    "a list inside itself": ("file-damaged", "takes more than", b"]q\0h\0a."),
    "one long text many times": (
        "file-damaged", "takes more than",
        LONG_TEXT + b"0](" + b"c_codecs\nencode\nh\0\x8c\6latin1\x86R" * 1000 + b"e.",
    ),
    "a call of nothing": ("file-damaged", "broken pickle", b"NNR."),
    "the state of a name": ("file-damaged", "changes dtype", b"cnumpy\ndtype\n}b."),
    "attributes of a name": ("file-damaged", "changes dtype", b"cnumpy\ndtype\nN}\x8c\4makeNs\x86b."),
    "an object of a name": ("file-damaged", "broken pickle", b"cnumpy\ndtype\n)\x81."),
    "a name from the stack": (
        "unsupported", "asks for 'os.system'",
        short("os") + short("system") + b"\x93.",
    ),
    "a registered extension": ("file-damaged", "broken pickle", b"\x82\1."),
    "an object of a class": ("unsupported", "asks for 'os.system'", b"(cos\nsystem\no."),
    "an instance": ("unsupported", "asks for 'os.system'", b"(S'true'\nios\nsystem\n."),
    "a set": ("file-damaged", "a value of an unknown kind", b"\x8f."),
    "another encoding": (
        "file-damaged", "an encoding other than",
        b"c_codecs\nencode\n" + short("a") + short("bz2") + b"\x86R.",
    ),
    "objects": ("unsupported", "arrays of 'O'", array_pickle(dtype="O")),
    "the other byte order": ("unsupported", "only little-endian", array_pickle(order=">")),
    "too few numbers": ("file-damaged", "needs 5 bytes", array_pickle(shape=b"K\5\x85")),
    "no numbers": ("file-damaged", "is empty or not", array_pickle(shape=b"K\0\x85", data=b"C\0")),
    "negative sides": (
        "file-damaged", "is empty or not",
        array_pickle(shape=number(-2) + number(-2) + b"\x86"),
    ),
    "a huge shape": (
        "file-damaged", "needs [0-9]{22} bytes",
        array_pickle(shape=(number(2**24) * 3 + b"\x87")),
    ),
    "text for numbers": ("file-damaged", "needs 4 bytes", array_pickle(data=b"\x8c\4abcd")),
    "an array without its state": (
        "file-damaged", "broken pickle",
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\0\x85C\1b\x87R.",
    ),
    "a storage that is not there": ("file-damaged", "'data/0' is missing", tensor_pickle()),
    "a storage of two kinds": (
        "file-damaged", "of two kinds",
        tensor_pickle()[:-1] + tensor_pickle(kind="FloatStorage")[2:-1] + b"\x86.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_each_hostile_pickle_is_refused_for_what_is_wrong_in_one_line(name, monkeypatch):
    monkeypatch.setattr(confined, "SECONDS", 1)
    code, fact, data = HOSTILE[name]
    with pytest.raises(InputError, match=fact) as caught:
        read(data)
    assert caught.value.code == code and str(caught.value).startswith(f"{code}: net.pkl")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@each("name", [name for name, (code, *_) in HOSTILE.items() if code != "file-damaged"])
def test_a_hostile_pickle_runs_and_opens_nothing_where_it_is_read(name):
    events, on = set(), True
    sys.addaudithook(lambda event, _: on and events.add(event))
    file = io.BytesIO(archive(HOSTILE[name][-1]))
    pickled.answer(io.BytesIO(archive(array_pickle())))  # imports what it needs
    events.clear()
    with pytest.raises(InputError):
        pickled.answer(file)
    on = False
    assert events <= {"pickle.find_class", "builtins.id", "object.__getattr__"}


@each(
    "change",
    [
        {"offset": 1}, {"offset": -1}, {"stride": (1, 1)}, {"stride": (2,)}, {"stride": (0, 0)},
        {"stride": (-2, 1)}, {"stride": (3, 1)}, {"stride": (2, 2)}, {"size": (2, 3)},
        {"size": (2**24, 2**24), "stride": (2**24, 1)}, {"count": -4},
    ],
)  # fmt: skip
def test_a_tensor_outside_its_storage_is_refused(change):
    with pytest.raises(InputError) as caught:
        read(tensor_pickle(**change), k0=b"abcd")
    assert caught.value.code == "file-damaged"
