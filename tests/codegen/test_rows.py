"""Images that come row by row: the same bits, no row that is not there, and callbacks that fail anywhere."""

import ctypes
import subprocess
from dataclasses import replace
from itertools import pairwise

import emitted
import int8nets
import numpy as np
import pytest
import toynets
from cases import quick
from emitted import HERE, emit, plan_of
from published import published_network

from tinytrain.codegen.device import device_of
from tinytrain.codegen.folder import SOURCES
from tinytrain.codegen.image_rows import rows_again
from tinytrain.plan.recipe import Resources

COMPILERS = emitted.compilers()
ROW = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)
FILL = np.uint8(128)

pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler is here: install gcc or clang")


class How(ctypes.Structure):
    """`tt_augmentation`."""

    _fields_ = (
        *((name, ctypes.c_float) for name in ("cosine", "sine", "brightness", "saturation", "contrast")),
        ("down", ctypes.c_int16), ("right", ctypes.c_int16), ("flip", ctypes.c_uint8),
    )  # fmt: skip


class Part(ctypes.Structure):
    """`tt_part_of`."""

    _fields_ = tuple((name, ctypes.c_int) for name in ("height", "width", "channels", "first", "rows"))


@pytest.fixture(scope="module")
def augment(tmp_path_factory):
    kernels = emitted.shared(
        [SOURCES / f"kernels_{name}.c" for name in ("image", "math")],
        tmp_path_factory.mktemp("c") / "kernels.so",
    )
    kernels.tt_augment.argtypes = (ctypes.c_void_p, ROW, ctypes.POINTER(How), ctypes.c_int32, Part)
    return kernels.tt_augment


