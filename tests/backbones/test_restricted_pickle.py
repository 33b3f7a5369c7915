"""Pickles of arrays: what checkpoints need is rebuilt, the rest is refused by name and nothing runs."""

import itertools
import pickle
import struct
import time
import tracemalloc

import numpy as np
import pytest

from tinytrain.backbones.restricted_pickle import read_pickle
from tinytrain.base.errors import InputError


def test_numpy_scalars_are_numbers():
    assert read_pickle(pickle.dumps(np.float32(0.5), 2)) == 0.5
    assert read_pickle(pickle.dumps({"a": [np.int64(-3), (1, 2**70, None, True)]}, 4)) == {
        "a": [-3, (1, 2**70, None, True)]
    }


@pytest.mark.parametrize(
    "name",
    [
        "builtins eval", "builtins getattr", "__builtin__ exec", "subprocess Popen", "numpy load",
        "numpy fromfile",
        "numpy.core.multiarray fromfile", "_codecs decode", "codecs encode", "collections namedtuple",
        "torch load", "torch._utils _rebuild_parameter", "numpy ndarray.tofile", "numpy.ndarray tofile",
        "nt system",
    ],
)  # fmt: skip
def test_a_name_outside_the_list_is_refused_by_name(name):
    module, attribute = name.split()
    with pytest.raises(InputError, match=rf"asks for '{module}\.{attribute}'.*nothing was run") as caught:
        read_pickle(f"c{module}\n{attribute}\n.".encode())
    assert caught.value.code == "pickle-forbidden"


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text.encode())]) + text.encode()


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def array_pickle(shape=b"K\4\x85", dtype="i1", order="|", data=b"C\4abcd", fortran=b"\x89") -> bytes:
    """The pickle of one array, each part of it free."""
    start = b"\x80\4cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85C\1b\x87R"
    kind = b"cnumpy\ndtype\n" + short(dtype) + b"\x89\x88\x87R(K\3" + short(order) + b"NNN" + number(-1) * 2
    return start + b"(K\1" + shape + kind + b"K\0tb" + fortran + data + b"tb."


