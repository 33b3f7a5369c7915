"""Thousands of broken files: they may be refused with an InputError, and nothing else may happen.

No other exception, nothing slow, no memory beyond the file and 8 MB, no file opened, nothing imported or run.
Checkpoints are read in a process of its own, of which only the answer is looked at. TINYTRAIN_FUZZ sets the
number of mutants of each kind (default 5,000; of checkpoints a tenth, as each takes a process); every mutant
follows from its number.
"""

import json
import os
import pickle
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from cases import each, quick
from mutants import mutate_bytes, mutate_content, mutate_file, mutate_tokens, without_checksum
from osview import settled, status
from toycheckpoint import archive, legacy_file, lite_state

from tinytrain.backbones import efficientnet_lite
from tinytrain.backbones.pickled import read_checkpoint
from tinytrain.backbones.torch_checkpoint import convert
from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta, Slice, apply
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.heads import lda
from tinytrain.network.file import decode, decode_network, encode, encode_network
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node
from tinytrain.network.quantisation import Codes, Quantisation, int8_obstacle, int8_ratios, int8_weights
from tinytrain.network.replay import Replay

MUTANTS = int(os.environ.get("TINYTRAIN_FUZZ", "3000"))
SECONDS = 0.05  # of processor time for one mutant; they take about 50 us
GROWTH = 8 * 2**20
HARMLESS = {"builtins.id"}  # json asks for it, to notice an object that contains itself


class Watch:
    """Notes what the interpreter is asked to do while `on`: files, imports, code, processes, sockets."""

    def __init__(self):
        self.on, self.seen = False, set()
        sys.addaudithook(self)

    def __call__(self, event, arguments):
        if self.on and event not in HARMLESS:
            self.seen.add(event)


WATCH = Watch()


@pytest.fixture(autouse=True)
def nothing_grows():
    """The high-water mark of resident memory over all mutants of a test; files are below 64 kB."""
    before = settled()
    yield
    assert status("VmHWM") - before <= 2**16 + GROWTH


def make_network(spec: InputSpec | None = None) -> Network:
    spec = spec or InputSpec((4, 4, 3))
    layers = (
        Node("stem", "conv", spec.shape[2], 2, 3, 2, (4, 4), (2, 2), "relu6", 0),
        Node("block0.project", "pointwise", 2, 2, 1, 1, (2, 2), (2, 2), None, 1, ("stem", "stem")),
    )
    weights = tuple(np.ones((layer.fan_in, layer.cout), np.int8) for layer in layers)
    scales, biases = (tuple(np.full(layer.cout, 0.5, np.float32) for layer in layers) for _ in range(2))
    return Network("toy", layers, weights, scales, biases, spec)


PER_CHANNEL = InputSpec((4, 4, 3), mean=(124.0, 116.5, 104.0), scale=(0.017, 0.018, 0.0175))
GREY = InputSpec((4, 4, 1), mean=96.0)
CODES = Quantisation((Codes(6 / 255, -128), Codes(0.25, 5)), (None, Codes(1.5, -128)))


