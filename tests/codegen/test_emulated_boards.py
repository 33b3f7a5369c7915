"""Emitted C on emulated microcontrollers: the bits of Python, in the RAM that the linker allows.

A toy network by default; ``TINYTRAIN_FIRMWARE=1`` adapts a published one, which takes minutes for each board.
"""

import os
import re
import shutil

import emitted
import int8nets
import pytest
import toynets
import waves
from cases import quick
from emitted import emit, need, plan_of
from published import published_network

from tinytrain.backbones.motion import motion_network
from tinytrain.firmware_sim.emulated.count import BOARDS

LONG = bool(os.environ.get("TINYTRAIN_FIRMWARE"))
MOST_STACK = 4096
TOYS = ("toy", "motion", "sound")


def prepared(folder, network, plan, seed=3):
    """An emitted folder with random images in flash, and what Python computes for them."""
    device = emit(folder, network, plan, seed)
    support = emitted.add_examples(folder, device)
    return device, emitted.in_python(network, plan, support, support[:: device.shots], seed)


def assert_same(want, got):
    traced = {"weights after": want["weights after"]}
    traced |= {name: want[name] for name in want if name.startswith(("fisher", "channels"))}
    for name, array in traced.items():
        assert got[name] == [emitted.fnv(array.tobytes())], name
    assert got["trained"] == [emitted.fnv(values) for values in want["trained"]]
    assert got["loss"] == [emitted.fnv(loss.tobytes()) for loss in want["losses"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders with what Python computes for them, each made when it is first asked for."""
    known = {}

    def make(*key):
        if key not in known:
            name, precision, *_ = key
            network, plan = (toy if name in TOYS else published)(*key)
            folder = tmp_path_factory.mktemp(f"{name}-{precision}")
            known[key] = folder, *prepared(folder, network, plan)
        return known[key]

    return make


def toy(name, precision):
    if name == "motion":
        network = motion_network("motion-1")
        return network, plan_of(network, 2, 3, "lda", 60_000, 1.0, policy="last_layer", steps=3)
    made = {"float32": toynets.toy, "int8": int8nets.toy8}[precision]
    network = made("headed", spec=waves.SMALL if name == "sound" else None)
    return network, plan_of(network, 2, 3, "lda", 60_000, 0.3, precision=precision, steps=3)


def published(name, precision, ways, budget):
    network = published_network(name)
    return network, plan_of(network, ways, 5, "lda", budget, precision=precision, steps=3)


def assert_board_agrees(board, folder, device, want, **sizes) -> str:
    """The bits of Python, at most 4 KB of stack, 2 KB beside the arena. Returns what the board said."""
    got, output = emitted.on_board(folder, board, **sizes)
    assert_same(want, got)
    assert int(re.search(r"stack: (\d+) bytes", output)[1]) <= MOST_STACK
    assert int(re.search(r"data: +(\d+) bytes", output)[1]) - device.arena <= 2048
    return output


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_board_gives_the_bits_of_python(precision, board, made):
    need(board)
    assert_board_agrees(board, *made("toy", precision), RAM_KB=64)


@pytest.mark.parametrize("board", quick(BOARDS, (1,)))
@pytest.mark.parametrize(("kind", "precision"), [("motion", "float32"), ("sound", "int8")])
def test_a_board_learns_recordings_and_clips_with_the_bits_of_python(kind, precision, board, made):
    need(board)
    assert_board_agrees(board, *made(kind, precision), RAM_KB=64)


@pytest.mark.parametrize("board", BOARDS)
def test_the_linker_refuses_what_does_not_fit(board, made):
    need(board)
    folder, device, _ = made("toy", "float32")
    for refused, sizes in (("RAM", {"RAM_KB": device.arena // 1024}), ("FLASH", {"FLASH_KB": 16})):
        done = emitted.make(folder, board, "", **sizes)
        assert done.returncode != 0 and f"region `{refused}' overflowed" in done.stderr


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("place", ["NOWHERE", "DEEP"])
def test_a_write_through_null_or_below_the_stack_is_a_fault(place, board, made):
    need(board)
    folder, *_ = made("toy", "float32")
    shutil.copy(emitted.HERE / "faults.c", folder / "qemu")
    done = emitted.make(folder, board, "run", MAIN="faults.c", DEFINES=f"-D{place}", RAM_KB=64)
    assert done.returncode != 0 and "Error 99" in done.stderr and "FAULT" in done.stdout


PUBLISHED = [
    *((board, "float32", 2, 520_000, 512) for board in BOARDS),
    *((board, "int8", 2, 256_000, 256) for board in BOARDS),
    ("m7", "int8", 5, 256_000, 256),
]


@pytest.mark.skipif(not LONG, reason="minutes: TINYTRAIN_FIRMWARE=1")
@pytest.mark.parametrize(("board", "precision", "ways", "budget", "ram"), PUBLISHED)
def test_a_published_network_gives_the_bits_of_python_in_that_ram(board, precision, ways, budget, ram, made):
    """And in 1 MB of flash."""
    need(board)
    folder, device, want = made("mcunet-5fps", precision, ways, budget)
    output = assert_board_agrees(board, folder, device, want, RAM_KB=ram, FLASH_KB=1024)
    print(f"\n{board}, {precision}, {ways} classes of 5 images: arena {device.arena:,} bytes of {ram} KB")
    print("\n".join(line for line in output.splitlines() if re.search("FLASH:|RAM:|stack:|data:", line)))
