"""Deltas: the file gives back every bit, applying writes those values alone, a broken file is refused."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from mutants import without_checksum

from tinytrain.base.errors import InputError, StorageError
from tinytrain.base.safetensors import decode, encode
from tinytrain.delta.delta import Slice, apply
from tinytrain.delta.file import decode_delta, encode_delta, load_delta, save_delta
from tinytrain.heads.out_of_distribution import Limit
from tinytrain.network.file import encode_network, save_network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy


def recipe(network, *_):
    """Layer 6 in part, layer 9 whole, biases of both."""
    updates = (Update(6, (7, 1, 4), bias=True), Update(9, tuple(range(24)), bias=True))
    return Recipe("test", updates, ((1e-2, 1e-2),) * 2, "adam", "constant", head="lda", views=3)


LDA = Policy("test", recipe, "none", macs_limited=False)


@pytest.fixture(scope="module")
def network():
    return toy_network()


@pytest.fixture(scope="module")
def delta(network):
    return adapt(network, toy_episode(), Budget(2**22), LDA).delta


def parts(delta):
    """Tensors and metadata of a delta's file, ready to be damaged."""
    tensors, metadata = decode(encode_delta(delta))
    return {name: array.copy() for name, array in tensors.items()}, dict(metadata)


def same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return (a is None and b is None) or (
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    )


def test_a_delta_survives_the_file_bit_for_bit(delta, tmp_path):
    save_delta(tmp_path / "a.safetensors", delta)
    again = load_delta(tmp_path / "a.safetensors")
    assert [(s.layer, s.part) for s in again.slices] == [
        (6, "weight"),
        (6, "bias"),
        (9, "weight"),
        (9, "bias"),
    ]
    for ours, theirs in zip(delta.slices, again.slices, strict=True):
        assert same(ours.channels, theirs.channels) and same(ours.values, theirs.values)
    for name in ("weights", "offsets", "counts", "sums", "products"):
        assert same(getattr(delta.head, name), getattr(again.head, name)), name
    for name in ("kind", "temperature", "left_out"):
        assert getattr(delta.head, name) == getattr(again.head, name)
    for name in ("backbone", "backbone_name", "class_names", "views"):
        assert getattr(delta, name) == getattr(again, name)
    assert again.report == json.loads(json.dumps(delta.report))
    save_delta(tmp_path / "b.safetensors", again)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_applying_writes_the_values_over_and_leaves_every_other_bit(network, delta):
    before = encode_network(network)
    adapted = apply(network, delta)
    assert encode_network(network) == before, "the backbone itself does not change"
    changed = {(s.layer, s.part): s for s in delta.slices}
    for i, layer in enumerate(network.layers):
        expected = network.float_weight(i)
        if (i, "weight") in changed:
            s = changed[i, "weight"]
            expected[:, s.channels] = s.values
            assert same(adapted.weights[i], expected) and adapted.scales[i] is None
        else:
            assert same(adapted.weights[i], network.weights[i]) and same(adapted.scales[i], network.scales[i])
        bias = changed[i, "bias"].values if (i, "bias") in changed else network.biases[i]
        assert same(adapted.biases[i], bias), layer.name


def test_another_backbone_is_refused_by_name(delta):
    with pytest.raises(
        InputError, match=r"backbone-mismatch: the delta belongs to toy \(.*not to other"
    ) as caught:
        apply(toy_network(seed=1, name="other"), delta)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("fact", "bad"),
    [
        ("layer 99 is changed", Slice(99, "bias", np.zeros(1, np.int32), np.zeros(1, np.float32))),
        (
            "all 8 channels of .* must be in",
            Slice(12, "bias", np.zeros(1, np.int32), np.zeros(1, np.float32)),
        ),
        ("up to channel 24 do not fit", Slice(6, "bias", np.array([24], np.int32), np.zeros(1, np.float32))),
        (
            "weight values .* do not fit",
            Slice(6, "weight", np.zeros(1, np.int32), np.zeros((9, 1), np.float32)),
        ),
    ],
)
def test_values_that_do_not_fit_the_backbone_are_refused(network, delta, fact, bad):
    with pytest.raises(InputError, match=f"file-damaged: .*{fact}"):
        apply(network, replace(delta, slices=(bad,)))