def changed(image: np.ndarray, how: How) -> np.ndarray:
    """The changed copy of an image (height, width, channels), pixel by pixel in float32."""
    half, (height, width, channels) = np.float32(0.5), image.shape
    cosine, sine, bright, spread, contrast = map(
        np.float32, (how.cosine, how.sine, how.brightness, how.saturation, how.contrast)
    )
    bottom, end, side = np.float32(height - 1), np.float32(width - 1), np.float32(-1 if how.flip else 1)
    i, j = np.indices((height, width)).astype(np.float32)
    if turns := (cosine, sine) != (1, 0):
        v, h = -half * bottom + (i - how.down), -side * (half * end + np.float32(how.right))
        r = -side * sine * j + (half * bottom + (cosine * v + -sine * h))
        q = side * cosine * j + (half * end + (sine * v + cosine * h))
    else:
        r, q = i - how.down, j - how.right
        q = end - q if how.flip else q
    inside = (r >= 0) & (q >= 0) & ((r < bottom) & (q < end) if turns else (r <= bottom) & (q <= end))
    top, left = (np.where(inside, p, 0).astype(int) for p in (r, q))
    low, far = (p[..., None] for p in (r - top.astype(np.float32), q - left.astype(np.float32)))
    x = np.pad(image, ((0, 1), (0, 1), (0, 0))).astype(np.float32)
    corner = far * low
    near = (1 - far - low + corner) * x[top, left] + (far - corner) * x[top, left + 1]
    values = corner * x[top + 1, left + 1] + ((low - corner) * x[top + 1, left] + near)
    values = values if turns else x[top, left]
    a, b, c = (values[..., k] for k in (0, channels // 2, channels - 1))
    mean = np.float32(image.sum()) / np.float32(image.size) + bright
    grey = (a + b + c) * (np.float32(1) / np.float32(3))
    centre = ((grey + bright - mean) * contrast + mean) + half
    found = (values - grey[..., None]) * (spread * contrast) + centre[..., None]
    return np.where(inside[..., None], np.clip(found, 0, 255).astype(np.uint8), FILL)


def test_a_changed_copy_is_made_of_rising_rows_whatever_part_of_it_is_asked_for(augment):
    rng = np.random.default_rng(0)
    for trial in range(400):
        height, width, channels = (*rng.integers(2, 20, 2).tolist(), (3, 1)[trial % 2])
        image = rng.integers(0, 256, (height, width, channels)).astype(np.uint8)
        angle, zoom = rng.uniform(-3.2, 3.2) * rng.integers(0, 2), rng.uniform(0.5, 2)
        turn = (np.cos(angle) / zoom, np.sin(angle) / zoom) if trial % 3 else (1.0, 0.0)
        down, right = rng.integers(-height // 2, height // 2), rng.integers(-width // 2, width // 2)
        colours = rng.uniform(-60, 60), rng.uniform(-1, 3), rng.uniform(0, 2)
        how = How(*turn, *colours, int(down), int(right), trial // 2 % 2)
        first = int(rng.integers(0, height))
        count = int(rng.integers(1, height - first + 1))
        held, asked = np.zeros((2, width, channels), np.uint8), []

        def row(r, image=image, held=held, asked=asked):
            """One of two places: what is there is overwritten when the row after the next one comes."""
            assert 0 <= r < len(image)
            asked.append(r)
            held[r % 2] = image[r]
            return held[r % 2].ctypes.data

        y = np.zeros((count, width, channels), np.uint8)
        part = Part(height, width, channels, first, count)
        augment(y.ctypes.data, ROW(row), ctypes.byref(how), int(image.sum()), part)
        assert np.array_equal(y, changed(image, how)[first : first + count]), trial
        tops = asked[::2] if trial % 3 else asked
        assert tops == sorted(tops)
        assert trial % 3 == 0 or asked[1::2] == [r + 1 for r in tops]


def prepared(folder, precision: str, cached: bool, rotated: bool = False):
    """A network and a plan of two steps; `folder` has their library, and a file of images and queries."""
    network = {"float32": toynets.toy, "int8": int8nets.toy8}[precision]("blocks")
    network = replace(network, input=replace(network.input, rotated=rotated))
    plan = plan_of(network, 2, 2, "cosine", 60_000, 0.24 if cached else 0.9, precision=precision, steps=2)
    plan = emitted.faster(plan, 1.6)  # so that two steps change weights of 8 bits
    if not cached:
        r = plan.resources
        plan = replace(plan, resources=Resources(0, 1, r.step_support, r.step_queries))
        plan = emitted.in_two_passes(plan, network)
    emit(folder, network, plan, seed=3)
    images = emitted.classes_of(network, 2, 2, 5), emitted.classes_of(network, 2, 2, 2)
    (folder / "images").write_bytes(b"".join(part.tobytes() for part in images))
    return network, plan


FIRST, LAST = (COMPILERS or ("",))[0], (COMPILERS or ("",))[-1]


@pytest.mark.parametrize(
    ("precision", "cached", "rotated", "every", "compiler"),
    quick([("int8", False, False, 7, FIRST), ("int8", False, False, 1, FIRST),
           ("float32", True, False, 1, FIRST), ("int8", True, True, 1, LAST)]),
)  # fmt: skip
def test_rows_give_the_bits_of_pointers_and_a_callback_may_fail_in_any_call(
    precision, cached, rotated, every, compiler, tmp_path
):
    """What was learnt before answers, or nothing, and the next call of tt_adapt learns it all; see rows.c.

    By default the callback fails in one call of seven, one after another.
    """
    prepared(tmp_path, precision, cached, rotated)
    sources = [f"-I{tmp_path / 'src'}", *emitted.library_of(tmp_path), HERE / "rows.c"]
    options = emitted.sanitizers(compiler)
    program = emitted.build(compiler, "-O2", *options, *sources, out=tmp_path / "rows")
    done = subprocess.run([program, tmp_path / "images", str(every)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 4 * 16 * 3  # all images in the first pass, Fisher scoring, and the features


@pytest.mark.slow
def test_an_image_that_is_read_from_the_last_row_on_gives_the_bits_of_python(tmp_path):
    network, plan = prepared(tmp_path, "int8", cached=False, rotated=True)
    images = emitted.classes_of(network, 2, 2, 1)
    want = emitted.in_python(network, plan, images, images, seed=3)
    got = emitted.in_c(emitted.compiled(tmp_path, COMPILERS[0]), images, images)
    assert got["trained"] == want["trained"] and got["result"] == [bytes(4)]
    assert "#define TT_LAST_ROW_FIRST 1u" in (tmp_path / "src" / "plan.h").read_text()


@pytest.mark.parametrize("name", ["mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3"])
def test_parts_of_an_image_overlap_by_no_more_rows_than_are_held(name):
    network = published_network(name)
    device = device_of(network, plan_of(network, 2, 5, "lda", 256_000, precision="int8"))
    for program in (device.training, device.probe):
        calls = program.segments["prefix", 1].calls
        spans = [(at, at + y.extent[0]) for y, at in (c.args for c in calls if c.kernel == "show_rows")]
        assert spans[0][0] == 0 and spans[-1][1] == network.input.shape[0]
        for (a, b), (c, d) in pairwise(spans):
            assert a < c <= b < d and b - c <= program.image_rows.count
        assert len(spans) > 1 and program.image_rows.count == rows_again(network.layers[0])
        sizes = {program.buffers[workspace].nbytes for workspace in program.image_rows.workspaces}
        assert all(size >= program.image_rows.end for size in sizes)
