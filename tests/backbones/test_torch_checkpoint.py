"""Published checkpoints become networks exactly; a hostile one is refused by name and runs nothing."""

import json
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cases import each
from toycheckpoint import BLOCK, SIX, STEM, archive, checkpoint, convolution

from tinytrain.backbones.pickled import read_checkpoint
from tinytrain.backbones.torch_checkpoint import convert, import_checkpoint
from tinytrain.base.errors import InputError
from tinytrain.network.quantisation import Codes, Quantisation, int8_obstacle

NAMES = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")


def imported(content, protocol=2):
    return convert(read_checkpoint(archive(pickle.dumps(content, protocol))), "toy", "toy.pkl")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_checkpoint_becomes_layers_in_order(protocol):
    network = imported(checkpoint(), protocol)
    assert [layer.name for layer in network.layers] == [
        "stem", "block0.expand", "block0.depthwise", "block0.project",
    ]  # fmt: skip
    assert [layer.op for layer in network.layers] == ["conv", "pointwise", "depthwise", "pointwise"]
    assert [layer.block for layer in network.layers] == [0, 1, 1, 1]
    assert [layer.activation == "relu6" for layer in network.layers] == [True, True, True, False]
    assert [layer.adds for layer in network.layers] == [False, False, False, True]
    assert (network.name, network.input.size) == ("toy", 8)


def test_scales_and_zeros_of_activations_become_codes():
    outputs = tuple(Codes(*codes) for codes in (STEM, SIX, SIX, BLOCK))
    network = imported(checkpoint())
    assert network.quantisation == Quantisation(outputs, (None, None, None, Codes(0.2, -5)))
    assert int8_obstacle(network) is None


@each(
    "change",
    [
        lambda stem, block: stem.pop("y_zero"),
        lambda stem, block: block["residual"]["params"].clear(),
        lambda stem, block: stem.update(y_scale=0.011),
        lambda stem, block: block["depthwise"]["params"].update(x_zero=-127),
        lambda stem, block: block["residual"]["params"].update(x_scale=0.011),
    ],
)
def test_codes_that_are_missing_or_contradict_each_other_are_left_out(change):
    content = checkpoint()
    change(content["first_conv"]["params"], content["blocks"][0])
    network = imported(content)
    assert network.quantisation is None and network.digest == imported(checkpoint()).digest


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