def test_the_background_of_a_limit_is_one_of_the_classes_and_is_read_as_it_was_written(delta):
    def read(limit):
        tensors, metadata = decode(encode_delta(delta))
        head = json.loads(metadata["head"]) | {"limit": {"scale": 1.0, "least": 0.5} | limit}
        return decode_delta(tensors, metadata | {"head": json.dumps(head)})

    known = read({"background": 1})
    assert known.head.limit == Limit(1.0, 0.5, 1) and read({}).head.limit == Limit(1.0, 0.5)
    assert decode_delta(*decode(encode_delta(known))).head.limit == known.head.limit
    for wrong in (-1, len(delta.class_names), 0.5, True, None, "1"):
        with pytest.raises(InputError, match="file-damaged"):
            read({"background": wrong})


def test_a_head_of_another_width_is_refused(network, delta):
    narrow = replace(delta.head, weights=delta.head.weights[:, :5])
    with pytest.raises(InputError, match="file-damaged: the head takes 5 values"):
        apply(network, replace(delta, head=narrow))


def test_every_flipped_byte_is_refused(delta):
    """All bytes of the header, the checksum among them, and 500 of the values."""
    data, draw = bytearray(encode_delta(delta)), random.Random(0)
    start = 8 + int.from_bytes(data[:8], "little")
    for at in (*range(start), *(draw.randrange(start, len(data)) for _ in range(500))):
        for bits in (0x20, 1 << draw.randrange(8)):  # 0x20 is lower and upper case
            data[at] ^= bits
            with pytest.raises(InputError):
                decode_delta(*decode(bytes(data)))
            data[at] ^= bits
    decode_delta(*decode(bytes(data)))


def test_a_flipped_value_is_called_what_it_is(delta, tmp_path):
    data = bytearray(encode_delta(delta))
    data[-1] ^= 1
    (tmp_path / "d.safetensors").write_bytes(data)
    with pytest.raises(
        InputError, match=r"file-damaged: .*d\.safetensors: .* copy the file again; .* leave out file_sha256"
    ) as caught:
        load_delta(tmp_path / "d.safetensors")
    assert caught.value.exit_code == 3


def test_a_delta_from_before_there_were_checksums_is_read(delta):
    old = without_checksum(encode_delta(delta))
    assert b"sha256" not in old and encode_delta(decode_delta(*decode(old))) == encode_delta(delta)


def damage_tensor(name, change):
    def damage(tensors, metadata):
        tensors[name] = change(tensors[name])

    return damage


def damage_json(key, **changes):
    def damage(tensors, metadata):
        metadata[key] = json.dumps({**json.loads(metadata[key]), **changes})

    return damage


def put(array, index, value):
    array[index] = value
    return array


