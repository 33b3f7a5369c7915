"""A damaged journal: what is intact counts, what is not is named, and nothing is written over it."""

import numpy as np
import pytest
from toystreams import delta_of, images

from tinytrain.store import Entry, Store
from tinytrain.store.files import ASIDE
from tinytrain.store.folder import Folder
from tinytrain.store.journal import HEADER, decode_journal, framed, header
from tinytrain.store.slots import Slots
from tinytrain.store.state import Place

SHA256 = "5a" * 32
NAMES = ("ant", "bee", "cat", "dog")


def entry(name, size=3):
    return Entry("learn", name, np.arange(size, dtype=np.float32), mark=name)


def journal_of(names):
    """The bytes of a journal, and where its entries begin and end."""
    data, ends = header(SHA256), [HEADER]
    for name in names:
        data += framed(entry(name), SHA256, len(data))
        ends.append(len(data))
    return data, ends


def flipped(data, place, bit):
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def names_of(journal):
    return [entry.name for entry in journal.entries]


def test_every_flipped_bit_costs_at_most_the_entry_that_it_is_in_and_is_noticed():
    data, ends = journal_of(NAMES)
    assert names_of(decode_journal(data, SHA256)) == list(NAMES)
    for bit in range(8 * len(data)):
        place = bit // 8
        found = decode_journal(flipped(data, place, bit % 8), SHA256)
        hit = next((n for n, a, b in zip(NAMES, ends, ends[1:], strict=False) if a <= place < b), None)
        assert names_of(found) == [name for name in NAMES if name != hit]
        assert found.headless == (hit is None) and found.damaged == (hit in NAMES[:-1])
        assert (found.torn > 0) == (hit == NAMES[-1])


@pytest.mark.parametrize("damage", [b"", bytes(30), b"\xff" * 400])
def test_a_part_that_is_overwritten_costs_what_it_covers(damage):
    data, ends = journal_of(NAMES)
    found = decode_journal(data[: ends[1]] + damage + data[ends[1] + len(damage) :], SHA256)
    covered = ends[1] + len(damage)
    assert names_of(found) == ["ant", *(n for n, a in zip(NAMES, ends, strict=False) if a >= covered)]


def test_an_entry_counts_only_for_its_delta_and_at_its_place():
    data, ends = journal_of(NAMES)
    one, two = data[ends[0] : ends[1]], data[ends[1] : ends[2]]
    exchanged = data[: ends[0]] + two + one + data[ends[2] :]
    assert len(one) == len(two) and names_of(decode_journal(exchanged, SHA256)) == ["cat", "dog"]
    assert names_of(decode_journal(data[: ends[1]] + one + data[ends[1] :], SHA256)) == ["ant"]
    assert names_of(decode_journal(data, "5b" * 32)) == []


@pytest.fixture
def slots(tmp_path):
    """A store whose delta has learnt NAMES, with the path of the journal in `slots.path`."""
    slots = Slots(Folder(tmp_path / "store"))
    slots.commit(b"delta")
    slots.confirm()
    for name in NAMES:
        add(slots, name)
    slots.path = tmp_path / "store" / "tinytrain-1.journal"
    return slots


def add(slots, name):
    slots.append(Place(None), entry(name), lambda state: None)


def test_what_is_learnt_behind_damage_leaves_all_that_is_intact(slots):
    data = slots.path.read_bytes()
    for place in range(0, len(data), 3):
        slots.path.write_bytes(flipped(data, place, place % 8))
        before = names_of(slots.look().journal)
        add(slots, "elk")
        state = slots.look()
        assert names_of(state.journal) == [*before, "elk"] and len(before) >= len(NAMES) - 1
        assert state.warnings or before == list(NAMES[:-1]), "only an end may be an append that was cut short"


@pytest.mark.parametrize("content", [b"", b"tinytrain", bytes(500)])
def test_a_journal_without_anything_intact_is_named_and_kept_aside(slots, content):
    slots.path.write_bytes(content)
    assert slots.look().warnings == (
        "tinytrain-1.journal is damaged, and none of its corrections can be read",
    )
    add(slots, "elk")
    assert slots.look().warnings == () and names_of(slots.look().journal) == ["elk"]
    assert slots.path.with_name(slots.path.name + ASIDE).read_bytes() == content


def test_a_class_whose_first_correction_is_damaged_and_that_was_renamed_leaves_a_store_that_answers(tmp_path):
    store = Store(tmp_path / "store", "numpy")
    store.commit(delta_of())
    store.confirm()
    path, first = tmp_path / "store" / "tinytrain-1.journal", images(5, 3, 0)
    changes = [Entry("learn", "mint", first[0]), Entry("rename", "mint", new_name="sage")]
    for change in (*changes, Entry("learn", "class0", first[1]), Entry("learn", "sage", first[2])):
        store.append(None, change, lambda start: None)
    path.write_bytes(flipped(path.read_bytes(), HEADER + 60, 0))
    start, status = store.start(), store.status()
    assert start.delta.class_names == ("class0", "class1", "class2", "sage")
    assert status["damaged"] == 1 and status["warnings"] == list(start.warnings)
    assert "1 corrections in tinytrain-1.journal are damaged" in start.warnings[0]
