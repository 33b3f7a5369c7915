"""Damaged files of a store: the checksum reveals them, and the other copy is used."""

import errno
import hashlib
import json
import os

import pytest
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.store.folder import Folder
from tinytrain.store.record import RECORDS, DamagedRecordError, Record, Slot, decode_record, encode_record
from tinytrain.store.slots import Slots


@pytest.fixture
def slots(tmp_path):
    return Slots(Folder(tmp_path / "store"))


def damages(data):
    """Every kind of damage: truncated, empty, a flipped bit, zeros, appended bytes."""
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    return [data[:-1], b"", bytes(flipped), bytes(len(data)), data + b"x", None]


@pytest.mark.parametrize("kind", range(6))
def test_a_damaged_delta_gives_way_to_the_one_before(slots, kind):
    slots.commit(b"one" * 50)
    slots.confirm()
    slots.commit(b"two" * 50)
    slots.confirm()
    write(slots.folder.path / "tinytrain-2.delta", damages(b"two" * 50)[kind])
    state = slots.start()
    assert state.data == b"one" * 50 and state.warnings == ("generation 2 is damaged",)
    slots.commit(b"three")
    assert slots.start().data == b"three" and slots.look().warnings == ()
    assert slots.roll_back().current.generation == 1


@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("name", RECORDS)
def test_a_damaged_record_gives_way_to_the_other(slots, name, kind):
    slots.commit(b"one")
    slots.confirm()
    slots.commit(b"two")
    path = slots.folder.path / name
    write(path, damages(path.read_bytes())[kind])
    assert slots.start().data in (b"one", b"two")
    slots.commit(b"three")
    slots.confirm()
    assert slots.start().data == b"three" and len(slots.look().warnings) == 0


def test_a_start_that_cannot_read_the_newest_record_for_a_moment_removes_nothing_that_it_names(
    slots, monkeypatch
):
    for data in (b"one", b"two"):
        slots.commit(data)
        slots.confirm()
    newest, read = slots.commit(b"three").name, slots.folder.read

    def failing(name, limit):
        if name == newest:
            raise OSError(errno.EIO, "Input/output error")
        return read(name, limit)

    with monkeypatch.context() as patch:
        patch.setattr(slots.folder, "read", failing)
        state = slots.start()
    assert state.data == b"two" and state.warnings == (f"{newest} is damaged",)
    assert slots.start().data == b"three"


def test_nothing_whole_is_an_error_that_a_commit_mends(slots):
    slots.commit(b"one")
    slots.confirm()
    for name in ("tinytrain-1.delta", *RECORDS):
        write(slots.folder.path / name, b"x" * 30)
        for call in (slots.start, slots.look, slots.confirm, slots.roll_back):
            with pytest.raises(InputError, match="store-damaged"):
                call()
        break
    for name in RECORDS:
        write(slots.folder.path / name, b"x" * 30)
    with pytest.raises(InputError, match="store-damaged"):
        slots.start()
    assert slots.commit(b"new").current.generation == 2
    assert slots.start().data == b"new"


def test_a_trial_is_kept_if_the_previous_delta_is_damaged(slots):
    slots.commit(b"one")
    slots.confirm()
    slots.commit(b"two")
    write(slots.folder.path / "tinytrain-1.delta", b"x")
    for _ in range(2):
        slots.start()
    state = slots.start()
    assert state.data == b"two" and "generation 1 before it is damaged" in state.warnings[0]
    with pytest.raises(InputError, match="store-damaged"):
        slots.roll_back()


def write(path, data):
    path.unlink()
    if data is not None:
        path.write_bytes(data)


def test_a_path_that_is_not_a_regular_file_is_damaged_and_does_not_hang(slots):
    slots.commit(b"one")
    slots.confirm()
    newest = slots.look().record.name
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)):
        write(slots.folder.path / newest, None)
        make(slots.folder.path / newest)
        assert slots.look().data == b"one", "the record before says the same"
        (os.rmdir if (slots.folder.path / newest).is_dir() else os.unlink)(slots.folder.path / newest)
        (slots.folder.path / newest).touch()


def test_other_files_in_the_folder_are_left_alone(slots):
    slots.folder.make()
    others = ("holiday.jpg", "tinytrain-x.delta", "tinytrain-1.delta.bak", "mine.delta")
    for name in others:
        (slots.folder.path / name).write_bytes(b"mine")
    for _ in range(3):
        slots.commit(b"one")
        slots.confirm()
    assert all((slots.folder.path / name).read_bytes() == b"mine" for name in others)


SLOT = Slot.of(b"one", 3)
RECORD = Record(7, 3, SLOT, None, False, 1)


def test_a_record_survives_its_file():
    assert decode_record(encode_record(RECORD)) == RECORD
    assert decode_record(encode_record(Record())) == Record()


def resealed(**changes):
    """A record with a correct checksum and wrong content."""
    facts = {**json.loads(encode_record(RECORD).split(b"\n")[0]), **changes}
    line = json.dumps({key: value for key, value in facts.items() if value != "gone"}).encode()
    return b"%s\n%s\n" % (line, hashlib.sha256(line).hexdigest().encode())


CURRENT = {"generation": 3, "size": 3, "sha256": "0" * 64}


@each(
    "changes",
    [
        {"schema": 2}, {"schema": "gone"}, {"sequence": -1}, {"sequence": 1.5}, {"sequence": True},
        {"sequence": 10**18}, {"confirmed": 1}, {"generation": 2},
        {"current": {**CURRENT, "sha256": "../x"}}, {"current": {**CURRENT, "size": 2**40}},
        {"current": {**CURRENT, "more": 1}}, {"current": [1]}, {"current": None}, {"more": 1},
        {"sha256": "0"},
    ],
)  # fmt: skip
def test_a_record_that_makes_no_sense_is_damaged(changes):
    with pytest.raises(DamagedRecordError):
        decode_record(resealed(**changes))


def test_every_flipped_bit_of_a_record_is_noticed():
    data = encode_record(RECORD)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedRecordError):
            decode_record(bytes(flipped))
