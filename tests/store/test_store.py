"""The store: commit, trial, confirm and roll back restore every bit."""

import os
import random

import pytest
from toyfiles import two_deltas

from tinytrain.base.errors import InputError, StorageError
from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash
from tinytrain.network.file import encode_network
from tinytrain.pipeline.toy import toy_network
from tinytrain.store import Store
from tinytrain.store.folder import Folder
from tinytrain.store.slots import Slots


@pytest.fixture(scope="module")
def network():
    return toy_network()


@pytest.fixture(scope="module")
def deltas(network):
    return two_deltas(network)


@pytest.fixture
def slots(tmp_path):
    return Slots(Folder(tmp_path / "store"))


def generations(slots):
    record = slots.look().record
    return [slot and slot.generation for slot in (record.current, record.previous)]


def test_a_commit_is_on_trial_for_two_starts_and_then_taken_out(slots):
    slots.commit(b"one")
    slots.confirm()
    slots.commit(b"two")
    assert [slots.start().data for _ in range(2)] == [b"two", b"two"]
    third = slots.start()
    assert third.data == b"one" and third.record.confirmed
    assert third.warnings == ("generation 2 was not confirmed in 2 starts and was dropped",)
    assert slots.start().warnings == () and os.listdir(slots.folder.path).count("tinytrain-2.delta") == 0


def test_a_confirmed_delta_stays(slots):
    slots.commit(b"one")
    slots.start()
    assert slots.confirm().confirmed and slots.confirm().confirmed
    assert slots.look().record.starts == 0, "starts are those of a trial"
    assert [slots.start().data for _ in range(5)] == [b"one"] * 5


def test_the_first_delta_reverts_to_the_bare_network(slots):
    slots.commit(b"one")
    assert [slots.start().data for _ in range(3)] == [b"one", b"one", None]
    assert slots.look().record.current is None


def test_looking_counts_no_start_and_writes_nothing(slots):
    slots.commit(b"one")
    before = {name: (slots.folder.path / name).read_bytes() for name in os.listdir(slots.folder.path)}
    for _ in range(4):
        assert slots.look().data == b"one"
    assert before == {name: (slots.folder.path / name).read_bytes() for name in os.listdir(slots.folder.path)}


def test_a_commit_over_a_trial_keeps_the_confirmed_delta(slots):
    for data in (b"one", b"two", b"three"):
        slots.commit(data)
        if data == b"one":
            slots.confirm()
    assert generations(slots) == [3, 1] and slots.roll_back().current.generation == 1


def test_generations_are_never_given_out_twice(slots):
    for data in (b"one", b"two"):
        slots.commit(data)
        slots.confirm()
    slots.roll_back()
    assert slots.commit(b"three").current.generation == 3


def test_rolling_back_restores_the_exact_bytes(slots):
    draw = random.Random(0)
    flash = Slots(Flash(LAYOUTS["ordered-journal"]))
    for number, where in enumerate([flash] * 200 + [slots] * 5):
        old = draw.randbytes(draw.randint(1, 5000))
        where.commit(old)
        where.confirm()
        where.commit(draw.randbytes(draw.randint(1, 5000)))
        if number % 2:
            where.confirm()
        where.roll_back()
        assert where.start().data == old
        assert len(where.folder.names()) == 3, "two records and the delta in use"


def test_rolling_back_never_drops_the_only_confirmed_delta(slots):
    slots.commit(b"one")
    slots.confirm()
    with pytest.raises(InputError, match="store-oldest"):
        slots.roll_back()
    assert slots.start().data == b"one"


def test_an_empty_or_missing_store_is_said_to_be_so(slots):
    for call in (slots.start, slots.look, slots.confirm, slots.roll_back):
        with pytest.raises(InputError, match="store-missing"):
            call()
    slots.folder.make()
    assert slots.start().data is None
    for call in (slots.confirm, slots.roll_back):
        with pytest.raises(InputError, match="store-missing"):
            call()


def test_a_store_without_a_parent_or_in_a_file_is_a_storage_error(deltas, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    for path in (tmp_path / "no" / "store", tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(StorageError):
            Store(path).commit(deltas[0])
    with pytest.raises(InputError, match="store-missing"):
        Store(tmp_path / "file").peek()


def test_only_a_delta_is_committed(tmp_path, network):
    (tmp_path / "x").write_bytes(encode_network(network))
    with pytest.raises(InputError, match="file-kind"):
        Store(tmp_path / "store").commit_file(tmp_path / "x")
    assert not (tmp_path / "store").exists()
