"""Emitted C on emulated microcontrollers: the bits of Python, in the RAM that the linker allows.

A toy network by default; ``TINYTRAIN_FIRMWARE=1`` adapts a published one on a Cortex-M7, which takes minutes.
"""

import os
import re
import shutil
import subprocess

import emitted
import int8nets
import numpy as np
import pytest
import toynets
from emitted import emit, plan_of
from published import published_network

from tinytrain.emit.folder import c_examples
from tinytrain.episode.episode import Episode, Images

LONG = bool(os.environ.get("TINYTRAIN_FIRMWARE"))
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm", "make")
MISSING = [tool for tool in TOOLS if not shutil.which(tool)]
MOST_STACK = 4096

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def episode_of(images, ways) -> Episode:
    labels = np.repeat(np.arange(ways, dtype=np.int32), len(images) // ways)
    support = Images(labels, tuple(map(str, labels)), lambda i, size: images[i])
    none = Images(labels[:0], (), lambda i, size: images[i])
    return Episode(support, none, tuple(f"class {k}" for k in range(ways)))


def prepared(folder, network, plan, seed=3):
    """An emitted folder with random images in flash, and what Python computes for them."""
    device = emit(folder, network, plan, seed)
    support = emitted.classes_of(network, device.ways, device.shots, 1)
    (folder / "examples.c").write_text(c_examples(device, episode_of(support, device.ways)))
    query = support[:: device.shots]
    return device, emitted.in_python(folder, network, plan, support, query, seed)


def assert_same(want, got):
    traced = {"weights after": want["weights after"]}
    traced |= {name: want[name] for name in want if name.startswith(("fisher", "channels"))}
    for name, array in traced.items():
        assert got[name] == [emitted.fnv(array.tobytes())], name
    assert got["trained"] == [emitted.fnv(values) for values in want["trained"]]
    assert got["loss"] == [emitted.fnv(loss.tobytes()) for loss in want["losses"]]


def stack_of(output: str) -> int:
    return int(re.search(r"stack: (\d+) bytes", output)[1])


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_two_processors_give_the_bits_of_python(precision, tmp_path):
    network = {"float32": toynets.toy, "int8": int8nets.toy8}[precision]("headed")
    plan = plan_of(network, 2, 3, "lda", 60_000, 0.3, precision=precision, steps=3)
    device, want = prepared(tmp_path, network, plan)
    for machine in ("m7", "m4"):
        got, output = emitted.on_board(tmp_path, machine, RAM_KB=64)
        assert_same(want, got)
        assert stack_of(output) <= MOST_STACK
        assert int(re.search(r"data: +(\d+) bytes", output)[1]) - device.arena <= 2048


def test_the_linker_refuses_what_does_not_fit(tmp_path):
    network = toynets.toy("headed")
    device, _ = prepared(tmp_path, network, plan_of(network, 2, 2, "cosine", 60_000, steps=1))
    small = ["make", "-s", "-C", str(tmp_path / "qemu"), f"RAM_KB={device.arena // 1024}"]
    done = subprocess.run(small, capture_output=True, text=True)
    assert done.returncode != 0 and "region `RAM' overflowed" in done.stderr


@pytest.mark.skipif(not LONG, reason="minutes: TINYTRAIN_FIRMWARE=1")
@pytest.mark.parametrize(
    ("precision", "ways", "budget", "ram"),
    [("float32", 2, 520_000, 512), ("int8", 2, 256_000, 256), ("int8", 5, 256_000, 256)],
)
def test_a_published_network_gives_the_bits_of_python_in_that_ram(precision, ways, budget, ram, tmp_path):
    """And in 1 MB of flash."""
    network = published_network("mcunet-5fps")
    plan = plan_of(network, ways, 5, "lda", budget, precision=precision, steps=3)
    device, want = prepared(tmp_path, network, plan)
    got, output = emitted.on_board(tmp_path, "m7", RAM_KB=ram, FLASH_KB=1024)
    print(f"\n{network.name}, {ways} classes of 5 images: arena {device.arena:,} bytes of {ram} KB")
    print("\n".join(line for line in output.splitlines() if re.search("FLASH:|RAM:|stack:|data:", line)))
    assert_same(want, got)
    assert stack_of(output) <= MOST_STACK
    assert int(re.search(r"data: +(\d+) bytes", output)[1]) - device.arena <= 2048
