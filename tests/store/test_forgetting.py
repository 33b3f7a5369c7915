"""What still knows a forgotten class: nothing, once the delta without it is confirmed."""

import json
from dataclasses import replace

import pytest
from commandline import tt
from toystreams import delta_of, images

from tinytrain.delta.classes import forget
from tinytrain.store import Store
from tinytrain.store.folder import Folder
from tinytrain.store.slots import Slots
from tinytrain.stream.learner import Learner

NAME = "class1"


def opened(store):
    return Learner(store.peek().delta, store, store.peek(), backend="numpy")


@pytest.fixture
def state(tmp_path):
    """A store with corrections in its journal and kept images, of the class that goes and of another."""
    store = Store(tmp_path / "state", "numpy")
    store.commit(delta_of(head="imprint"))
    store.confirm()
    learner = opened(store)
    for number in range(3):
        learner.learn(images(1, 1, number)[0], NAME)
        store.kept.keep(f"image {number}".encode(), NAME)
    store.kept.keep(b"other", "class0")
    return tmp_path / "state"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def knows(folder) -> list[str]:
    """Names of files and folders of the store that carry the name of the class, or lie below it."""
    found = [str(path) for path in folder.rglob("*") if NAME in path.name]
    return found + [str(path) for path, data in contents(folder).items() if NAME.encode() in data]


def test_after_confirm_no_file_of_the_store_knows_the_class_any_more(state, capsys):
    assert tt("forget", state, NAME) == 0
    assert "and 3 images kept in" in (told := capsys.readouterr().out) and "removes that" in told
    assert len(knows(state)) == 3, "a roll-back needs the delta, its journal and the images"
    assert tt("confirm", state) == 0 and "nothing else that knows" in capsys.readouterr().out
    assert knows(state) == [] and Store(state).kept.counts() == {"class0": 1}
    assert Store(state).before().delta is None and tt("rollback", state) == 3


def test_a_roll_back_before_confirm_restores_everything(state):
    before, learnt = Store(state).peek().delta, Store(state).kept.files()
    assert tt("forget", state, NAME) == 0 and tt("rollback", state) == 0
    assert (
        Store(state).peek().delta.class_names == before.class_names and len(Store(state).peek().journal) == 3
    )
    assert Store(state).kept.files() == learnt
    assert tt("confirm", state) == 0 and Store(state).kept.counts()[NAME] == 3


def test_a_class_that_was_renamed_on_trial_and_then_forgotten_leaves_nothing(state):
    assert tt("rename", state, NAME, "other name") == 0
    assert Store(state).kept.counts() == {"class0": 1, "other name": 3}
    assert tt("forget", state, "other name") == 0 and tt("confirm", state) == 0
    assert knows(state) == [] and Store(state).kept.counts() == {"class0": 1}


def test_what_forgets_nothing_leaves_the_way_back(state):
    for words in (("rename", state, "class0", "zero"), ("apply", state, state)):
        assert tt(*words) == 0 and tt("confirm", state) == 0
        assert Store(state).before().delta is not None
    assert Store(state).kept.counts() == {"zero": 1, NAME: 3}


def test_forgetting_on_a_stream_takes_the_embeddings_out_of_the_journal_at_once(state):
    store = Store(state, "numpy")
    opened(store).forget(NAME)
    assert len(store.peek().journal) == 0 and len(list(state.glob("*.journal"))) == 0
    store.confirm()
    assert knows(state) == []


def test_a_class_that_was_forgotten_on_a_stream_during_a_trial_goes_with_confirm(state):
    """A trial keeps its journal, because the delta before learns from it if the trial goes back."""
    store = Store(state, "numpy")
    store.commit(store.peek().delta)
    learner = opened(store)
    learner.learn(images(1, 1, 9)[0], NAME, before=images(1, 1, 9)[0])
    learner.forget(NAME)
    assert len(store.peek().journal) == 2 and NAME in store.before().base.class_names
    assert store.confirm() == store.peek().generation
    assert knows(state) == [] and store.before().delta is None


def test_a_class_that_was_learnt_and_forgotten_on_a_stream_goes_from_the_delta_before_too(state):
    """Nothing of it was left in the delta in use, which never had it; the one before has."""
    store = Store(state, "numpy")
    store.commit(replace(delta_of(head="imprint"), class_names=("class0", "class2", "class3")))
    learner = opened(store)
    learner.learn(images(1, 1, 9)[0], NAME)
    learner.forget(NAME)
    assert store.peek().delta.report["forgotten"] == {"classes": 1, "traces": []}
    store.confirm()
    assert knows(state) == []


def unreadable(folder):
    """Shift every journal by a byte: nothing in it is at its place, and all of it is there."""
    for path in folder.glob("*.journal"):
        path.write_bytes(b"?" + path.read_bytes())


@pytest.mark.parametrize("way", ["in its delta", "in its journal", "in a journal that was set aside"])
@pytest.mark.parametrize("by", ["command", "stream"])
def test_what_cannot_be_read_may_know_the_class_and_goes_with_confirm_too(state, way, by):
    if way != "in its delta":
        unreadable(state)
    if way == "in a journal that was set aside":
        opened(Store(state, "numpy")).learn(images(0, 1, 9)[0], "class0")
        assert len(list(state.glob("*.damaged"))) == 1
    if by == "command":
        assert tt("forget", state, NAME) == 0
    else:
        store = Store(state, "numpy")
        store.commit(store.peek().delta)
        opened(store).forget(NAME)
    (before, _) = sorted(state.glob("*.delta"))
    if way == "in its delta":
        before.write_bytes(before.read_bytes()[:-1])
    assert NAME.encode() in before.read_bytes() and tt("confirm", state) == 0
    assert knows(state) == [] and NAME not in Store(state).peek().delta.class_names


@pytest.mark.parametrize("forgets", [True, False])
def test_a_delta_before_that_this_version_cannot_read_goes_only_if_a_class_was_forgotten(tmp_path, forgets):
    slots, delta = Slots(Folder(tmp_path / "state")), delta_of(head="imprint")
    slots.commit(NAME.encode())
    slots.confirm()
    store = Store(tmp_path / "state", "numpy")
    store.commit(forget(delta, NAME) if forgets else delta)
    store.confirm()
    assert (slots.look_before().data is None) == forgets and (knows(tmp_path / "state") == []) == forgets


def test_the_delta_of_a_store_names_the_class_nowhere(state, tmp_path, capsys):
    out = tmp_path / "fewer.safetensors"
    assert tt("forget", state, NAME, "-o", out, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["kept_images"] == 0 and NAME.encode() not in out.read_bytes()
    assert tt("forget", state, "class0", "-o", out) == 0
    assert "copies that were made before still know the class, and so does" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_kept_image_is_found_in_any_composition_of_the_letters_of_its_class(tmp_path):
    kept = Store(tmp_path / "s").kept
    kept.keep(b"1", "e\u0301te\u0301")
    assert kept.counts() == {"\u00e9t\u00e9": 1}
