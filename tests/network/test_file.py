"""Networks in files: what is written comes back bit for bit; a broken one is refused by its own name."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
from cases import each
from published import published_file
from toynets import UNBOUNDED, toy

from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError, StorageError
from tinytrain.network.file import decode, decode_network, encode, encode_network, load_network, save_network
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node
from tinytrain.network.quantisation import Codes, Quantisation
from tinytrain.network.validation import check_network


def make_network(name="toy", floats=False) -> Network:
    rng = np.random.default_rng(0)
    layers = (
        Node("stem", "conv", 3, 4, 3, 2, (8, 8), (4, 4), "relu6", 0),
        Node("block0.project", "pointwise", 4, 4, 1, 1, (4, 4), (4, 4), None, 1, ("stem", "stem")),
    )
    weights = [rng.integers(-127, 128, (layer.fan_in, layer.cout), dtype=np.int8) for layer in layers]
    scales = [rng.uniform(0.01, 0.02, layer.cout).astype(np.float32) for layer in layers]
    biases = [rng.normal(size=layer.cout).astype(np.float32) for layer in layers]
    if floats:
        weights, scales = [w * s for w, s in zip(weights, scales, strict=True)], [None, None]
    return Network(name, layers, tuple(weights), tuple(scales), tuple(biases), InputSpec((8, 8, 3)))


def test_every_truncation_of_a_file_is_refused():
    data = encode_network(make_network())
    for length in range(len(data)):
        with pytest.raises(InputError):
            decode(data[:length])


@pytest.mark.parametrize("floats", [False, True])
def test_a_network_survives_the_file(tmp_path, floats):
    network = make_network(floats=floats)
    save_network(network, tmp_path / "a.safetensors")
    again = load_network(tmp_path / "a.safetensors")
    assert (again.name, again.nodes, again.input) == ("toy", network.nodes, network.input)
    assert again.digest == network.digest
    for part in ("weights", "scales", "biases"):
        for ours, theirs in zip(getattr(network, part), getattr(again, part), strict=True):
            assert (ours is None and theirs is None) or (
                ours.dtype == theirs.dtype and (ours == theirs).all()
            )
    save_network(again, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_name_is_written_without_what_steers_a_terminal():
    data = encode_network(make_network(name="a\x1b[2J\n\u202eb" + "x" * 200))
    assert decode_network(*decode(data)).name == "a[2Jb" + "x" * 95


def test_weights_stay_int8_on_disk():
    tensors = safetensors.numpy.load(encode_network(make_network()))
    assert {name: str(array.dtype) for name, array in tensors.items()} == {
        "stem.weight": "int8",
        "stem.scale": "float32",
        "stem.bias": "float32",
        "block0.project.weight": "int8",
        "block0.project.scale": "float32",
        "block0.project.bias": "float32",
    }


def test_a_flipped_byte_that_no_digest_covers_is_refused():
    data = encode_network(make_network(name="toy"))
    with pytest.raises(InputError, match="file-damaged"):
        decode(data.replace(b'"name":"toy"', b'"name":"tox"'))


def edited(change, network=None) -> bytes:
    """The file of a network (the toy) after `change(tensors, metadata, topology)`."""
    tensors, metadata = decode(encode_network(network or make_network()))
    tensors = {name: array.copy() for name, array in tensors.items()}
    before = metadata["topology"]
    topology = json.loads(before)
    change(tensors, metadata, topology)
    if json.dumps(topology) != json.dumps(json.loads(before)):  # 8.0 is not 8
        metadata["topology"] = json.dumps(topology)
    return encode(tensors, metadata)


def put(name: str, value):
    def change(tensors, metadata, topology):
        tensors[name].flat[0] = value

    return change


def text(key: str, value: str):
    return lambda tensors, metadata, topology: metadata.update({key: value})


def field(name: str, value, layer=1):
    return lambda tensors, metadata, topology: topology["layers"][layer].update({name: value})


SPECS = (InputSpec((8, 8, 3), mean=(1.0, 2.0, 3.0)), InputSpec((8, 8, 3), scale=(0.5, 0.5, 0.25)))
ROTATED = (replace(SPECS[0], rotated=True), InputSpec((8, 8, 3), rotated=True))
SOUND = InputSpec((8, 8, 3), "float32", kind="sound", parameters={"window": "hann", "rate": 8000, "low": 1.5})


def test_an_input_that_old_versions_do_not_know_is_a_file_that_they_refuse():
    """Old versions refuse a schema that is not theirs; what they know is written as they wrote it."""
    plain, (_, old) = make_network(), decode(encode_network(make_network()))
    assert old["schema"] == "1"
    row = '"preprocessing":{"size":8,"mean":127.5,"scale":0.00784313725490196,"resize":'
    assert old["topology"].endswith(row + '"short-side-bilinear-centre-crop"}}')
    for spec in SPECS + ROTATED:
        network = replace(plain, input=spec)
        data, upright = encode_network(network), replace(plain, input=replace(spec, rotated=False))
        assert decode(data)[1]["schema"] == ("3" if spec.rotated else "2") and network.digest != plain.digest
        assert (b"rotated" in data) == spec.rotated == (network.digest != upright.digest)
        again = decode_network(*decode(data))
        assert (again.input, again.digest) == (spec, network.digest)
        assert encode_network(again) == data


def test_a_network_says_of_another_kind_of_input_what_it_is_read_with_and_its_digest_has_all_of_it():
    network = replace(make_network(), input=SOUND)
    data = encode_network(network)
    again = decode_network(*decode(data))
    assert decode(data)[1]["schema"] == "3" and (again.input, again.digest) == (SOUND, network.digest)
    assert encode_network(again) == data
    others = (
        replace(SOUND, kind="motion"),
        replace(SOUND, dtype="uint8"),
        replace(SOUND, parameters=(*SOUND.parameters[:2], ("window", "hamming"))),
        replace(SOUND, parameters=SOUND.parameters[1:]),
        InputSpec((8, 8, 3)),
    )
    assert len({replace(network, input=spec).digest for spec in (SOUND, *others)}) == 6


# What messages say of each kind of damage.
NUMBER = "is not a whole number|is out of range"
TOPOLOGY = "must have exactly|layers must be a list"
PREPROCESSING = "lists for numbers|images are|mean and scale must|rotated must be|the only known"
FIELD = "must be true or false|activation must be null|must be a whole number|must be two whole numbers"
RESIDUAL = "a residual layer is|cannot add|the last layer of a block"
WRONG_CODES = (
    "the codes must have exactly|must be a list of scales|need 2 codes|codes of a sum are"
    "|a code needs a scale|the zero must be|the largest code"
)
METADATA = "metadata must be exactly"


def refused(data: bytes, fact: str) -> None:
    """The network in `data` is refused in one line, for that."""
    with pytest.raises(InputError, match=fact) as caught:
        decode_network(*decode(data), "net.safetensors")
    assert "\n" not in str(caught.value)


SECOND = [
    ("use the version that wrote it", text("schema", "1.0")),
    (TOPOLOGY, text("schema", "1")),
    (TOPOLOGY, lambda t, m, topology: topology["preprocessing"].pop("dtype")),
    *(
        (PREPROCESSING, lambda t, m, topology, change=change: topology["preprocessing"].update(change))
        for change in (
            {"shape": [8, 8]}, {"shape": [8, 9, 3]}, {"shape": [8, 8, [3]]}, {"shape": 8}, {"shape": {}},
            {"shape": [8, 8.0, 3]}, {"mean": 5.0}, {"mean": [1.0, 2.0]}, {"mean": [1.0, 2.0, 3]},
            {"mean": [1.0, 2.0, "3"]}, {"scale": []}, {"scale": [1.0, 0.0, 1.0]}, {"scale": ["a", 1.0, 1.0]},
            {"dtype": "float32"}, {"dtype": 5}, {"resize": []}, {"resize": "none"},
        )
    ),
    ("stored with it", lambda t, m, topology: topology["preprocessing"].update(mean=[1.0, 2.0, 4.0])),
]  # fmt: skip


THIRD = [
    (TOPOLOGY, text("schema", "1")),
    (TOPOLOGY, text("schema", "2")),
    *(
        (PREPROCESSING, lambda t, m, topology, value=value: topology["preprocessing"].update(rotated=value))
        for value in (1, 0.0, "true", [], None)
    ),
    ("stored with it", lambda t, m, topology: topology["preprocessing"].update(rotated=False)),
    ("stored with it", lambda t, m, topology: topology["preprocessing"].pop("rotated")),
    (TOPOLOGY, lambda t, m, topology: topology["preprocessing"].update(turned=True)),
    (TOPOLOGY, lambda t, m, topology: topology["preprocessing"].pop("mean")),
    (TOPOLOGY, lambda t, m, topology: topology.update(preprocessing=[])),
]


KIND = [
    ("kind must be", {"kind": "a kind"}), ("kind must be", {"kind": 5}), (PREPROCESSING, {"kind": [1]}),
    (PREPROCESSING, {"kind": "image"}), (PREPROCESSING, {"dtype": "int8"}), (PREPROCESSING, {"dtype": None}),
    ("by their names", {"parameters": []}), ("by their names", {"parameters": 5}),
    ("plain name", {"parameters": {"rate": [1]}}), ("plain name", {"parameters": {"rate": None}}),
    ("plain name", {"parameters": {"": 1}}), ("plain name", {"parameters": {"rate": {"a": 1}}}),
    ("stored with it", {"parameters": {"rate": 9000}}), ("stored with it", {"kind": "motion"}),
]  # fmt: skip


@each(("fact", "wrong"), KIND)
def test_each_broken_kind_of_input_is_refused_for_what_is_wrong(fact, wrong):
    change = lambda t, m, topology: topology["preprocessing"].update(wrong)  # noqa: E731
    refused(edited(change, replace(make_network(), input=SOUND)), fact)


@each("spec", ROTATED)
@each(("fact", "change"), THIRD)
def test_each_broken_optional_field_is_refused_for_what_is_wrong(fact, change, spec):
    refused(edited(change, replace(make_network(), input=spec)), fact)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_layers_that_old_versions_do_not_know_are_a_file_that_they_refuse(name):
    network = toy(name)
    data = encode_network(network)
    again = decode_network(*decode(data))
    assert decode(data)[1]["schema"] == "3" and encode_network(again) == data
    assert (again.nodes, again.digest) == (network.nodes, network.digest)


def test_a_dense_convolution_behind_the_first_needs_the_third_schema_and_no_optional_field():
    rows = (("conv", 4, 3, 2, True, 0, False), ("conv", 5, 3, 1, True, 1, False))
    data = encode_network(toy(rows))
    tensors, metadata = decode(data)
    assert metadata["schema"] == "3" and "activation" not in metadata["topology"]
    assert encode_network(decode_network(tensors, metadata)) == data


OPTIONAL_OF_LAYERS = [
    (FIELD, field("activation", "swish")),
    (FIELD, field("activation", 1)),
    (FIELD, field("activation", ["relu"])),
    (FIELD, field("activation", "relu6")),
    (FIELD, field("shortcut", 1)),
    (FIELD, field("max_pool", "yes")),
    (RESIDUAL, field("activation", "hard-swish")),
    (TOPOLOGY, field("gate", True)),
    (TOPOLOGY, lambda t, m, topology: topology["layers"][1].pop("residual")),
    ("stored with it", field("activation", "relu")),
]


@each(("fact", "change"), OPTIONAL_OF_LAYERS)
def test_each_broken_optional_field_of_a_layer_is_refused_for_what_is_wrong(fact, change):
    refused(edited(change, replace(make_network(), input=ROTATED[0])), fact)


@each(("fact", "change"), SECOND)
def test_each_broken_input_is_refused_for_what_is_wrong(fact, change):
    refused(edited(change, replace(make_network(), input=SPECS[0])), fact)


@each(
    ("fact", "change"),
    [
        ("^file-kind: .* is not a network of ours", lambda t, m, topology: m.clear()),
        ("^file-kind: .* is not a network of ours", text("kind", "other")),
        ("use the version that wrote it", text("schema", "6")),
        (TOPOLOGY, text("schema", "2")),
        (TOPOLOGY, lambda t, m, topology: topology["preprocessing"].update(shape=[8, 8, 3])),
        (PREPROCESSING, lambda t, m, topology: topology["preprocessing"].update(mean=[127.5] * 3)),
        (METADATA, lambda t, m, topology: m.pop("digest")),
        (METADATA, lambda t, m, topology: m.pop("topology")),
        (METADATA, text("extra", "1")),
        (METADATA, text("name", "x" * 101)),
        (METADATA, text("name", "a\x1b[2J")),
        ("stored with it", text("digest", "0" * 64)),
        ("stored with it", put("stem.weight", 1)),
        ("stored with it", put("stem.bias", 1)),
        ("stored with it", put("block0.project.scale", 1)),
        ("stored with it", lambda t, m, topology: topology["layers"][0].update(relu6=False)),
        (RESIDUAL, field("relu6", True)),
        ("^network-not-finite: .*NaN or infinite", put("stem.bias", np.nan)),
        ("^network-not-finite: .*NaN or infinite", put("block0.project.scale", np.inf)),
        ("a weight scale is", put("stem.scale", -1)),
        ("1 tensors are missing, first stem.bias", lambda t, m, topology: t.pop("stem.bias")),
        ("1 tensors belong to no layer", lambda t, m, topology: t.update(other=np.zeros(1, np.int8))),
        ("stem: bias is", lambda t, m, topology: t.update({"stem.bias": np.zeros(5, np.float32)})),
        ("stem: weight is int8", lambda t, m, topology: t.pop("stem.scale")),
        ("not JSON", lambda t, m, topology: m.update(topology="")),
        (NUMBER, lambda t, m, topology: m.update(topology="[NaN]")),
        (NUMBER, lambda t, m, topology: m.update(topology=f"[{'9' * 5000}]")),
        ("nested too deeply", lambda t, m, topology: m.update(topology="[" * 10_000)),
        ("a key occurs twice", lambda t, m, topology: m.update(topology='{"a":1,"a":2}')),
        (TOPOLOGY, lambda t, m, topology: m.update(topology="5")),
        (TOPOLOGY, lambda t, m, topology: topology.update(more=1)),
        (TOPOLOGY, lambda t, m, topology: topology.update(layers={})),
        (TOPOLOGY, lambda t, m, topology: topology["layers"][0].pop("block")),
        (TOPOLOGY, lambda t, m, topology: topology["layers"].append(None)),
        (TOPOLOGY, lambda t, m, topology: topology.update(preprocessing=[])),
        ("a network has 1 to", lambda t, m, topology: topology.update(layers=[])),
        ("a layer name must be", field("name", "../escape")),
        ("a layer name must be", field("name", ["stem"])),
        ("^unsupported: .*is not supported", field("kind", {"a": 1})),
        (FIELD, field("cout", 10**17)),
        (FIELD, field("in_hw", [4, [4]])),
        (FIELD, field("in_hw", 4)),
        ("takes 8 x .* gives 4 x", field("cin", 8)),
        ("output .* must be", field("out_hw", [3, 3])),
        (RESIDUAL, field("cout", 8)),
        (PREPROCESSING, lambda t, m, topology: topology["preprocessing"].update(size=16)),
        (PREPROCESSING, lambda t, m, topology: m.update(topology=m["topology"].replace("127.5", "1e999"))),
        (PREPROCESSING, lambda t, m, topology: topology["preprocessing"].update(scale="x")),
        (PREPROCESSING, lambda t, m, topology: topology["preprocessing"].update(resize={})),
    ],
)
def test_each_broken_network_is_refused_for_what_is_wrong(fact, change):
    refused(edited(change), fact)


CODES = Quantisation((Codes(6 / 255, -128), Codes(0.1 / 3, 5)), (None, Codes(1e-3, -128)))


@each("spec", [InputSpec((8, 8, 3)), *SPECS, *ROTATED])
def test_codes_come_back_exactly_and_are_no_part_of_the_digest(spec):
    plain = replace(make_network(), input=spec)
    network = replace(plain, quantisation=CODES)
    data = encode_network(network)
    assert network.digest == plain.digest and decode(data)[1]["schema"] == "4"
    again = decode_network(*decode(data))
    assert (again.quantisation, again.digest, again.input) == (CODES, plain.digest, spec)
    assert encode_network(again) == data
    assert encode_network(replace(again, quantisation=None)) == encode_network(plain)
    assert b"codes" not in encode_network(plain)


def codes(**changes):
    """The codes with `outputs` or `sums` instead of theirs."""
    rows = {"outputs": [[6 / 255, -128], [0.1 / 3, 5]], "sums": [None, [1e-3, -128]]}
    return text("codes", json.dumps(rows | changes))


GOOD = [0.1, 0]


@each(
    ("fact", "change"),
    [
        (METADATA, lambda t, metadata, topology: metadata.pop("codes")),
        *((METADATA, text("schema", old)) for old in "123"),
        ("not JSON", text("codes", "")),
        (NUMBER, text("codes", '{"outputs":[[NaN,0],[1.0,0]],"sums":[null,[1.0,0]]}')),
        ("a key occurs twice", text("codes", '{"sums":[],"sums":[]}')),
        *((WRONG_CODES, text("codes", rows)) for rows in ("[]", "{}", "5", "null", '{"outputs":[]}')),
        (WRONG_CODES, codes(more=[])),
        *((WRONG_CODES, codes(outputs=rows)) for rows in ([], [GOOD], [GOOD, GOOD, GOOD], None, 5, "ab")),
        *(
            (WRONG_CODES, codes(outputs=[[6 / 255, -128], pair]))
            for pair in (
                None, [], [0.1], [0.1, 0, 0], [0.0, 0], [-0.1, 0], [1e-300, 0], [1e300, 0], [1, 0],
                [0.1, 0.0], [0.1, 128], [0.1, -129], [0.1, True], [True, 0], ["0.1", 0], [[0.1], 0],
                [0.1, None], {"scale": 0.1, "zero": 0}, [10**13, 0],
            )
        ),
        (WRONG_CODES, text("codes", '{"outputs":[[1e999,-128],[1.0,0]],"sums":[null,[1.0,0]]}')),
        (WRONG_CODES, codes(outputs=[[6 / 255, -127], GOOD])),
        (WRONG_CODES, codes(outputs=[[6.1 / 255, -128], GOOD])),
        (WRONG_CODES, codes(sums=[None, None])),
        (WRONG_CODES, codes(sums=[GOOD, GOOD])),
        (WRONG_CODES, codes(sums=[None, [0.1, 200]])),
        (WRONG_CODES, codes(sums=[None])),
    ],
)  # fmt: skip
def test_broken_codes_are_refused_for_what_is_wrong(fact, change):
    refused(edited(change, replace(make_network(), quantisation=CODES)), fact)


def test_a_network_that_int8_programs_cannot_run_has_no_codes():
    for name in UNBOUNDED:
        network = toy(name)
        some = tuple(Codes(0.1, -128) for _ in network.layers)
        sums = tuple(Codes(0.1, 0) if layer.adds else None for layer in network.layers)
        with pytest.raises(InputError, match="file-damaged"):
            check_network(replace(network, quantisation=Quantisation(some, sums)))


def test_a_broken_network_is_not_written(tmp_path):
    network = make_network()
    broken = Network("x", network.layers, network.weights, network.scales, (network.biases[0] * np.nan,) * 2)
    with pytest.raises(InputError):
        save_network(broken, tmp_path / "a.safetensors")
    with pytest.raises(StorageError):
        save_network(network, tmp_path / "missing" / "a.safetensors")
    assert os.listdir(tmp_path) == []


def test_load_backbone_says_what_it_supports(tmp_path):
    save_network(make_network(), tmp_path / "a.SAFETENSORS")
    assert load_backbone(tmp_path / "a.SAFETENSORS").name == "toy"
    (tmp_path / "a.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"is an ONNX model; import it first") as caught:
        load_backbone(tmp_path / "a.onnx")
    assert caught.value.code == "file-kind"
    with pytest.raises(InputError) as caught:
        load_backbone(tmp_path / "missing.pkl")
    assert caught.value.code == "file-missing"


@pytest.mark.parametrize("name", ["mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3"])
def test_published_networks_survive_the_file_and_load_in_the_library(tmp_path, name):
    network = load_backbone(published_file(name))
    path = tmp_path / f"{name}.safetensors"
    save_network(network, path)
    assert load_backbone(path).digest == network.digest
    tensors = safetensors.numpy.load_file(path)
    assert sum(array.size for key, array in tensors.items() if key.endswith(".weight")) == network.n_weights
    assert path.stat().st_size < 1.25 * network.n_weights + 8 * sum(x.cout for x in network.layers)
