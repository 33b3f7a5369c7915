"""The delta in use is the file of a slot and what was learnt since: as one file, and by its digest."""

import hashlib
import json
import shutil

import pytest
from commandline import tt
from toystreams import delta_of, images

import tinytrain
from tinytrain.base.errors import InputError
from tinytrain.delta.file import encode_delta, load_delta
from tinytrain.store import Store, deltastore
from tinytrain.stream.learner import Learner


@pytest.fixture
def state(tmp_path):
    store = Store(tmp_path / "state", "numpy")
    store.commit(delta_of(head="imprint"))
    store.confirm()
    return tmp_path / "state"


def learn(state, number):
    store = Store(state, "numpy")
    learner = Learner(store.peek().delta, store, store.start(), backend="numpy")
    learner.learn(images(3, 1, number)[0], "new")


def status(state, capsys):
    capsys.readouterr()
    assert tt("status", state, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_digest_of_status_changes_with_every_correction_and_that_of_the_file_does_not(state, capsys):
    found = [status(state, capsys)["current"]]
    (file,) = state.glob("*.delta")
    assert found[0]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    for number in range(2):
        learn(state, number)
        found.append(status(state, capsys)["current"])
    assert len({facts["sha256"] for facts in found}) == 3
    assert {facts["file_sha256"] for facts in found} == {found[0]["sha256"]}
    assert tt("status", state) == 0 and "with 2 corrections since" in capsys.readouterr().out


def test_status_counts_no_renamed_class_as_a_correction(state, capsys):
    learn(state, 0)
    store = Store(state, "numpy")
    Learner(store.peek().delta, store, store.start(), backend="numpy").rename("new", "newer")
    found = status(state, capsys)
    assert found["learnt"] == 1 and "newer" in found["current"]["classes"]


@pytest.mark.parametrize("words", [("rename", "class0", "a"), ("forget", "class0")])
def test_a_changed_delta_is_made_of_one_look_at_its_store(state, words, monkeypatch):
    """To replay the journal takes as long as all that was learnt."""
    for number in range(2):
        learn(state, number)
    replays, replayed = [], deltastore.replayed
    monkeypatch.setattr(deltastore, "replayed", lambda *given: replays.append(1) or replayed(*given))
    assert tt(words[0], state, *words[1:]) == 0 and len(replays) == 1


@pytest.mark.parametrize("corrections", [0, 2])
def test_an_exported_delta_is_the_one_in_use_and_has_the_digest_of_status(
    state, tmp_path, capsys, corrections
):
    for number in range(corrections):
        learn(state, number)
    before = {path: path.read_bytes() for path in state.iterdir()}
    assert tt("export", state, "-o", tmp_path / "a.delta") == 0
    tinytrain.export(state, tmp_path / "b.delta")
    data = (tmp_path / "a.delta").read_bytes()
    assert data == (tmp_path / "b.delta").read_bytes() == encode_delta(Store(state).peek().delta)
    assert hashlib.sha256(data).hexdigest() == status(state, capsys)["current"]["sha256"]
    assert {path: path.read_bytes() for path in state.iterdir()} == before, "to export is no start"
    assert tt("apply", tmp_path / "a.delta", tmp_path / "other") == 0
    assert encode_delta(Store(tmp_path / "other").peek().delta) == data


def test_a_store_is_applied_to_another_with_what_was_learnt(state, tmp_path):
    learn(state, 1)
    assert tt("apply", state, "--store", tmp_path / "other") == 0
    assert encode_delta(Store(tmp_path / "other").peek().delta) == encode_delta(Store(state).peek().delta)


def test_a_file_that_is_copied_out_of_a_store_is_a_delta_without_what_was_learnt(state, tmp_path):
    learn(state, 1)
    (file,) = state.glob("*.delta")
    assert "new" not in load_delta(shutil.copy(file, tmp_path / "copied")).class_names


def test_a_folder_without_a_delta_in_use_is_named(tmp_path):
    with pytest.raises(InputError, match="store-missing"):
        tinytrain.export(tmp_path, tmp_path / "a.delta")
