"""Two networks side by side on the command line: what is watched, trained again, exported and refused."""

import re
from dataclasses import replace
from functools import partial

import pytest
import toynets
from cases import each
from commandline import tt
from toyfiles import write_images, write_network
from watching import CLASSES, photos

import tinytrain
from tinytrain.base.errors import UsageError
from tinytrain.cli.commands import watch
from tinytrain.cli.main import parser_of
from tinytrain.network.file import save_network
from tinytrain.pipeline.committee import adapt
from tinytrain.store import Store
from tinytrain.stream.readapt import Readaptation


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two networks, images, and the deltas "toy" and "toy+second", whose networks are noted in the cache."""
    root = tmp_path_factory.mktemp("committee")
    write_network(root)
    save_network(replace(toynets.toy("headed"), name="second"), root / "second.safetensors")
    write_images(root / "photos", CLASSES, count=5)
    write_images(root / "new", (*CLASSES, "dog"), count=4, seed=1)
    for name in ("toy", "toy+second"):
        networks = "+".join(f"{root / part}.safetensors" for part in name.split("+"))
        words = ("adapt", root / "photos", "--backbone", networks, "--policy", "none", "--force", "-q")
        assert tt(*words, "--out", root / f"{name}.delta.safetensors") == 0
    return root


def watcher_of(made, store, name="toy+second"):
    """What the command watches with, and what is due in a pause if it adapts by itself."""
    words = (made / f"{name}.delta.safetensors", made / "new", "--store", store, "--readapt", "auto", "-q")
    session = watch.opened(parser_of("watch")[0].parse([str(word) for word in words]))
    return session.watcher, session.settings.backbone


def corrected(watcher, made, again=None):
    """All new images, of which one class is new, are corrected."""
    for name in (*CLASSES, "dog"):
        for path in photos(made, name):
            watcher.correct(str(path), name, new=name == "dog")
            if again:
                again.note()


def test_what_is_learnt_is_kept_and_the_last_correction_can_be_taken_back(made, tmp_path):
    watcher, _ = watcher_of(made, tmp_path / "store")
    before = watcher.learner.delta
    corrected(watcher, made)
    kept = Store(tmp_path / "store").peek().delta
    assert kept.class_names == (*CLASSES, "dog")
    assert [part.backbone for part in kept.parts] == [part.backbone for part in before.parts]
    assert kept.head.counts.tolist() == [9, 9, 9, 4]
    watcher.undo()
    assert watcher.learner.delta.head.counts.tolist() == [9, 9, 9, 3]


@each("name", ["toy", "toy+second"])
def test_the_command_that_is_proposed_adapts_the_networks_of_the_delta(made, tmp_path, name):
    watcher, backbone = watcher_of(made, tmp_path / "store", name)
    again = Readaptation(watcher, "ask", backbone)
    corrected(watcher, made, again)
    again.wanted = True
    (said,) = again.due()
    assert tt(*said.command[1:], "-q", "--force", "--policy", "none") == 0
    assert Store(tmp_path / "store").peek().delta.backbone == watcher.learner.delta.backbone


def test_both_networks_are_trained_again_and_judged_by_images_held_out(made, tmp_path, monkeypatch):
    watcher, backbone = watcher_of(made, tmp_path / "store")
    again = Readaptation(watcher, "auto", backbone)
    corrected(watcher, made, again)
    again.wanted = True
    monkeypatch.setattr("tinytrain.pipeline.committee.adapt", partial(adapt, force=True))
    monkeypatch.setattr("tinytrain.stream.readapt._accuracy", lambda *_: 0.5)
    (said,) = again.due()
    assert said.done and "50% of 4 held-out images are right" in said.text
    trial = watcher.learner.delta
    assert not Store(tmp_path / "store").peek().confirmed and trial.class_names == (*CLASSES, "dog")
    assert any(part.slices for part in trial.members)


def test_auto_takes_what_can_be_adapted_as_the_options_say(made, capsys, monkeypatch):
    pair = f"{made / 'toy.safetensors'}+{made / 'second.safetensors'}"  # has no codes for int8
    monkeypatch.setattr("tinytrain.api.opening.choices", lambda *_: (pair, "small"))
    words = ("adapt", made / "photos", "--backbone", "auto", "--no-train")
    assert tt(*words, "--precision", "int8") == 0
    assert "--backbone auto is small\n" in capsys.readouterr().err


def test_a_result_does_not_replace_one_of_the_networks(made, capsys):
    networks = f"small+{made / 'second.safetensors'}"
    words = ("adapt", made / "photos", "--backbone", networks, "--out", made / "second.safetensors")
    before = (made / "second.safetensors").read_bytes()
    assert tt(*words) == 2 and "second.safetensors" in capsys.readouterr().err
    assert (made / "second.safetensors").read_bytes() == before


def test_a_network_file_which_holds_one_network_is_refused(made, tmp_path, capsys):
    delta = made / "toy+second.delta.safetensors"
    assert tt("export", delta, "-o", tmp_path / "a.safetensors") == 2
    assert "holds one network, toy+second has 2; write .onnx, .tflite or .delta" in capsys.readouterr().err
    assert tt("export", delta, "-o", tmp_path / "a.onnx", "--json") == 0
    assert (tmp_path / "a.onnx").exists() and not (tmp_path / "a.safetensors").exists()


@each("words", [("emit", "-o", "out"), ("simulate", "--board", "stm32h743"), ("plan",)])
def test_what_takes_one_network_names_those_that_it_could_take(made, capsys, words):
    networks = f"{made / 'toy.safetensors'}+{made / 'second.safetensors'}"
    assert tt(words[0], made / "photos", *words[1:], "--backbone", networks) == 2
    said = "takes one network, toy+second has 2; name one of them: toy or second"
    assert said in capsys.readouterr().err
    if call := {"emit": tinytrain.emit, "plan": tinytrain.make_plan}.get(words[0]):
        with pytest.raises(UsageError, match=re.escape(said)):
            call(networks, made / "photos", *words[2:])
