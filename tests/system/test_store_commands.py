"""The commands of the store, from adaptation to roll-back, as a user runs them."""

import errno
import json
import os

import pytest
from cases import each
from toyfiles import two_deltas, write_images, write_network

from tinytrain.cli.main import main
from tinytrain.delta.file import encode_delta, save_delta
from tinytrain.pipeline.toy import toy_network
from tinytrain.store import Store
from tinytrain.store.folder import LOCK, Folder


@pytest.fixture(scope="module")
def network():
    return toy_network()


@pytest.fixture(scope="module")
def deltas(network):
    return two_deltas(network)


@pytest.fixture
def tt(capsys):
    """Runs a command with --json: exit code, its object (or nothing) and stderr."""

    def run(*arguments):
        capsys.readouterr()
        code = main([str(a) for a in (*arguments, "--json")])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return run


def test_the_commands_from_adaptation_to_roll_back(tt, tmp_path):
    write_network(tmp_path)
    write_images(tmp_path / "photos", count=4)
    backbone = ("--backbone", tmp_path / "toy.safetensors")
    adapt_it = ("adapt", tmp_path / "photos", "--policy", "last_layer", *backbone)
    store = ("--store", tmp_path / "store")
    image = next((tmp_path / "photos" / "ant").iterdir())

    assert tt("status", *store)[0] == 3
    code, _, err = tt(*adapt_it, *store)
    assert code == 0 and "generation 1 is on trial" in err and "no delta was written" not in err
    assert tt("status", *store)[1]["starts_left"] == 2
    code, result, err = tt("predict", tmp_path / "store", image, *backbone)
    assert code == 0 and len(result["images"]) == 1 and "on trial, 1 of 2 starts used" in err
    assert tt("confirm", *store)[1]["generation"] == 1
    assert tt(*adapt_it, "--seed", 1, "--out", tmp_path / "d.safetensors")[0] == 0
    assert tt("apply", tmp_path / "d.safetensors", *store)[1]["generation"] == 2
    assert (tmp_path / "store" / "tinytrain-2.delta").read_bytes() == (
        tmp_path / "d.safetensors"
    ).read_bytes()
    assert tt("eval", tmp_path / "store", tmp_path / "photos", *backbone)[0] == 0
    facts = tt("status", *store)[1]
    assert (facts["current"]["generation"], facts["previous"]["generation"]) == (2, 1)
    assert facts["starts"] == 0 and facts["current"]["classes"] == ["ant", "bee", "cat"]
    assert tt("rollback", *store)[1]["generation"] == 1
    assert tt("rollback", *store)[0] == 3


def test_mistyped_names_broken_images_and_unknown_backbones_are_no_start(tt, tmp_path, deltas, monkeypatch):
    write_network(tmp_path)
    write_network(tmp_path, seed=1, name="other")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"nothing")
    write_images(tmp_path / "photos", count=1)
    Store(tmp_path / "store").commit(deltas[0])
    image = next((tmp_path / "photos" / "ant").iterdir())
    for network, shown in (("toy", tmp_path / "no.png"), ("no", image), ("toy", broken), ("other", image)):
        predict = ("predict", tmp_path / "store", shown, "--backbone", tmp_path / f"{network}.safetensors")
        assert tt(*predict)[0] == 3
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))  # without the note of where "toy" lies
    code, result, _ = tt("predict", tmp_path / "store", image)
    assert code == 3 and result["error"]["code"] == "backbone-not-here"
    assert tt("status", "--store", tmp_path / "store")[1]["starts"] == 0


@pytest.mark.parametrize("lock", ["held", "cannot be opened"])
def test_a_prediction_waits_once_at_most_for_a_store_that_it_cannot_lock(
    tt, tmp_path, deltas, monkeypatch, lock
):
    write_network(tmp_path)
    write_images(tmp_path / "photos", count=1)
    store, image = tmp_path / "store", next((tmp_path / "photos" / "ant").iterdir())
    for delta in deltas:
        Store(store).commit(delta)
        Store(store).confirm()
    Store(store).commit(deltas[0])
    waits = []
    monkeypatch.setattr("tinytrain.store.folder.lock_within", lambda _, seconds: waits.append(seconds))
    if lock == "cannot be opened":
        (store / LOCK).unlink()
        (store / LOCK).mkdir()
        (store / LOCK / "inside").touch()
    code, result, err = tt("predict", store, image, "--backbone", tmp_path / "toy.safetensors")
    assert code == 0 and len(result["images"]) == 1 and "could not be counted" in err
    assert len([seconds for seconds in waits if seconds]) == (lock == "held")


def test_a_delta_for_another_backbone_is_taken_out_and_the_one_before_used(tt, tmp_path, deltas):
    write_network(tmp_path)
    write_network(tmp_path, seed=1, name="other")
    write_images(tmp_path / "photos", count=4)
    store, image = tmp_path / "store", next((tmp_path / "photos" / "ant").iterdir())
    Store(store).commit(deltas[0])
    Store(store).confirm()
    adapt_it = ("adapt", tmp_path / "photos", "--policy", "last_layer", "--store", store)
    assert tt(*adapt_it, "--backbone", tmp_path / "other.safetensors")[0] == 0
    predict = ("predict", store, image, "--backbone", tmp_path / "toy.safetensors")
    assert [tt(*predict)[0] for _ in range(3)] == [3, 3, 0]


def test_a_new_store_may_be_named_with_a_slash(tt, tmp_path):
    write_network(tmp_path)
    write_images(tmp_path / "photos", count=4)
    adapt_it = ("adapt", tmp_path / "photos", "--policy", "last_layer")
    assert tt(*adapt_it, "--backbone", tmp_path / "toy.safetensors", "--store", f"{tmp_path}/store/")[0] == 0
    assert tt("status", "--store", tmp_path / "store")[1]["current"]["generation"] == 1


def test_status_as_text(tmp_path, deltas, capsys):
    store = Store(tmp_path)
    store.commit(deltas[0])
    assert main(["status", "--store", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert (
        "generation 1" in out and "on trial, 0 of 2 starts used" in out and "before  the bare network" in out
    )
    store.roll_back()
    assert main(["status", "--store", str(tmp_path)]) == 0
    assert "the bare network" in capsys.readouterr().out


def test_a_store_that_cannot_be_written_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / "file").write_bytes(b"x")
    for store in (tmp_path / "file", tmp_path / "no" / "store"):
        assert main(["adapt", "--store", str(store)]) == 6
        assert capsys.readouterr().err.count("\n") == 1


@each("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES, errno.EDQUOT])
@each("operation", ["open", "write", "fsync", "replace"])
def test_a_failing_file_system_is_exit_code_6(deltas, tmp_path, monkeypatch, capsys, operation, number):
    save_delta(tmp_path / "d.safetensors", deltas[1])
    store = Store(tmp_path / "store")
    store.commit(deltas[0])
    store.confirm()
    real = getattr(os, operation)

    def fail(path, *arguments, **options):
        if operation == "open" and not (arguments and arguments[0] & os.O_CREAT):
            return real(path, *arguments, **options)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, operation, fail)
        code = main(["apply", str(tmp_path / "d.safetensors"), "--store", str(tmp_path / "store")])
    out, err = capsys.readouterr()
    assert code == 6 and out == "" and err.count("\n") == 1 and os.strerror(number) in err
    assert encode_delta(store.start().delta) == encode_delta(deltas[0])
    assert len(Folder(tmp_path / "store").names()) <= 3