# What messages say of the kinds of damage that several cases have.
METADATA, REPORT = "metadata must be exactly", "the report must be an object"
NAME, HEAD = "the backbone must be a sha256 digest", "the head must be .* its temperature above 0"
RISE = "6.weight: channels must rise"
DAMAGES = {
    "another kind": (lambda t, m: m.update(kind="tinytrain-network"), "^file-kind: .*is not a delta of ours"),
    "a later schema": (lambda t, m: m.update(schema="5"), "^file-kind: .*the version that wrote it"),
    "the schema of int8 without codes": (lambda t, m: m.update(schema="2"), METADATA),
    "codes in the schema of float32": (lambda t, m: m.update(codes="{}"), METADATA),
    "codes that are a list": (lambda t, m: m.update(schema="2", codes="[]"), "the codes must have exactly"),
    "codes without a scale": (
        lambda t, m: m.update(schema="2", codes='{"outputs":[[0.0,3]],"sums":[null]}'),
        "a code has no valid scale or zero",
    ),
    "an arithmetic in the schema of float32": (lambda t, m: m.update(arithmetic="noisy"), METADATA),
    "an arithmetic that is no name": (
        lambda t, m: m.update(schema="4", arithmetic="\x1b[31m"),
        "the arithmetic must be the name of a backend",
    ),
    "more metadata": (lambda t, m: m.update(note="hello"), METADATA),
    "less metadata": (lambda t, m: m.pop("classes"), METADATA),
    "a short digest": (lambda t, m: m.update(backbone="ab12"), NAME),
    "a name with control characters": (lambda t, m: m.update(backbone_name="\x1b[31m"), NAME),
    "a report that is a list": (lambda t, m: m.update(report="[]"), REPORT),
    "an infinite number in the report": (lambda t, m: m.update(report='{"x":[1e999]}'), REPORT),
    "NaN in the report": (lambda t, m: m.update(report='{"x":NaN}'), "report: NaN is not"),
    "an episode in the report that is a number": (damage_json("report", episode=5), "report: episode is 5"),
    "a kind of input that is a list": (
        damage_json("report", episode={"kind": []}),
        "report: episode.kind is",
    ),
    "forgotten classes that are no number": (
        damage_json("report", forgotten={"classes": "x"}),
        "report: forgotten.traces is",
    ),
    **{
        f"{key} {value} in the report": (damage_json("report", **{key: value}), f"report: {place} is")
        for key, value, place in (
            ("episode", {"classes": 1}, "episode.classes"),
            ("episode", {"classes": [[]], "shots": [1]}, r"episode.classes\[0\]"),
            ("episode", {"classes": ["a"], "shots": []}, "episode.classes"),
            ("guard", {"suspects": []}, "guard.reasons"),
            ("guard", {"suspects": [5], "reasons": []}, r"guard.suspects\[0\]"),
            ("extended", [{"a": "b"}], r"extended\[0\].a"),
            ("watched", 5, "watched"),
            ("watched", {"labels": {"a": 5}}, "watched.labels.a"),
            ("watched", {"right": [1]}, r"watched.right\[0\]"),
            ("warnings", "x", "warnings"),
        )
    },
    "text that is no JSON": (lambda t, m: m.update(head="{"), "head: not JSON"),
    "one class": (lambda t, m: m.update(classes='["a"]'), "classes must be a list of"),
    "a class twice": (lambda t, m: m.update(classes='["a","b","a"]'), "2 classes are called 'a'"),
    "a class without a name": (lambda t, m: m.update(classes='["a","b",""]'), "class name '' is not"),
    "classes that are numbers": (lambda t, m: m.update(classes="[1,2,3]"), "class name 1 is not"),
    "more classes than rows": (lambda t, m: m.update(classes='["a","b","c","d"]'), "head.weights is float32"),
    "an unknown head": (damage_json("head", kind="forest"), HEAD),
    "a head of no kind": (damage_json("head", kind=["lda"]), HEAD),
    "temperature 0": (damage_json("head", temperature=0), HEAD),
    "a temperature that is 0 in float32": (damage_json("head", temperature=1e-300), HEAD),
    "a temperature that is inexact in float32": (damage_json("head", temperature=1e-38), HEAD),
    "a temperature that is infinite in float32": (damage_json("head", temperature=2.0**128), HEAD),
    "a temperature in words": (damage_json("head", temperature="warm"), HEAD),
    "a left-out share above 1": (damage_json("head", left_out=1.5), HEAD),
    "no views": (damage_json("head", views=0), HEAD),
    "views that are no count": (damage_json("head", views=True), HEAD),
    "one more fact": (damage_json("head", colour="red"), "the head must have exactly"),
    "no sums": (lambda t, m: t.pop("head.sums"), "tensor head.sums is missing"),
    "no products": (lambda t, m: t.pop("head.products"), "tensor head.products is missing"),
    "channels without values": (
        lambda t, m: t.pop("6.weight.values"),
        "6.weight must have channels and values",
    ),
    "an unknown tensor": (
        lambda t, m: t.update(extra=np.zeros(1, np.float32)),
        "tensor 'extra' is no part of",
    ),
    "a layer with a leading zero": (
        lambda t, m: t.update({"06.bias.values": t["6.bias.values"]}),
        "tensor '06.bias.values' is no part of",
    ),
    "NaN in a value": (
        damage_tensor("6.weight.values", lambda a: put(a, (0, 0), np.nan)),
        "^delta-not-finite: ",
    ),
    "infinity in a weight of the head": (
        damage_tensor("head.weights", lambda a: put(a, (0, 0), np.inf)),
        "^delta-not-finite: ",
    ),
    "sums in a row": (damage_tensor("head.sums", lambda a: a.reshape(-1)), "head.sums is int32"),
    "sums of more than there are": (
        damage_tensor("head.sums", lambda a: put(a, (0, 0), 2**31 - 1)),
        "head.sums and head.products must be those",
    ),
    "counts as floats": (
        damage_tensor("head.counts", lambda a: a.astype(np.float32)),
        "head.counts is float32",
    ),
    "a class of nothing": (
        damage_tensor("head.counts", lambda a: put(a, 0, 0)),
        "class counts must be at least 1",
    ),
    "a product too few": (damage_tensor("head.products", lambda a: a[:-1]), "head.products is int32"),
    "products as floats": (
        damage_tensor("head.products", lambda a: a.astype(np.float32)),
        "head.sums is int32 .* must be int64",
    ),
    "products that are no squares": (
        damage_tensor("head.products", lambda a: put(a, 2, -1)),
        "the diagonal of head.products",
    ),
    "falling channels": (damage_tensor("6.weight.channels", lambda a: a[::-1].copy()), RISE),
    "a channel twice": (damage_tensor("6.weight.channels", lambda a: put(a, 1, a[0])), RISE),
    "a negative channel": (damage_tensor("6.weight.channels", lambda a: put(a, 0, -1)), RISE),
    "no channel": (
        damage_tensor("6.weight.channels", lambda a: a[:0]),
        "6.weight: channels must be a row of int32",
    ),
    "fewer values than channels": (
        damage_tensor("6.weight.values", lambda a: a[:, :2].copy()),
        "6.weight: 2 values for 3 channels",
    ),
    "values in a row": (
        damage_tensor("6.weight.values", lambda a: a.reshape(-1)),
        "6.weight: values must be",
    ),
    "values as integers": (
        damage_tensor("6.bias.values", lambda a: a.astype(np.int32)),
        "6.bias: values must be",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_malformed_content_is_refused_for_what_is_wrong(delta, name):
    damage, fact = DAMAGES[name]
    tensors, metadata = parts(delta)
    damage(tensors, metadata)
    code = "" if fact.startswith("^") else "^file-damaged: file: "
    with pytest.raises(InputError, match=code + fact):
        decode_delta(*decode(encode(tensors, metadata)))


def test_a_network_file_is_no_delta(network, tmp_path):
    save_network(network, tmp_path / "net.safetensors")
    with pytest.raises(InputError, match="file-kind"):
        load_delta(tmp_path / "net.safetensors")


def test_nan_is_not_written(delta, tmp_path):
    bad = replace(delta, head=replace(delta.head, offsets=np.full_like(delta.head.offsets, np.nan)))
    for broken in (bad, replace(delta, report={"x": float("nan")})):
        with pytest.raises(InputError, match="delta-not-finite"):
            save_delta(tmp_path / "x.safetensors", broken)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_a_storage_error(delta, tmp_path):
    with pytest.raises(StorageError, match="create the folder first"):
        save_delta(tmp_path / "missing" / "x.safetensors", delta)