@pytest.mark.parametrize("name", NAMES)
def test_published_checkpoints_agree_exactly_with_the_neutral_files(name):
    if "TINYTRAIN_SHARED" not in os.environ:
        pytest.skip("set TINYTRAIN_SHARED to the folder with backbones/upstream/*.pkl and backbones/*.npz")
    folder = Path(os.environ["TINYTRAIN_SHARED"]) / "backbones"
    network = import_checkpoint(folder / "upstream" / f"{name}.pkl")
    neutral = np.load(folder / f"{name}.npz")
    topology = json.loads(bytes(neutral["topology"]))
    rows = []
    body = [entry for entry in topology["layers"] if entry["name"] == "stem" or entry["op"] == "mbconv"]
    for index, entry in enumerate(body):
        parts = entry["layers"] if entry["op"] == "mbconv" else [entry]
        residual = bool(entry.get("residual"))
        rows += [(index, part, residual and part is parts[-1]) for part in parts]
    assert network.name == name and len(network.layers) == len(rows)
    for i, (layer, (block, row, residual)) in enumerate(zip(network.layers, rows, strict=True)):
        fields = (layer.name, layer.cin, layer.cout, list(layer.kernel), layer.stride[0])
        assert fields == (row["name"], row["cin"], row["cout"], row["kernel"], row["stride"])
        assert (layer.in_hw, layer.out_hw) == ((row["in_hw"],) * 2, (row["out_hw"],) * 2)
        assert (layer.op == "depthwise") == (row["groups"] > 1) and layer.activation == row["act"]
        assert (layer.block, layer.adds) == (block, residual)
        weight = neutral[f"{layer.name}.weight"]
        assert network.weights[i].dtype == np.int8 and network.weights[i].flags.c_contiguous
        assert (network.weights[i] == np.einsum("oikl->klio", weight).reshape(-1, layer.cout)).all()
        scale = neutral[f"{layer.name}.w_scale"]
        assert (network.scales[i] == scale).all()
        bias = [
            int(b) * float(s) * row["x_scale"]
            for b, s in zip(neutral[f"{layer.name}.bias"], scale, strict=True)
        ]
        assert (network.biases[i] == np.array(bias).astype(np.float32)).all()
        output, total = network.quantisation.outputs[i], network.quantisation.sums[i]
        assert (output.scale, output.zero) == (row["y_scale"], row["y_zero"])
        assert (total is not None) == residual
        if residual:
            added = body[block]["residual"]
            assert (total.scale, total.zero) == (added["y_scale"], added["y_zero"])
    assert int8_obstacle(network) is None


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@each("protocol", range(5))
@each("wrap", [lambda bad: bad, lambda bad: {"blocks": [bad]}, lambda bad: (1, (bad,))])
def test_a_pickle_that_calls_the_system_is_refused_and_nothing_runs(tmp_path, protocol, wrap):
    mark = tmp_path / "ran"
    bad = wrap(Call(os.system, f"touch {mark}"))
    path = tmp_path / "net.pkl"
    path.write_bytes(archive(pickle.dumps(bad, protocol)))
    with pytest.raises(InputError) as caught:
        import_checkpoint(path)
    assert caught.value.code == "unsupported" and not mark.exists()


