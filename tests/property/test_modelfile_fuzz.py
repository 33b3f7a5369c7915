"""Thousands of broken files: model files and pickles may be refused with an InputError, and nothing else.

TINYTRAIN_FUZZ sets the number of mutants of each kind (default 5,000); every mutant follows from its number.
"""

import io
import json
import os
import pickle
import random
import re
import struct
import time
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from tinytrain.errors import InputError
from tinytrain.importer import convert, read_archive
from tinytrain.modelfile import decode, decode_network, encode, encode_network
from tinytrain.network import Layer, Network, Preprocessing
from tinytrain.picklereader import read_pickle

MUTANTS = int(os.environ.get("TINYTRAIN_FUZZ", "5000"))
SECONDS = 0.5  # of processor time for one mutant; they take about 50 us

EVIL_NUMBERS = [-1, 0, 1, 3, 7, 4096, 1.5, 2**31, 2**32 - 1, 2**63, 2**64, 10**400]
EVIL_WORDS = ["F32", "I8", "U8", "F64", "BOOL", "dtype", "shape", "__metadata__", "\ud800", "\0", ""]
EVIL_TOKENS = [
    *(json.dumps(value) for value in [*EVIL_NUMBERS, *EVIL_WORDS, True, False, None, [], {}, [1, 2]]),
    *["-0", "1e3", "1e999", "NaN", "Infinity", "-Infinity"],
    *["[" * 2000, "{", "}", "]", ",", ":", '"', "\\", " ", "\t", "\x00", "\ufeff", "\u2028"],
]
EVIL_BYTES = [
    *(bytes([code]) for code in b"\x00\xff\x7f()]}.RbQtuseaN\x85\x86\x87\x94\x93"),
    *(b"h\x00", b"h\x01", b"q\x00", b"K\x00", b"J\xff\xff\xff\xff", b"X\xff\xff\xff\xff", b"\x8c\x01O"),
    *(b"cos\nsystem\n", b"cnumpy\ndtype\n", b"c_codecs\nencode\n", b"cnumpy\nndarray\n"),
    *(b"cnumpy.core.multiarray\n_reconstruct\n", b"ccollections\nOrderedDict\n"),
    *(b"ctorch\nCharStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n"),
    *(b"\x8a\x09" + b"\xff" * 8 + b"\x00", b"PK\x01\x02", b"PK\x05\x06"),
]


def make_network() -> Network:
    layers = (
        Layer("stem", "conv", 3, 2, 3, 2, (4, 4), (2, 2), relu6=True, block=0),
        Layer("block0.project", "pointwise", 2, 2, 1, 1, (2, 2), (2, 2), relu6=False, block=1, residual=True),
    )
    weights = tuple(np.ones((layer.fan_in, layer.cout), np.int8) for layer in layers)
    scales, biases = (tuple(np.full(layer.cout, 0.5, np.float32) for layer in layers) for _ in range(2))
    return Network("toy", layers, weights, scales, biases, Preprocessing(size=4))