def tensor_pickle(offset=0, size=(2, 2), stride=(2, 1), count=4, kind="CharStorage", key="0") -> bytes:
    """The pickle of one torch tensor whose storage lies beside it."""
    shapes = b"".join(b"(" + b"".join(map(number, numbers)) + b"t" for numbers in (size, stride))
    storage = b"(" + short("storage") + b"ctorch\n" + kind.encode() + b"\n" + short(key) + short("cpu")
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    rebuild = b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n("
    return rebuild + storage + number(count) + b"tQ" + number(offset) + shapes + hooks + b"tR."


def test_an_array_and_a_torch_tensor_are_rebuilt():
    assert bytes(read_pickle(array_pickle()).array) == b"abcd"
    stored = {"0": bytes(range(5)), "1": np.arange(4, dtype="<f4").tobytes()}

    def storages(sizes, length):
        assert length and all(len(stored[key]) == size for key, size in sizes.items())
        return stored

    tensor = read_pickle(tensor_pickle(offset=1, count=5), storages=storages)
    assert tensor.array.tolist() == [[1, 2], [3, 4]] and not tensor.array.flags.writeable
    tensor = read_pickle(tensor_pickle(kind="FloatStorage", key="1"), storages=storages)
    assert tensor.array.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_axes_of_a_tensor_may_lie_in_any_order(order):
    """Torch keeps a transposed array as it lies and writes its strides."""
    content = np.arange(1 * 3 * 4 * 5, dtype="<f4").reshape(3, 1, 5, 4)
    view = content.transpose(order)
    strides = tuple(step // 4 for step in view.strides)
    data = tensor_pickle(size=view.shape, stride=strides, count=60, kind="FloatStorage")
    tensor = read_pickle(data, storages=lambda sizes, length: {"0": content.tobytes()})
    np.testing.assert_array_equal(tensor.array, view)


def test_a_storage_cannot_be_of_two_kinds():
    pair = tensor_pickle()[:-1] + tensor_pickle(kind="FloatStorage")[2:-1] + b"\x86."
    with pytest.raises(InputError, match=r"pickle-corrupt.*of two kinds"):
        read_pickle(pair, storages=lambda sizes, length: {"0": bytes(16)})


LONG_TEXT = b"X" + struct.pack("<I", 10**5) + b"a" * 10**5 + b"q\0"
ENCODE_OFTEN = LONG_TEXT + b"0" + b"(c_codecs\nencode\nh\0\x8c\6latin1\x86R" * 1000 + b"."
HOSTILE_PICKLES = [
    ("pickle-corrupt", b""),
    ("pickle-corrupt", b"."),
    ("pickle-corrupt", b"K"),
    ("pickle-corrupt", b"N"),
    ("pickle-corrupt", b"cnumpy"),
    ("pickle-corrupt", b"X\xff\xff\xff\xffab."),
    ("pickle-corrupt", b"B\xff\xff\xff\x7f."),
    ("pickle-corrupt", b"X\2\0\0\0\xff\xfe."),
    ("pickle-corrupt", b"h\1."),
    ("pickle-corrupt", b"j\xff\xff\xff\xff."),
    ("pickle-corrupt", b"Nr\xff\xff\xff\xff0."[:6] + b"h\1."),
    ("pickle-corrupt", b"t."),
    ("pickle-corrupt", b"K\1(\x85."),
    ("pickle-corrupt", b"K\1a."),
    ("pickle-corrupt", b"(K\1e."),
    ("pickle-corrupt", b"}(K\1K\2u."),
    ("pickle-corrupt", b"}(\x8c\1au."),
    ("pickle-corrupt", b"})" + b"q\0h\0\x86" * 100 + b"K\1s."),
    ("pickle-corrupt", b"K\1K\2\x93."),
    ("pickle-corrupt", b"NQ."),
    ("pickle-corrupt", tensor_pickle()),
    ("pickle-forbidden", b"NNR."),
    ("pickle-forbidden", b"cnumpy\nndarray\n)R."),
    ("pickle-forbidden", b"}}b."),
    ("pickle-corrupt", b"Nb."),
    ("pickle-forbidden", b"NNb."),
    ("pickle-forbidden", b"cnumpy\ndtype\n}b."),
    ("pickle-forbidden", b"cnumpy\ndtype\n)\x81."),
    ("pickle-forbidden", short("os") + short("system") + b"\x93."),
    ("pickle-corrupt", b"\x80\4\x95" + b"\xff" * 7 + b"\x7f."),
    ("pickle-corrupt", b"\x80\4\x95" + b"\xff" * 8 + b"."),
    ("pickle-corrupt", b"\x80\x09N."),
    ("pickle-forbidden", b"\x8f."),
    ("pickle-forbidden", b"I" + b"9" * 10**5 + b"\n."),
    ("pickle-forbidden", b"\x96" + b"\xff" * 7 + b"\x7f."),
    ("pickle-forbidden", b"\x8e" + b"\xff" * 7 + b"\x7f."),
    ("pickle-forbidden", b"\x82\1."),
    ("pickle-forbidden", b"(cos\nsystem\no."),
    ("pickle-forbidden", b"(S'true'\nios\nsystem\n."),
    ("pickle-forbidden", b"N2."),
    ("pickle-too-large", b"N" * 300_000),
    ("pickle-too-large", ENCODE_OFTEN.replace(b"q\x000", b"q\0")),
    ("pickle-corrupt", b"c_codecs\nencode\n" + short("\u0100") + short("latin1") + b"\x86R."),
    ("pickle-corrupt", b"c_codecs\nencode\n" + short("a") + short("bz2") + b"\x86R."),
    ("pickle-corrupt", b"c_codecs\nencode\n" + short("a") + b"\x85R."),
    ("pickle-corrupt", b"c_codecs\nencode\nNR."),
    ("pickle-dtype", array_pickle(dtype="O")),
    ("pickle-dtype", array_pickle(dtype="O8")),
    ("pickle-dtype", array_pickle(dtype="i1,O")),
    ("pickle-dtype", array_pickle(dtype="V4")),
    ("pickle-dtype", array_pickle(order=">")),
    ("pickle-corrupt", array_pickle(shape=b"K\5\x85")),
    ("pickle-corrupt", array_pickle(shape=b"K\0\x85", data=b"C\0")),
    ("pickle-corrupt", array_pickle(shape=number(-4) + b"\x85")),
    ("pickle-corrupt", array_pickle(shape=number(-2) + number(-2) + b"\x86")),
    ("pickle-corrupt", array_pickle(shape=b"\x88\x85", data=b"C\1a")),
    ("pickle-corrupt", array_pickle(shape=b"(" + b"K\1" * 40 + b"t", data=b"C\1a")),
    ("pickle-corrupt", array_pickle(shape=b"\x8a\x09" + b"\xff" * 8 + b"\0\x85")),
    ("pickle-corrupt", array_pickle(shape=(number(2**24) * 3 + b"\x87"))),
    ("pickle-corrupt", array_pickle(data=b"\x8c\4abcd")),
    ("pickle-corrupt", array_pickle(data=b"]")),
    ("pickle-corrupt", array_pickle(fortran=b"K\0")),
    ("pickle-corrupt", b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\nK\0\x85C\1b\x87R."),
]


@pytest.mark.parametrize(
    ("code", "data"), HOSTILE_PICKLES, ids=[f"{i}-{code}" for i, (code, _) in enumerate(HOSTILE_PICKLES)]
)
def test_each_hostile_pickle_is_refused_by_name_quickly_and_in_little_memory(code, data):
    start = time.process_time()
    with pytest.raises(InputError):
        read_pickle(data, "net.pkl")
    seconds = time.process_time() - start
    tracemalloc.start()  # it takes longer than what it watches, so it has a run of its own
    with pytest.raises(InputError) as caught:
        read_pickle(data, "net.pkl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.code == code and str(caught.value).startswith(f"{code}: net.pkl")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    assert seconds < 2 and peak < 8 * len(data) + 8 * 2**20


def test_deep_nesting_is_no_recursion():
    value = read_pickle(b"N" + b"\x85" * 100_000 + b".")
    depth = 0
    while value is not None:
        (value,), depth = value, depth + 1
    assert depth == 100_000


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 1}, {"offset": -1}, {"stride": (1, 1)}, {"stride": (2,)}, {"stride": (0, 0)}, {"count": 5},
        {"stride": (-2, 1)}, {"stride": (3, 1)}, {"stride": (2, 2)}, {"size": (2, 3)},
        {"size": (2**24, 2**24), "stride": (2**24, 1)}, {"count": -4},
    ],
)  # fmt: skip
def test_a_tensor_outside_its_storage_is_refused(change):
    with pytest.raises(InputError) as caught:
        read_pickle(tensor_pickle(**change), storages=lambda sizes, length: {"0": b"abcd"})
    assert caught.value.code == "pickle-corrupt"
