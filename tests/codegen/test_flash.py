"""Deltas in simulated NOR flash: power goes at every operation, torn writes and erasures included."""

import ctypes
from collections.abc import Iterator
from itertools import count

import emitted
import numpy as np
import pytest
import toynets
from cases import quick
from emitted import Library, emit, plan_of

from tinytrain.base.safetensors import decode
from tinytrain.delta.file import decode_delta

OK, NOT_READY, STORAGE, ON_TRIAL = 0, -4, -7, -8
NETWORK, SECTOR = toynets.toy("headed"), 1024
READ, WRITE, ERASE = (
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, *rest)
    for rest in ((ctypes.c_void_p, ctypes.c_uint32), (ctypes.c_void_p, ctypes.c_uint32), ())
)
TORN = ("before", "half", "mixed", "after")  # what of the last operation is done when power goes

pytestmark = pytest.mark.skipif(not emitted.compilers(), reason="no C compiler is here: install gcc or clang")


class Part(ctypes.Structure):
    """`tt_flash`."""

    _fields_ = (
        ("read", READ), ("write", WRITE), ("erase", ERASE), ("context", ctypes.c_void_p),
        ("bytes", ctypes.c_uint32), ("sector", ctypes.c_uint32),
    )  # fmt: skip


class Flash:
    """NOR flash with `cells`, whose power goes in operation `cut` (None: never); then all of it fails."""

    def __init__(self, cells: bytearray, cut: int | None = None, torn: str = "before"):
        self.cells, self.cut, self.torn, self.operations = cells, cut, torn, 0
        calls = READ(self.read), WRITE(self.write), ERASE(self.erase)
        self.part = Part(*calls, None, len(cells), SECTOR)

    @property
    def off(self) -> bool:
        return self.cut is not None and self.operations > self.cut

    def read(self, _, at, into, n) -> int:
        assert at + n <= len(self.cells)
        if not self.off:
            ctypes.memmove(into, bytes(self.cells[at : at + n]), n)
        return self.off

    def write(self, _, at, source, n) -> int:
        assert at % 64 == n % 64 == 0 and at + n <= len(self.cells)
        assert self.off or self.cells[at : at + n] == b"\xff" * n
        return self.change(at, ctypes.string_at(source, n))

    def erase(self, _, at) -> int:
        assert at % SECTOR == 0
        return self.change(at, b"\xff" * SECTOR)

    def change(self, at: int, new: bytes) -> int:
        if self.off:
            return 1
        self.operations += 1
        if self.off:
            rng, n = np.random.default_rng(self.operations), len(new)
            done = {
                "before": np.zeros(n, bool), "after": np.ones(n, bool), "half": np.arange(n) < n // 2,
                "mixed": rng.random(n) < 0.5,
            }[self.torn]  # fmt: skip
            old = self.cells[at : at + n]
            new = bytes(b if there else a for a, b, there in zip(old, new, done, strict=True))
        self.cells[at : at + len(new)] = new
        return self.off


class Device:
    """An emitted library with two deltas, and what it does with flash."""

    def __init__(self, folder, change=lambda text: text):
        self.folder, self.plan = folder, plan_of(NETWORK, 2, 2, "cosine", 60_000, steps=4)
        emit(folder, NETWORK, self.plan, seed=3)
        source = folder / "src" / "flash.c"
        source.write_text(change(source.read_text()))
        self.c = Library(folder)
        self.size = self.c.tt_flash_bytes(SECTOR)
        self.deltas = [self.learnt(seed) for seed in (1, 2, 3)]
        assert len(set(self.deltas)) == 3
        assert {len(delta) for delta in self.deltas} == {self.c.constants["TT_DELTA_BYTES"]}

    def learnt(self, seed: int) -> bytes:
        images = emitted.classes_of(NETWORK, 2, 2, seed)
        assert self.c.learn(images) == OK, seed
        return self.c.save()

    def call(self, name: str, flash: Flash) -> int:
        return getattr(self.c, f"tt_flash_{name}")(ctypes.byref(flash.part))

    def save(self, delta: int | bytes, flash: Flash) -> int:
        """One of the deltas, or another."""
        assert self.c.load(self.deltas[delta] if isinstance(delta, int) else delta) == OK
        return self.call("save", flash)

    def start(self, cells: bytearray) -> bytes | int:
        """The delta that a start finds, or what it returns."""
        self.c.tt_init()
        return self.call("start", Flash(cells)) or self.c.save()

    def back(self, cells: bytearray) -> bytes | int:
        """The delta that a roll-back finds, or what it returns."""
        return self.call("roll_back", Flash(bytearray(cells))) or self.c.save()

    def empty(self) -> bytearray:
        return bytearray(np.random.default_rng(0).bytes(self.size))  # what flash held before

    def do(self, step: str | int | bytes, flash: Flash) -> int:
        return self.call(step, flash) if isinstance(step, str) else self.save(step, flash)

    def after(self, *steps) -> bytearray:
        cells = self.empty()
        for step in steps:
            assert self.do(step, Flash(cells)) == OK, step
        return cells


@pytest.fixture(scope="module")
def device(tmp_path_factory) -> Device:
    return Device(tmp_path_factory.mktemp("device"))


@pytest.fixture(scope="module")
def of_python(device) -> bytes:
    """A delta that Python wrote with the emitted plan."""
    images = emitted.classes_of(NETWORK, 2, 2, 3)
    return emitted.in_python(NETWORK, device.plan, images, images, seed=3)["delta"]


def cuts(device: Device, before: bytearray, step) -> Iterator[bytearray]:
    """What flash holds if power goes in each operation of a step, in each way."""
    for cut in count():
        for torn in TORN:
            cells = bytearray(before)
            flash = Flash(cells, cut, torn)
            result = device.do(step, flash)
            if not flash.off:
                assert result == OK
                return
            yield cells