def make_checkpoint() -> dict:
    def convolution(cin, cout, kernel, stride, groups, side):
        params = {
            "weight": np.ones((cout, cin // groups, kernel, kernel), np.int8),
            "bias": np.ones(cout, np.int32),
            "w_scales": np.ones(cout, np.float32),
            "x_scale": 0.5,
        }
        return {
            "in_channel": cin, "out_channel": cout, "kernel_size": (kernel, kernel), "stride": stride,
            "groups": groups, "in_shape": side, "out_shape": side // stride, "act": None, "params": params,
        }  # fmt: skip

    block = {"pointwise1": None, "depthwise": convolution(2, 2, 3, 1, 2, 2), "residual": None, "se": None}
    block["pointwise2"] = convolution(2, 2, 1, 1, 1, 2)
    return {"first_conv": convolution(3, 2, 3, 2, 1, 4), "blocks": [block], "feature_mix": None}


def archive(pickled: bytes) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        file.writestr(zipfile.ZipInfo("archive/data.pkl"), pickled)
    return memory.getvalue()


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of bytes: flipped, set, cut, doubled, inserted, exchanged with `other`, or cut off."""
    at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 4, 8, 50])
    head, middle, tail = data[:at], data[at : at + length], data[at + length :]
    change = rng.randrange(7)
    if change == 0:
        return head + bytes(byte ^ (1 << rng.randrange(8)) for byte in middle[:1]) + middle[1:] + tail
    if change == 1:
        return head + rng.randbytes(len(middle)) + tail
    if change == 2:
        return head + tail
    if change == 3:
        return head + middle * rng.choice([2, 3, 30]) + tail
    if change == 4:
        return head + rng.choice(EVIL_BYTES) + (middle if rng.random() < 0.5 else b"") + tail
    if change == 5:
        start = rng.randrange(len(other) + 1)
        return head + other[start : start + rng.choice([1, 8, 100])] + tail
    return head


def mutate_tokens(rng: random.Random, text: str) -> str:
    """`text` (JSON) with one token replaced, dropped, doubled or exchanged with another."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|-?[0-9.]+|[a-z]+|.', text, re.S)
    at = rng.randrange(len(tokens))
    change = rng.randrange(5)
    if change == 0:
        tokens[at] = rng.choice(EVIL_TOKENS)
    elif change == 1:
        del tokens[at]
    elif change == 2:
        tokens.insert(at, tokens[at])
    elif change == 3:
        tokens[at] = rng.choice(tokens)
    elif tokens[at].isdigit():
        tokens[at] = str(max(0, int(tokens[at]) + rng.choice([-4, -1, 1, 4, 8])))
    return "".join(tokens)


def mutate_file(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A model file with its header length, header text, payload or any bytes changed."""
    length = int.from_bytes(data[:8], "little")
    text, payload = data[8 : 8 + length], data[8 + length :]
    change = rng.randrange(6)
    if change == 0:
        claimed = rng.choice(
            [0, 1, length - 1, length + 1, length + 8, len(data), 10**6, 2**31, 2**63, 2**64 - 1]
        )
        return struct.pack("<Q", max(claimed, 0)) + data[8:]
    if change == 1:
        return mutate_bytes(rng, data, other)
    if change == 2:
        payload = mutate_bytes(rng, payload or b"\0", other)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        text = mutate_tokens(rng, text.decode() or " ").encode() if change >= 3 else text
    return struct.pack("<Q", len(text)) + text + payload


def mutate_topology(rng: random.Random, data: bytes) -> bytes:
    """A well-formed file whose metadata, or the topology inside it, makes no sense."""
    tensors, metadata = decode(data)
    key = rng.choice(["topology"] * 8 + list(metadata))
    metadata[key] = mutate_tokens(rng, metadata[key] or " ")
    if rng.random() < 0.2:
        tensors = {name: array for name, array in tensors.items() if rng.random() < 0.8}
    return encode(tensors, metadata)


def survives(call, *arguments):
    """What `call` returns, or None for an InputError; any other exception, or a slow one, fails the test."""
    start = time.process_time()
    try:
        return call(*arguments)
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
        return None
    finally:
        assert time.process_time() - start < SECONDS


FILES = [
    encode_network(make_network()),
    encode(
        {"a": np.zeros((2, 3), np.float32), "b": np.zeros(5, np.int8), "é": np.zeros((), np.int32)},
        {"k": "v"},
    ),
    encode({"empty": np.zeros((0, 3), np.uint8), "x": np.zeros(1, np.uint8)}, {}),
    encode({}, {}),
]


def test_the_sound_files_are_accepted():
    assert decode_network(*decode(FILES[0])).digest == make_network().digest
    for protocol in (2, 4):
        pickled = pickle.dumps(make_checkpoint(), protocol)
        assert convert(read_archive(archive(pickled)), "toy", "file").n_weights == 76


@pytest.mark.parametrize("kind", range(len(FILES)))
def test_a_broken_model_file_is_refused_or_equal_to_what_the_library_reads(kind):
    accepted = 0
    for seed in range(MUTANTS // len(FILES)):
        rng = random.Random(f"{kind}-{seed}")
        data = mutate_file(rng, FILES[kind], rng.choice(FILES))
        decoded = survives(decode, data)
        if decoded is None:
            continue
        accepted += 1
        survives(decode_network, *decoded)
        theirs = safetensors.numpy.load(data)  # whatever we accept, the library accepts
        assert decoded[0].keys() == theirs.keys()
        for name, array in decoded[0].items():
            assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
            assert array.tobytes() == theirs[name].tobytes()
    assert accepted >= MUTANTS // 1000, "the mutants are too wild to test anything"


def test_a_broken_topology_is_refused_or_its_digest_says_no():
    digest = make_network().digest
    for seed in range(MUTANTS):
        rng = random.Random(f"topology-{seed}")
        network = survives(lambda rng=rng: decode_network(*decode(mutate_topology(rng, FILES[0]))))
        assert network is None or network.digest == digest


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_broken_pickle_is_refused_or_still_a_network(protocol):
    data, other = (pickle.dumps(make_checkpoint(), version) for version in (protocol, 6 - protocol))
    for seed in range(MUTANTS // 2):
        rng = random.Random(f"pickle-{protocol}-{seed}")
        mutant = data
        for _ in range(rng.choice([1, 1, 2, 4])):
            mutant = mutate_bytes(rng, mutant, other) or b"."
        loaded = survives(lambda mutant=mutant: (read_pickle(mutant),))
        if loaded is not None:
            survives(convert, loaded[0], "toy", "file")


def test_a_broken_zip_file_is_refused_or_still_a_network():
    data = archive(pickle.dumps(make_checkpoint(), 2))
    start = data.rindex(b"PK\x01\x02")
    for seed in range(MUTANTS):
        rng = random.Random(f"zip-{seed}")
        # Half of the changes hit the directory at the end, which is small beside the pickle.
        if rng.random() < 0.5:
            mutant = data[:start] + mutate_bytes(rng, data[start:], data)
        else:
            mutant = mutate_bytes(rng, data, data)
        loaded = survives(lambda mutant=mutant: (read_archive(mutant),))
        if loaded is not None:
            survives(convert, loaded[0], "toy", "file")


def test_mutation_reaches_json_tokens():
    text = json.dumps({"a": [1, -2.5, None, 'x\\"']})
    mutants = {mutate_tokens(random.Random(seed), text) for seed in range(200)}
    assert len(mutants) > 50
