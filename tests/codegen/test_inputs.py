"""What a device reads beside images: features of motion and spectra of sound have the bits of Python."""

import ctypes
import ctypes.util
from dataclasses import asdict, replace

import emitted
import numpy as np
import pytest
import toynets
import waves
from cases import quick
from emitted import Library, emit, need, plan_of

from tinytrain.backbones.motion import motion_network
from tinytrain.base.errors import InputError, UsageError
from tinytrain.codegen.device import device_of
from tinytrain.codegen.inputs import SOURCES
from tinytrain.episode import portable
from tinytrain.episode.logmel import SLANEY, codes_of, log_mel
from tinytrain.episode.motion import reservoir_of
from tinytrain.episode.motion_features import features
from tinytrain.firmware_sim.emulated.count import BOARDS

RNG = np.random.default_rng(0)
NO_ROW, NOT_FINITE = -9, -5
VALUES = 3000
DECIBELS = replace(
    waves.SPECTRA, mag_exp=2.0, triangles=SLANEY, power_to_db=True, min_power=1e-10, top_db=15.0,
    full_scale=32768.0, low=-20.0, high=120.0,
)  # fmt: skip
SETTINGS = {"sound": waves.SPECTRA, "decibels": DECIBELS}

pytestmark = pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang")


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def emitted_for(folder, network):
    """The folder of a small plan, which is not run here."""
    policy = "tinytrain" if network.input.kind == "sound" else "last_layer"
    plan = plan_of(network, 2, 2, "cosine", 400_000, 0.9, steps=2, policy=policy)
    emitted.add_examples(folder, emit(folder, network, plan))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Emitted folders by the kind of input, each made when it is first asked for."""
    known = {}

    def make(kind):
        if kind not in known:
            spec = replace(waves.SMALL, parameters=asdict(SETTINGS[kind])) if kind in SETTINGS else None
            network = toynets.toy("headed", spec=spec) if spec else motion_network(kind)
            known[kind] = emitted_for(tmp_path_factory.mktemp(kind), network), network
        return known[kind]

    return make


def test_functions_in_c_have_the_bits_of_numpy(tmp_path):
    c = emitted.shared([SOURCES / f"kernels_{name}.c" for name in ("math", "fft")], tmp_path / "k.so")
    x = np.concatenate([RNG.normal(0, 3, 3000), np.linspace(-12, 12, 999), [0.0, 1e-9]]).astype(np.float32)
    above = np.exp(RNG.uniform(-80, 80, 3000)).astype(np.float32)
    for name, values in (("tanh", x), ("log", above), ("log", np.float32([1e-40, 1, 2**-0.5, 2**0.5]))):
        function = getattr(c, f"tt_{name}")
        function.restype, function.argtypes = ctypes.c_float, (ctypes.c_float,)
        got = np.array([function(value) for value in values], np.float32)
        assert got.tobytes() == getattr(portable, name)(values).tobytes(), name
        np.testing.assert_allclose(got, getattr(np, name)(values.astype(float)), atol=1e-5)
    for size in (64, 512):
        frame = RNG.normal(0, 1, (1, size)).astype(np.float32)
        re, im = frame[0].copy(), np.zeros(size, np.float32)
        c.tt_transform(pointer(re), pointer(im), size, *map(pointer, portable.turns(size)))
        assert (re * re + im * im)[: size // 2 + 1].tobytes() == portable.powers(frame)[0].tobytes()
        np.testing.assert_allclose(re + 1j * im, np.fft.fft(frame[0].astype(float)), atol=1e-4)


def test_without_an_instruction_products_and_sums_are_fused_to_the_same_bits(tmp_path):
    """Held against the C library: of any size, in the middle of two floats, and below normal numbers."""
    c = emitted.shared([SOURCES / "kernels_math.c"], tmp_path / "k.so")
    if not hasattr(c, "tt_fused"):
        pytest.skip("this compiler has the instruction")
    fma = ctypes.CDLL(ctypes.util.find_library("m")).fmaf
    for function in (fma, c.tt_fused):
        function.restype, function.argtypes = ctypes.c_float, (ctypes.c_float,) * 3
    for scale in (0, 40, -63, -70):
        a, b = (np.ldexp(RNG.integers(1, 2**12, 3000) * 2.0**-11, scale) for _ in range(2))
        power = np.floor(np.log2(a * b)) - RNG.integers(-26, 26, 3000)
        terms = RNG.choice([-1, 1], 3000) * np.ldexp(
            1 + RNG.integers(0, 2**23, 3000) * 2.0**-23, power.astype(int)
        )
        for triple in zip(*(x.astype(np.float32).tolist() for x in (a, b, terms)), strict=True):
            assert c.tt_fused(*triple) == fma(*triple), triple
    below = (*map(float.fromhex, ("0x1.bed97p-75", "0x1.255326p-76", "0x1.61949p-128")),)
    assert c.tt_fused(*below) == fma(*below) == float.fromhex("0x1.619498p-128")
    assert c.tt_rounds_as_written()


@pytest.mark.parametrize("name", quick(["motion-4-esn", "motion-1", "motion-3"]))
def test_features_of_motion_have_the_bits_of_python(name, made):
    folder, network = made(name)
    library, axes = Library(folder), dict(network.input.parameters)["axes"]
    got = np.empty(network.input.shape[-1], np.float32)
    for rows, scale in ((64, 1), (65, 9.81), (150, 1e-3), (1021, 16384), (9000, 1)):
        values = (RNG.normal(0.3, 0.5, (rows, axes)) * scale).astype(np.float32)
        values[:, -1] *= rows != 65  # a sensor that stands still
        assert library.tt_motion(pointer(got), pointer(values), rows) == 0
        assert got.tobytes() == features(values, reservoir_of(network.input)).tobytes(), rows
    assert library.tt_motion(pointer(got), pointer(values), 63) == NO_ROW
    values[70, 0] = np.inf
    assert library.tt_motion(pointer(got), pointer(values), 150) == NOT_FINITE


@pytest.mark.parametrize("kind", SETTINGS)
def test_spectra_of_sound_that_comes_in_pieces_have_the_codes_of_python(kind, made):
    folder, network = made(kind)
    library, (rows, bins, _) = Library(folder), network.input.shape
    samples = (RNG.normal(0, 3000, 9000) * np.geomspace(1e-3, 3, 9000)).astype(np.int16)
    got = []
    row = np.empty(bins, np.uint8)
    library.tt_sound_start()
    assert (
        library.tt_sound_row(None, 0, pointer(row)) == 1 and library.tt_predict_rows(None, None, None) == -4
    )
    place = rows_known = 0
    while place < len(samples):
        piece = samples[place : place + int(RNG.integers(1, 700))]
        rows_known += library.tt_sound_add(pointer(piece), len(piece))
        place += len(piece)
    for k in range(rows):
        assert library.tt_sound_row(None, k, pointer(row)) == 0
        got.append(row.copy())
    hop, frame = waves.SPECTRA.sequence_stride, waves.SPECTRA.sequence_length
    assert rows_known == 1 + (len(samples) - frame) // hop > 2 * rows
    last = samples[(rows_known - rows) * hop :] / np.float32(32768)
    want = codes_of(log_mel(last, SETTINGS[kind], bins), SETTINGS[kind])
    assert np.array_equal(got, want) and len(np.unique(want)) > 20
    assert (np.unique(want, return_counts=True)[1][0] > 5) == (kind == "decibels"), "so far below the loudest"


@pytest.mark.parametrize("board", quick(BOARDS, (1,)))
@pytest.mark.parametrize("kind", ["motion-4-esn", "sound"])
def test_a_board_computes_the_same_bits(kind, board, made):
    need(board)
    folder, network = made(kind)
    (folder / "qemu" / "inputs.c").write_text((emitted.HERE / "inputs.c").read_text())
    done = emitted.make(folder, board, "run", MAIN="inputs.c", RAM_KB=128)
    assert done.returncode == 0, done.stdout + done.stderr
    x = np.arange(VALUES, dtype=np.uint32) * np.uint32(2654435761)
    values = ((x ^ x >> 15) * np.uint32(2246822519) >> 16).astype(np.uint16).view(np.int16)
    if kind == "sound":
        spectra = log_mel(values / np.float32(32768), waves.SPECTRA, network.input.shape[1])
        found = codes_of(spectra, waves.SPECTRA)[-network.input.shape[0] :]
    else:
        found = features(values.reshape(-1, 4).astype(np.float32), reservoir_of(network.input))
    assert f"found={emitted.fnv(found.tobytes())}" in done.stdout


def test_spectra_that_c_does_not_compute_are_refused():
    spec = replace(waves.SMALL, parameters=asdict(replace(waves.SPECTRA, mag_exp=1.5)))
    network = toynets.toy("headed", spec=spec)
    with pytest.raises(UsageError, match=r"unsupported.*another power than 1 or 2; take another"):
        device_of(network, plan_of(network, 2, 2, "cosine", 400_000, 0.9))


def test_a_network_with_settings_that_make_no_sense_is_refused():
    spec = replace(waves.SMALL, parameters=asdict(waves.SPECTRA) | {"fft_length": 300})
    network = toynets.toy("headed", spec=spec)
    with pytest.raises(InputError, match="make sense"):
        device_of(network, plan_of(network, 2, 2, "cosine", 400_000, 0.9))
