"""Published checkpoints become networks exactly; a hostile one is refused by name and runs nothing."""

import io
import json
import os
import pickle
import struct
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tinytrain.errors import InputError
from tinytrain.importer import convert, import_checkpoint, read_archive
from tinytrain.picklenames import ArrayBox
from tinytrain.picklereader import read_pickle

NAMES = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")


def convolution(cin, cout, kernel=1, stride=1, groups=1, side=4) -> dict:
    """One convolution as the published files describe it, with random numbers."""
    rng = np.random.default_rng(cin * cout + kernel)
    return {
        "in_channel": cin, "in_shape": side, "out_channel": cout, "out_shape": (side + stride - 1) // stride,
        "kernel_size": (kernel, kernel), "stride": stride, "groups": groups, "depthwise": groups > 1,
        "act": None,
        "params": {
            "weight": rng.integers(-127, 128, (cout, cin // groups, kernel, kernel), dtype=np.int8),
            "bias": rng.integers(-9999, 9999, cout, dtype=np.int32),
            "w_scales": rng.uniform(0.01, 0.1, cout).astype(np.float32),
            "x_scale": 0.0235, "x_zero": -128, "y_scale": 0.1, "y_zero": 3,
        },
    }  # fmt: skip


def checkpoint() -> dict:
    block = {
        "pointwise1": convolution(4, 6),
        "depthwise": convolution(6, 6, kernel=3, groups=6),
        "pointwise2": convolution(6, 4),
        "residual": {"params": {}},
        "se": None,
    }
    stem = convolution(3, 4, kernel=3, stride=2, side=8)
    return {"first_conv": stem, "blocks": [block], "feature_mix": None, "classifier": None}


def archive(pickled: bytes, extra: dict | None = None, compression=zipfile.ZIP_STORED) -> bytes:
    """A PyTorch zip file around `pickled`."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", compression) as file:
        for name, data in {"archive/data.pkl": pickled, **(extra or {})}.items():
            file.writestr(zipfile.ZipInfo(name), data, compression)
    return memory.getvalue()


def imported(content, protocol=2):
    return convert(read_archive(archive(pickle.dumps(content, protocol))), "toy", "toy.pkl")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_checkpoint_becomes_layers_in_order(protocol):
    network = imported(checkpoint(), protocol)
    assert [layer.name for layer in network.layers] == [
        "stem", "block0.expand", "block0.depthwise", "block0.project",
    ]  # fmt: skip
    assert [layer.kind for layer in network.layers] == ["conv", "pointwise", "depthwise", "pointwise"]
    assert [layer.block for layer in network.layers] == [0, 1, 1, 1]
    assert [layer.relu6 for layer in network.layers] == [True, True, True, False]
    assert [layer.residual for layer in network.layers] == [False, False, False, True]
    assert (network.name, network.preprocessing.size) == ("toy", 8)


def test_weights_are_rows_of_kernel_and_input_and_columns_of_output():
    content = checkpoint()
    network = imported(content)
    weight = content["first_conv"]["params"]["weight"]
    for row in range(3):
        for column in range(3):
            for channel in range(3):
                expected = weight[:, channel, row, column]
                assert (network.weights[0][(row * 3 + column) * 3 + channel] == expected).all()
    depthwise = content["blocks"][0]["depthwise"]["params"]["weight"]
    assert (network.weights[2] == depthwise.reshape(6, 9).T).all()


def test_numpy_arrays_in_column_order_are_read_right():
    content = checkpoint()
    params = content["first_conv"]["params"]
    params["weight"] = np.asfortranarray(params["weight"])
    assert imported(content).digest == imported(checkpoint()).digest


def test_numpy_scalars_are_numbers():
    assert read_pickle(pickle.dumps(np.float32(0.5), 2)) == 0.5
    assert read_pickle(pickle.dumps({"a": [np.int64(-3), (1, 2**70, None, True)]}, 4)) == {
        "a": [-3, (1, 2**70, None, True)]
    }


@pytest.mark.parametrize("name", NAMES)
def test_published_checkpoints_agree_exactly_with_the_neutral_files(name):
    if "TINYTRAIN_SHARED" not in os.environ:
        pytest.skip("set TINYTRAIN_SHARED to the folder with backbones/upstream/*.pkl and backbones/*.npz")
    folder = Path(os.environ["TINYTRAIN_SHARED"]) / "backbones"
    network = import_checkpoint(folder / "upstream" / f"{name}.pkl")
    neutral = np.load(folder / f"{name}.npz")
    topology = json.loads(bytes(neutral["topology"]))
    rows = []
    for index, entry in enumerate(topology["layers"]):
        parts = entry["layers"] if entry["op"] == "mbconv" else [entry]
        residual = bool(entry.get("residual"))
        rows += [(index, part, residual and part is parts[-1]) for part in parts]
    assert network.name == name and len(network.layers) == len(rows)
    for i, (layer, (block, row, residual)) in enumerate(zip(network.layers, rows, strict=True)):
        fields = (layer.name, layer.cin, layer.cout, [layer.kernel] * 2, layer.stride)
        assert fields == (row["name"], row["cin"], row["cout"], row["kernel"], row["stride"])
        assert (layer.in_hw, layer.out_hw) == ((row["in_hw"],) * 2, (row["out_hw"],) * 2)
        assert (layer.kind == "depthwise") == (row["groups"] > 1) and layer.relu6 == (row["act"] == "relu6")
        assert (layer.block, layer.residual) == (block, residual)
        weight = neutral[f"{layer.name}.weight"]
        assert network.weights[i].dtype == np.int8 and network.weights[i].flags.c_contiguous
        assert (
            network.weights[i]
            == np.moveaxis(weight, 0, 3).swapaxes(0, 2).swapaxes(0, 1).reshape(-1, layer.cout)
        ).all()
        scale = neutral[f"{layer.name}.w_scale"]
        assert (network.scales[i] == scale).all()
        bias = [
            int(b) * float(s) * row["x_scale"]
            for b, s in zip(neutral[f"{layer.name}.bias"], scale, strict=True)
        ]
        assert (network.biases[i] == np.array(bias).astype(np.float32)).all()


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("wrap", [lambda bad: bad, lambda bad: {"blocks": [bad]}, lambda bad: (1, (bad,))])
def test_a_pickle_that_calls_the_system_is_refused_and_nothing_runs(tmp_path, protocol, wrap):
    mark = tmp_path / "ran"
    bad = wrap(Call(os.system, f"touch {mark}"))
    path = tmp_path / "net.pkl"
    path.write_bytes(archive(pickle.dumps(bad, protocol)))
    with pytest.raises(InputError) as caught:
        import_checkpoint(path)
    assert caught.value.code == "pickle-forbidden" and not mark.exists()


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
    with pytest.raises(InputError, match=rf"asks for {module}\.{attribute}.*nothing was run") as caught:
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
    data = archive(tensor_pickle(offset=1, count=5), {"archive/data/0": bytes(range(5))})
    assert read_archive(data).array.tolist() == [[1, 2], [3, 4]]
    data = archive(
        tensor_pickle(kind="FloatStorage"), {"archive/data/0": np.arange(4, dtype="<f4").tobytes()}
    )
    assert read_archive(data).array.tolist() == [[0, 1], [2, 3]]


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
    ("pickle-forbidden", b"NNR."),
    ("pickle-forbidden", b"cnumpy\nndarray\n)R."),
    ("pickle-forbidden", b"}}b."),
    ("pickle-forbidden", b"Nb."),
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
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(InputError) as caught:
        read_pickle(data, "net.pkl")
    seconds, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
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
        {"offset": 1}, {"offset": -1}, {"stride": (1, 2)}, {"stride": (2,)}, {"stride": (0, 0)}, {"count": 5},
        {"size": (2, 3)}, {"size": (2**24, 2**24), "stride": (2**24, 1)}, {"count": -4},
    ],
)  # fmt: skip
def test_a_tensor_outside_its_storage_is_refused(change):
    with pytest.raises(InputError) as caught:
        read_archive(archive(tensor_pickle(**change), {"archive/data/0": b"abcd"}))
    assert caught.value.code == "pickle-corrupt"


def patched(data: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """`data` with `value` at `offset` behind the last `signature`."""
    at = data.rindex(signature) + offset
    return data[:at] + value + data[at + len(value) :]


CENTRAL, END = b"PK\1\2", b"PK\5\6"
GOOD = archive(b"N.")
HOSTILE_ZIPS = [
    ("zip-corrupt", b"no zip at all"),
    ("zip-corrupt", b"\x80\2N."),
    ("zip-corrupt", GOOD[:-1]),
    ("zip-corrupt", GOOD[:30]),
    ("zip-corrupt", GOOD.replace(b"N.", b"M.", 1)),
    ("zip-corrupt", patched(GOOD, END, 16, b"\xff\xff\xff\x7f")),
    ("zip-corrupt", patched(GOOD, END, 12, b"\xff\xff\xff\x7f")),
    ("zip-corrupt", patched(GOOD, CENTRAL, 8, b"\1\0")),
    ("zip-corrupt", patched(GOOD, CENTRAL, 42, b"\5\0\0\0")),
    ("zip-compressed", patched(GOOD, CENTRAL, 24, b"\xff\xff\xff\x7f")),
    ("zip-overlap", patched(GOOD, CENTRAL, 20, b"\xff\xff\xff\x7f" * 2)),
    ("zip-compressed", archive(b"N" * 10**6, compression=zipfile.ZIP_DEFLATED)),
    ("zip-compressed", archive(b"N" * 10**6, compression=zipfile.ZIP_LZMA)),
    ("zip-too-many", GOOD + CENTRAL * 5000),
    ("zip-not-checkpoint", archive(b"N.", {"other/data.pkl": b"N."})),
    ("zip-not-checkpoint", archive(b"N.", {"archive/byteorder": b"big"})),
    ("zip-missing", archive(tensor_pickle(), {"archive/data/1": b"abcd"})),
    ("zip-missing", archive(tensor_pickle(key="../../x"))),
]


@pytest.mark.parametrize(
    ("code", "data"), HOSTILE_ZIPS, ids=[f"{i}-{code}" for i, (code, _) in enumerate(HOSTILE_ZIPS)]
)
def test_each_hostile_zip_is_refused_by_name(tmp_path, code, data):
    (tmp_path / "net.pkl").write_bytes(data)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"net\.pkl") as caught:
        import_checkpoint(tmp_path / "net.pkl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.code == code and peak < len(data) + 8 * 2**20


def test_two_entries_of_one_name_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w") as file:
            file.writestr("archive/data.pkl", b"N.")
            file.writestr("archive/data.pkl", b"K\1.")
    with pytest.raises(InputError) as caught:
        read_archive(memory.getvalue())
    assert caught.value.code == "zip-overlap"


def test_every_truncation_of_a_checkpoint_is_refused():
    pickled = pickle.dumps(checkpoint(), 2)
    whole = archive(pickled)
    for length in range(len(pickled)):
        with pytest.raises(InputError):
            read_pickle(pickled[:length])
    for length in range(0, len(whole), 7):
        with pytest.raises(InputError):
            read_archive(whole[:length])


def test_a_missing_and_an_empty_file_are_named(tmp_path):
    (tmp_path / "empty.pkl").write_bytes(b"")
    for name, code in (("missing.pkl", "file-missing"), ("empty.pkl", "file-empty")):
        with pytest.raises(InputError, match=name) as caught:
            import_checkpoint(tmp_path / name)
        assert caught.value.code == code


def stem(**changes):
    return lambda content: content["first_conv"].update(changes)


def params(**changes):
    return lambda content: content["first_conv"]["params"].update(changes)


def block(**changes):
    return lambda content: content["blocks"][0].update(changes)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("checkpoint-layout", lambda content: content.clear()),
        ("checkpoint-layout", lambda content: content.update(blocks={})),
        ("checkpoint-layout", lambda content: content.update(blocks=[1])),
        ("checkpoint-layout", stem(in_channel=True)),
        ("checkpoint-layout", stem(out_channel=-4)),
        ("checkpoint-layout", stem(out_channel=10**9)),
        ("checkpoint-layout", stem(kernel_size=3)),
        ("checkpoint-layout", stem(kernel_size=(3, 1))),
        ("checkpoint-layout", stem(kernel_size=(10**9, 10**9))),
        ("checkpoint-layout", stem(params=None)),
        ("checkpoint-layout", params(weight=[1, 2])),
        ("checkpoint-layout", params(weight=np.zeros((4, 3, 3, 3), np.float32))),
        ("checkpoint-layout", params(weight=np.zeros((3, 4, 3, 3), np.int8))),
        ("checkpoint-layout", params(bias=np.zeros(4, np.int64))),
        ("checkpoint-layout", params(x_scale="1")),
        ("checkpoint-layout", params(x_scale=float("nan"))),
        ("checkpoint-layout", params(x_scale=0.0)),
        ("checkpoint-layout", block(pointwise2=None)),
        ("checkpoint-unsupported", block(se={"params": {}})),
        ("checkpoint-unsupported", stem(act="swish")),
        ("checkpoint-unsupported", stem(groups=2)),
        ("checkpoint-unsupported", lambda content: content.update(feature_mix={})),
        ("array-not-finite", params(w_scales=np.full(4, np.nan, np.float32))),
        ("array-not-finite", params(x_scale=1e308)),
        ("scale-not-positive", params(w_scales=np.zeros(4, np.float32))),
        ("layer-size", stem(out_shape=5)),
        ("layer-size", stem(in_shape=10)),
        ("layer-kind", stem(stride=3)),
        ("layer-residual", lambda content: content["blocks"][0].update(pointwise2=convolution(6, 5))),
        ("layer-chain", block(pointwise1=None)),
    ],
)
def test_a_checkpoint_that_is_no_such_network_is_refused_by_name(code, change):
    content = checkpoint()
    change(content)
    with pytest.raises(InputError) as caught:
        imported(content)
    assert caught.value.code == code and "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [300, 50_000])
def test_one_block_named_many_times_costs_no_memory(count):
    content = checkpoint()
    content["blocks"] *= count
    with pytest.raises(InputError) as caught:
        imported(content)
    assert caught.value.code == "checkpoint-too-large"


def test_an_array_that_was_never_filled_is_refused():
    content = {**read_pickle(pickle.dumps(checkpoint(), 2))}
    content["first_conv"]["params"]["weight"] = ArrayBox()
    with pytest.raises(InputError) as caught:
        convert(content, "toy", "toy.pkl")
    assert caught.value.code == "checkpoint-layout"