def make_checkpoint() -> dict:
    def convolution(cin, cout, kernel, stride, groups, side):
        params = {
            "weight": np.ones((cout, cin // groups, kernel, kernel), np.int8),
            "bias": np.ones(cout, np.int32),
            "w_scales": np.ones(cout, np.float32),
            "x_scale": 0.02,
            "x_zero": -128,
            "y_scale": 0.02,
            "y_zero": -128,
        }
        return {
            "in_channel": cin, "out_channel": cout, "kernel_size": (kernel, kernel), "stride": stride,
            "groups": groups, "in_shape": side, "out_shape": side // stride, "act": None, "params": params,
        }  # fmt: skip

    block = {"pointwise1": None, "depthwise": convolution(2, 2, 3, 1, 2, 2), "residual": None, "se": None}
    block["pointwise2"] = convolution(2, 2, 1, 1, 1, 2)
    return {"first_conv": convolution(3, 2, 3, 2, 1, 4), "blocks": [block], "feature_mix": None}


def make_delta() -> Delta:
    """A delta of `make_network` with slices of both kinds, the larger kind of head, and a replay memory."""
    rows = np.arange(4, dtype=np.float32).reshape(2, 2)
    slices = (
        Slice(1, "weight", np.array([0, 1], np.int32), rows),
        Slice(1, "bias", np.array([1], np.int32), np.ones(1, np.float32)),
    )
    counts, sums = np.array([3, 4], np.int32), np.arange(4, dtype=np.int32).reshape(2, 2)
    head = lda.METHOD.head(
        lda.METHOD, rows, rows[0], counts, sums, np.array([3, -1, 5], np.int32),
        temperature=9.5, left_out=0.25, views=3,
    )  # fmt: skip
    report = {"policy": "test", "losses": [1.5, 0.5]}
    codes, ranges = np.arange(16, dtype=np.uint8).reshape(2, 2, 2, 2), np.ones((2, 2), np.float32)
    replay = Replay(1, codes, ranges, np.array([0, 1], np.int32))
    return Delta(make_network().digest, "toy", slices, head, ("ant", "bée"), report, replay=replay)


def make_int8_delta() -> Delta:
    """A delta of `make_network` that was trained in int8, with codes of its own and int8 weights."""
    plain = make_delta()
    weights = Slice(1, "weight", np.array([0, 1], np.int32), np.array([[3, -4], [127, -128]], np.int8))
    return replace(plain, slices=(weights, plain.slices[1]), replay=None, codes=CODES)


def survives(call, *arguments):
    """What `call` returns, or None for an InputError.

    Any other exception fails the test, and so does a slow call: a pause of the machine does not come thrice.
    """
    for _ in range(3):
        start, WATCH.on = time.process_time(), True
        try:
            result = call(*arguments)
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
            result = None
        finally:
            WATCH.on = False
        assert not WATCH.seen, "a file may be looked at, no more"
        if time.process_time() - start < SECONDS:
            return result
    raise AssertionError(f"more than {SECONDS} s of processor time")


def unpacked(data: bytes) -> tuple | None:
    """What the process that reads checkpoints makes of `data`, or None for an InputError."""
    try:
        return (read_checkpoint(data),)
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
        return None


NETWORKS = [*map(make_network, (None, PER_CHANNEL, GREY)), replace(make_network(), quantisation=CODES)]
WHOLE_FILES = [
    *map(encode_network, NETWORKS),
    encode(
        {"a": np.zeros((2, 3), np.float32), "b": np.zeros(5, np.int8), "é": np.zeros((), np.int32)},
        {"k": "v"},
    ),
    encode({"empty": np.zeros((0, 3), np.uint8), "x": np.zeros(1, np.uint8)}, {}),
    encode({}, {}),
    encode_delta(make_int8_delta()),
    encode_delta(make_delta()),
]
DELTAS = range(len(WHOLE_FILES) - 2, len(WHOLE_FILES))
FILES = [without_checksum(data) for data in WHOLE_FILES]


@pytest.mark.parametrize(
    "evil", [lambda: os.listdir("."), lambda: Path(os.devnull).read_bytes(), lambda: exec("1")]
)
def test_what_a_file_must_not_do_is_seen(evil):
    with pytest.raises(AssertionError, match="no more"):
        survives(evil)
    WATCH.seen.clear()


def test_the_sound_files_are_accepted():
    for data, network in zip(FILES, NETWORKS, strict=False):
        read = decode_network(*decode(data))
        assert (read.digest, read.quantisation) == (network.digest, network.quantisation)
    for kind in DELTAS:
        assert encode_delta(decode_delta(*decode(FILES[kind]))) == WHOLE_FILES[kind]
    for delta in (make_delta(), make_int8_delta()):
        assert apply(make_network(), delta).digest != make_network().digest
    for protocol in (2, 4):
        pickled = pickle.dumps(make_checkpoint(), protocol)
        assert convert(read_checkpoint(archive(pickled)), "toy", "file").n_weights == 76


def reads(data: bytes, read) -> object:
    """What our reader makes of `data`; whatever it accepts, the library accepts and reads the same."""
    decoded = survives(decode, data)
    if decoded is None:
        return None
    theirs = safetensors.numpy.load(data)
    assert decoded[0].keys() == theirs.keys()
    for name, array in decoded[0].items():
        assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
        assert array.tobytes() == theirs[name].tobytes()
    survives(read, *decoded)
    return decoded


@each("kind", range(len(FILES)))
def test_a_broken_file_is_refused_or_equal_to_what_the_library_reads(kind):
    accepted = 0
    for seed in range(MUTANTS // len(FILES)):
        rng = random.Random(f"{kind}-{seed}")
        data = mutate_file(rng, FILES[kind], rng.choice(FILES))
        accepted += reads(data, decode_delta if kind in DELTAS else decode_network) is not None
    print(f"\nfile {kind}: {accepted} of {MUTANTS // len(FILES)} accepted, by the library too")
    assert accepted >= MUTANTS // 1000, "the mutants are too wild to test anything"


def test_broken_codes_are_refused_or_such_as_int8_programs_can_use():
    kinds = set()
    for seed in range(MUTANTS):
        mutant = mutate_content(random.Random(f"codes-{seed}"), FILES[len(NETWORKS) - 1], "codes")
        network = survives(lambda mutant=mutant: decode_network(*decode(mutant)))
        if network is None:
            continue
        assert network.digest == NETWORKS[-1].digest and network.quantisation is not None
        codes = [*network.quantisation.outputs, network.quantisation.sums[1]]
        assert all(each.is_valid for each in codes) and codes[0].zero == -128
        kinds.add(network.quantisation)
        if int8_obstacle(network) is None:
            for layer in range(len(network.layers)):
                codes, scales, _ = int8_weights(network, layer)
                ratios = int8_ratios(network, layer, scales)
                assert codes.dtype == np.int8 and ratios.min() >= 2**-31 and ratios.max() <= 2**16
    assert len(kinds) > 2, "the mutants are too wild to test anything"


@pytest.mark.parametrize("kind", quick(range(3)))
def test_a_broken_topology_is_refused_or_its_digest_says_no(kind):
    digest = decode_network(*decode(FILES[kind])).digest
    for seed in range(MUTANTS // 2):
        mutant = mutate_content(random.Random(f"topology-{kind}-{seed}"), FILES[kind], "topology")
        network = survives(lambda mutant=mutant: decode_network(*decode(mutant)))
        assert network is None or network.digest == digest


@pytest.mark.parametrize("kind, favourite", quick([*zip(DELTAS, ("codes", "head"), strict=True)]))
def test_a_broken_delta_is_refused_or_finite_and_applied_only_where_it_fits(kind, favourite):
    network, applied = make_network(), 0
    for seed in range(MUTANTS):
        mutant = mutate_content(random.Random(f"delta-{seed}"), FILES[kind], favourite)
        delta = survives(lambda mutant=mutant: decode_delta(*decode(mutant)))
        if delta is None:
            continue
        assert delta.is_finite() and encode_delta(delta) and network.digest == make_network().digest
        adapted = survives(apply, network, delta)
        applied += adapted is not None
        if adapted is not None and delta.codes:
            assert int8_obstacle(adapted) is None and adapted.weights[1].dtype == np.int8
    assert applied >= MUTANTS // 1000


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_broken_pickle_is_refused_or_still_a_network(protocol):
    data, other = (pickle.dumps(make_checkpoint(), version) for version in (protocol, 6 - protocol))
    for seed in range(MUTANTS // 20):
        rng = random.Random(f"pickle-{protocol}-{seed}")
        mutant = data
        for _ in range(rng.choice([1, 1, 2, 4])):
            mutant = mutate_bytes(rng, mutant, other) or b"."
        loaded = unpacked(archive(mutant))
        if loaded is not None:
            survives(convert, loaded[0], "toy", "file")


def test_a_broken_zip_file_is_refused_or_still_a_network():
    data = archive(pickle.dumps(make_checkpoint(), 2))
    start = data.rindex(b"PK\x01\x02")
    for seed in range(MUTANTS // 10):
        rng = random.Random(f"zip-{seed}")
        # Half of the changes hit the directory at the end, which is small beside the pickle.
        if rng.random() < 0.5:
            mutant = data[:start] + mutate_bytes(rng, data[start:], data)
        else:
            mutant = mutate_bytes(rng, data, data)
        loaded = unpacked(mutant)
        if loaded is not None:
            survives(convert, loaded[0], "toy", "file")


@pytest.mark.slow
def test_a_broken_file_of_the_first_form_is_refused_or_still_a_network():
    data = legacy_file(lite_state(widths=(2, 3, 4, 5, 6, 7, 8), stem=2, head=2))
    start = data.index(b"_conv_stem")
    for seed in range(MUTANTS // 10):
        rng = random.Random(f"legacy-{seed}")
        # Half of the changes hit the pickles at the start, which are small beside the rest.
        if rng.random() < 0.5:
            mutant = mutate_bytes(rng, data[: 2 * start], data) + data[2 * start :]
        else:
            mutant = mutate_bytes(rng, data, data)
        loaded = unpacked(mutant)
        if loaded is not None:
            survives(efficientnet_lite.convert, loaded[0], "toy", "file")


@each("kind", range(len(FILES)))
def test_a_broken_file_that_still_has_its_checksum_is_refused(kind):
    data = WHOLE_FILES[kind]
    for seed in range(MUTANTS // len(FILES)):
        rng = random.Random(f"whole-{kind}-{seed}")
        mutant = mutate_bytes(rng, data, rng.choice(WHOLE_FILES))
        decoded = survives(decode, mutant)
        # What is left of the entry in the metadata is refused there, where metadata must be as agreed.
        assert decoded is None or mutant in WHOLE_FILES or decoded[1].keys() != decode(data)[1].keys()


def test_mutation_reaches_json_tokens():
    text = json.dumps({"a": [1, -2.5, None, 'x\\"']})
    mutants = {mutate_tokens(random.Random(seed), text) for seed in range(200)}
    assert len(mutants) > 50