def test_a_trial_is_over_after_two_starts_unless_it_is_confirmed(device):
    first, second, _ = device.deltas
    cells = device.after(0, "confirm", 1)
    assert [device.start(cells) for _ in range(4)] == [second, second, first, first]
    cells = device.after(0, "confirm", 1, "start", "confirm")
    assert [device.start(cells) for _ in range(4)] == [second] * 4
    cells = device.after(0)
    assert [device.start(cells) for _ in range(4)] == [first, first, NOT_READY, NOT_READY]


def test_it_goes_back_to_the_delta_before_and_no_further(device):
    cells = device.after(0, "confirm", 1, "confirm", "roll_back")
    assert device.start(cells) == device.deltas[0]
    assert device.call("roll_back", Flash(cells)) == NOT_READY
    assert device.start(cells) == device.deltas[0]


@pytest.mark.parametrize("sector", [0, 64, 100, 128, SECTOR, 2**29, 2**30, 2**31, 2**32 - 64])
def test_no_size_of_a_sector_lets_a_part_that_is_too_small_pass(device, sector):
    slots = -(-len(device.deltas[0]) // sector) if sector else 0
    least = 2 * sector + 2 * slots * sector
    is_usable = sector >= 128 and sector % 64 == 0 and least < 2**32 - 1
    assert device.c.tt_flash_bytes(sector) % 2**32 == (least if is_usable else 2**32 - 1)
    flash = Flash(bytearray(1024))
    flash.part.sector = sector
    assert device.call("start", flash) == STORAGE


def test_nothing_is_saved_over_a_trial_or_in_too_little_flash(device):
    cells = device.after(0, "confirm", 1)
    assert device.save(2, Flash(cells)) == ON_TRIAL
    assert device.start(cells) == device.deltas[1]
    assert device.save(0, Flash(device.empty()[:-1])) == STORAGE
    device.c.tt_reset()
    assert device.call("save", Flash(device.empty())) == NOT_READY
    assert device.start(device.empty()) == NOT_READY


@pytest.mark.parametrize(
    ("done", "step", "found"),
    [
        ((), 0, (NOT_READY, 0)),
        ((0, "confirm"), 1, (0, 1)),
        ((0, "confirm", 1, "confirm"), 2, (1, 2)),  # the slot of the one before is needed
        ((0, "confirm", 1), "start", (1,)),
        ((0, "confirm", 1), "confirm", (1,)),
        ((0, "confirm", 1), "roll_back", (1, 0)),
        ((0, "confirm", 1, "start", "start"), "start", (0,)),
    ],
    ids=str,
)
def test_after_a_cut_anywhere_a_start_finds_the_old_delta_or_the_new_one_whole(device, done, step, found):
    allowed = {device.deltas[k] if k >= 0 else k for k in found}
    seen = set()
    for cells in cuts(device, device.after(*done), step):
        assert device.back(cells) in {*device.deltas, NOT_READY}
        seen.add(device.start(cells))
        # The store goes on: it confirms what is in use, or saves another one.
        assert device.call("confirm", Flash(cells)) in (OK, NOT_READY)
        assert device.save(2, Flash(cells)) == OK and device.start(cells) == device.deltas[2]
    assert seen == allowed


@pytest.mark.parametrize(
    "done", quick([(), (0, "confirm"), (0, "confirm", 1, "confirm")], single=True), ids=str
)
def test_after_a_cut_anywhere_a_delta_of_python_is_in_flash_whole_or_the_old_one(done, device, of_python):
    """What a start finds of it has Python's parameters and head, bit for bit."""
    before = device.after(*done)
    old = device.start(bytearray(before))
    assert device.c.load(of_python) == OK
    new = device.c.save()
    mine, given = (decode_delta(*decode(delta)) for delta in (new, of_python))
    for a, b in zip(mine.slices, given.slices, strict=True):
        assert a.values.tobytes() == b.values.tobytes() and a.channels.tolist() == b.channels.tolist()
    heads = [{name: t.tobytes() for name, t in d.head.tensors().items()} for d in (mine, given)]
    assert heads[0] == heads[1]
    assert new not in device.deltas[:2]
    assert {device.start(cells) for cells in cuts(device, before, of_python)} == {old, new}


WRITTEN = """\
    if (write_slot(flash, r.current))
        return TT_STORAGE;
    return write_record(flash, &r);
"""
RECORD_FIRST = """\
    if (write_record(flash, &r))
        return TT_STORAGE;
    return write_slot(flash, r.current);
"""


@pytest.mark.parametrize(
    ("done", "written", "instead"),
    quick(
        [
            ((), WRITTEN, RECORD_FIRST),
            ((0, "confirm"), "++r->sequence % 2u", "(++r->sequence, 0u)"),  # one record
            ((0, "confirm"), "r.current == 0 ? 1 : 0", "0"),  # one slot
            (
                (0, "confirm", 1, "confirm"),
                "r.previous != NONE) {",
                "0) {",
            ),  # the record needs what is erased
        ]
    ),
)
def test_a_store_with_one_precaution_less_is_noticed(done, written, instead, tmp_path):
    def change(text: str) -> str:
        assert text.count(written) == 1
        return text.replace(written, instead)

    device = Device(tmp_path, change)
    whole = {*device.deltas} if done else {device.deltas[2], NOT_READY}
    found = [(device.back(cells), device.start(cells)) for cells in cuts(device, device.after(*done), 2)]
    assert any(start not in whole or back not in whole | {NOT_READY} for back, start in found)