def patched(data: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """`data` with `value` at `offset` behind the last `signature`."""
    at = data.rindex(signature) + offset
    return data[:at] + value + data[at + len(value) :]


CENTRAL, END = b"PK\1\2", b"PK\5\6"
GOOD = archive(b"N.")
STORAGE = b"(\x8c\7storagectorch\nCharStorage\n\x8c\1\x30\x8c\3cpuK\4tQ."
HOSTILE_ZIPS = [
    ("file-damaged", "a broken pickle", b"no zip at all"),
    ("file-damaged", "its magic number is not", b"\x80\2N."),
    ("file-damaged", "no readable zip", GOOD[:-1]),
    ("file-damaged", "no readable zip", GOOD[:30]),
    ("file-damaged", "'data.pkl' is broken", GOOD.replace(b"N.", b"M.", 1)),
    ("file-damaged", "'data.pkl' is broken", patched(GOOD, END, 16, b"\xff\xff\xff\x7f")),
    ("file-damaged", "no readable zip", patched(GOOD, END, 12, b"\xff\xff\xff\x7f")),
    ("file-damaged", "'data.pkl' is broken", patched(GOOD, CENTRAL, 8, b"\1\0")),
    ("file-damaged", "'data.pkl' is broken", patched(GOOD, CENTRAL, 42, b"\5\0\0\0")),
    ("unsupported", "must be a dictionary", patched(GOOD, CENTRAL, 24, b"\xff\xff\xff\x7f")),
    ("file-damaged", "'data.pkl' is broken", patched(GOOD, CENTRAL, 20, b"\xff\xff\xff\x7f" * 2)),
    ("file-damaged", "takes more than 256 MB", archive(bytes(3 * 10**8), compression=zipfile.ZIP_DEFLATED)),
    ("file-kind", "needs one data.pkl", archive(b"N.", {"other/data.pkl": b"N."})),
    ("unsupported", "only little-endian", archive(b"N.", {"archive/byteorder": b"big"})),
    ("file-damaged", "'data/0' is missing", archive(STORAGE, {"archive/data/1": b"abcd"})),
    ("file-damaged", "'data/0' is missing", archive(STORAGE)),
]


@each(("code", "fact", "data"), HOSTILE_ZIPS, ids=[f"{i}-{row[0]}" for i, row in enumerate(HOSTILE_ZIPS)])
def test_each_hostile_zip_is_refused_for_what_is_wrong(tmp_path, code, fact, data):
    (tmp_path / "net.pkl").write_bytes(data)
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"net\.pkl: .*{fact}") as caught:
        import_checkpoint(tmp_path / "net.pkl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.code == code and peak < len(data) + 8 * 2**20


def test_every_truncation_of_a_checkpoint_is_refused():
    pickled = pickle.dumps(checkpoint(), 2)
    whole = archive(pickled)
    for length in range(len(pickled)):
        with pytest.raises(InputError):
            read_checkpoint(archive(pickled[:length]))
    for length in range(0, len(whole), 7):
        with pytest.raises(InputError):
            read_checkpoint(whole[:length])


def test_a_missing_and_an_empty_file_are_named(tmp_path):
    (tmp_path / "empty.pkl").write_bytes(b"")
    for name, code in (("missing.pkl", "file-missing"), ("empty.pkl", "file-damaged")):
        with pytest.raises(InputError, match=name) as caught:
            import_checkpoint(tmp_path / name)
        assert caught.value.code == code


def stem(**changes):
    return lambda content: content["first_conv"].update(changes)


def params(**changes):
    return lambda content: content["first_conv"]["params"].update(changes)


def behind_stem(zero: int):
    """Another zero of what the stem gives, and of all that reads it."""

    def change(content):
        block = content["blocks"][0]
        content["first_conv"]["params"].update(y_zero=zero)
        for name in ("pointwise1", "residual"):
            block[name]["params"].update(x_zero=zero)

    return change


def block(**changes):
    return lambda content: content["blocks"][0].update(changes)


@each(
    ("code", "change"),
    [
        ("unsupported", lambda content: content.clear()),
        ("unsupported", lambda content: content.update(blocks={})),
        ("unsupported", lambda content: content.update(blocks=[1])),
        ("unsupported", stem(in_channel=True)),
        ("unsupported", stem(out_channel=-4)),
        ("unsupported", stem(out_channel=10**9)),
        ("unsupported", stem(kernel_size=3)),
        ("unsupported", stem(kernel_size=(3, 1))),
        ("unsupported", stem(kernel_size=(10**9, 10**9))),
        ("unsupported", stem(params=None)),
        ("unsupported", params(weight=[1, 2])),
        ("unsupported", params(weight=np.zeros((4, 3, 3, 3), np.float32))),
        ("unsupported", params(weight=np.zeros((3, 4, 3, 3), np.int8))),
        ("unsupported", params(bias=np.zeros(4, np.int64))),
        ("unsupported", params(x_scale="1")),
        ("unsupported", params(x_scale=float("nan"))),
        ("unsupported", params(x_scale=0.0)),
        ("unsupported", params(y_scale=0.0)),
        ("unsupported", params(y_scale=1)),
        ("unsupported", params(y_zero=-129)),
        ("unsupported", params(y_zero=1.0)),
        ("file-damaged", behind_stem(zero=-127)),
        ("unsupported", block(pointwise2=None)),
        ("unsupported", block(se={"params": {}})),
        ("unsupported", stem(act="swish")),
        ("unsupported", stem(groups=2)),
        ("unsupported", lambda content: content.update(feature_mix={})),
        ("network-not-finite", params(w_scales=np.full(4, np.nan, np.float32))),
        ("network-not-finite", params(x_scale=1e308)),
        ("file-damaged", params(w_scales=np.zeros(4, np.float32))),
        ("file-damaged", stem(out_shape=5)),
        ("file-damaged", stem(in_shape=10)),
        ("unsupported", stem(stride=3)),
        ("file-damaged", lambda content: content["blocks"][0].update(pointwise2=convolution(6, 5))),
        ("file-damaged", block(pointwise1=None)),
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
    assert caught.value.code == "file-damaged"
