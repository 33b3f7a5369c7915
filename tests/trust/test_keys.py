"""A signature says whose a delta is: by an oracle, in a store that takes signed ones only, and in merges."""

import os
import shutil
import stat
import subprocess

import pytest
from cases import each
from commandline import tt
from devices import made_up
from headdata import embeddings

import tinytrain
from tinytrain.base.errors import InputError
from tinytrain.delta.classes import rename
from tinytrain.delta.file import save_delta
from tinytrain.store import Store

pytest.importorskip("cryptography", reason="keys need the extra [keys]")
from tinytrain.trust import keys
from tinytrain.trust.keys import SIGNATURE, make_key, sign

X, LABELS = embeddings(30)
SM2 = b"""-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoEcz1UBgi0DQgAErtVZpOTJ1Q2ysyFTkop/zwqZLEHK
7Pq+jax4hDANdRE3HLLUvs3cSgClviKVhfHZfsZiIPifgUYIKRbDmWn1Kw==
-----END PUBLIC KEY-----
"""  # of a curve that the package does not know


def write_delta(path, n=30):
    save_delta(path, made_up(X[:n], LABELS[:n]))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Keys of an owner and of a stranger, and a delta that each of them has signed."""
    root = tmp_path_factory.mktemp("keys")
    for name in ("owner", "stranger"):
        make_key(root / f"{name}.key")
        sign(write_delta(root / f"{name}.delta"), root / f"{name}.key")
    write_delta(root / "nobody.delta")
    (root / "both.pub").write_bytes(
        b"".join((root / f"{n}.key.pub").read_bytes() for n in ("stranger", "owner"))
    )
    return root


def test_a_private_key_is_for_its_owner_alone_and_no_key_is_replaced(made, capsys):
    key = made / "owner.key"
    before = key.read_bytes(), (made / "owner.key.pub").read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    (made / "third.key.pub").write_text("here")
    for name in ("owner", "third"):
        assert tt("sign", "--new-key", made / f"{name}.key") == 6
        assert "is there already" in capsys.readouterr().err and not (made / "third.key").exists()
    assert (key.read_bytes(), (made / "owner.key.pub").read_bytes()) == before


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_openssl_says_the_same_of_a_signature(made, tmp_path):
    words = ["openssl", "pkeyutl", "-verify", "-pubin", "-rawin", "-inkey", made / "owner.key.pub"]
    right = [*words, "-in", made / "owner.delta", "-sigfile", made / "owner.delta.sig"]
    assert subprocess.run(right, capture_output=True).returncode == 0
    wrong = [*words, "-in", made / "owner.delta", "-sigfile", made / "stranger.delta.sig"]
    assert subprocess.run(wrong, capture_output=True).returncode != 0


def test_the_command_signs_and_checks(made, tmp_path, capsys):
    path = shutil.copy(made / "nobody.delta", tmp_path / "mine")
    assert tt("sign", "--new-key", tmp_path / "a.key") == 0
    assert tt("sign", path, "--key", tmp_path / "a.key") == 0
    called = capsys.readouterr().out.split()[-1]
    assert tt("sign", path, "--check", tmp_path / "a.key.pub") == 0
    assert capsys.readouterr().out == f"{path} is signed with key {called}\n"
    assert tt("sign", path, "--check", made / "both.pub") == 3
    assert "is of no key in" in capsys.readouterr().err
    two, key = (path, "--key", "a", "--check", "b"), tmp_path / "a.key"
    for words in ((), (path,), two, (path, "--new-key", tmp_path / "b.key"), ("--key", key)):
        assert tt("sign", *words) == 2
    for key in (made / "owner.key.pub", made / "owner.delta", tmp_path / "none"):
        assert tt("sign", path, "--key", key) == 3
    assert tt("sign", path, "--check", made / "owner.key") == 3
    err = capsys.readouterr().err
    assert (
        err.count("\n") == 5 + 4
        and "holds no public key (Ed25519, PEM); 'tinytrain sign --new-key NAME'" in err
    )


@each("keys", [SM2, SM2.replace(b"MFkw", b"MFkx"), b"none"])
def test_keys_of_another_kind_are_refused_in_one_line(made, tmp_path, capsys, keys):
    (tmp_path / "keys.pub").write_bytes((made / "owner.key.pub").read_bytes() * (keys != b"none") + keys)
    assert tt("sign", made / "owner.delta", "--check", tmp_path / "keys.pub") == 3
    err = capsys.readouterr().err
    assert "file-kind: " in err and "holds no public key" in err and err.count("\n") == 1


def test_adapt_refuses_a_store_of_signed_deltas_before_it_looks_at_an_image(made, tmp_path, capsys):
    Store(tmp_path / "state").commit_file(made / "owner.delta", made / "owner.key.pub")
    assert tt("adapt", tmp_path / "no-images", "--store", tmp_path / "state") == 3
    assert "takes files alone that are signed" in capsys.readouterr().err


@each("changed", ["delta", "signature", "none", "short"])
def test_a_store_takes_what_a_key_of_its_has_signed_and_nothing_else(made, tmp_path, changed):
    state, owner = tmp_path / "state", made / "owner.key.pub"
    with pytest.raises(InputError, match=r"file-damaged: .* is of no key in"):
        Store(state).commit_file(made / "stranger.delta", owner)
    assert not state.exists()
    assert Store(state).commit_file(made / "owner.delta", made / "both.pub") == 1
    assert Store(state).commit_file(made / "stranger.delta") == 2
    assert Store(state).commit_file(made / "owner.delta", owner) == 3, "now only hers"
    other = tmp_path / "other.delta"
    data, signature = (bytearray((made / f"owner.delta{end}").read_bytes()) for end in ("", SIGNATURE))
    if changed == "delta":  # another one, with the signature of hers
        data = (write_delta(tmp_path / "less", 24)).read_bytes()
    elif changed == "signature":
        signature[5] ^= 1
    elif changed == "short":
        signature = signature[:-1]
    other.write_bytes(data)
    if changed != "none":
        (tmp_path / "other.delta.sig").write_bytes(signature)
    before = sorted((p.name, p.read_bytes()) for p in state.iterdir())
    with pytest.raises(InputError, match="file-missing" if changed == "none" else "file-damaged"):
        Store(state).commit_file(other)
    assert sorted((p.name, p.read_bytes()) for p in state.iterdir()) == before


def test_a_store_of_signed_deltas_goes_on_with_what_the_device_makes_of_them(made, tmp_path):
    Store(tmp_path).commit_file(made / "owner.delta", made / "owner.key.pub")
    start = Store(tmp_path).start()
    own = rename(start.delta, "class 0", "emu")
    with pytest.raises(InputError, match=r"file-missing: .* takes files alone that are signed"):
        Store(tmp_path).commit(own)
    assert Store(tmp_path).commit(own, start.place) == 2
    assert Store(tmp_path).peek().delta.class_names[0] == "emu"


def test_keys_that_are_damaged_stop_everything_that_comes_from_elsewhere(made, tmp_path, capsys):
    Store(tmp_path).commit_file(made / "owner.delta", made / "owner.key.pub")
    (tmp_path / "tinytrain.keys").write_bytes(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    assert tt("apply", made / "owner.delta", "--store", tmp_path) == 3
    assert "holds no public key" in capsys.readouterr().err
    assert Store(tmp_path).start().delta is not None


def test_merge_takes_signed_deltas_only_if_it_is_told_to(made, tmp_path, capsys):
    write_delta(tmp_path / "more", 24)
    words = (
        "merge",
        made / "owner.delta",
        tmp_path / "more",
        "-o",
        tmp_path / "all",
        "--signed-by",
        made / "both.pub",
    )
    assert tt(*words) == 3
    assert "more is not signed" in capsys.readouterr().err and not (tmp_path / "all").exists()
    sign(tmp_path / "more", made / "stranger.key")
    assert tt(*words) == 0 and tinytrain.load_delta(tmp_path / "all").head.total == 54
    assert tt("apply", tmp_path / "all", "--store", tmp_path / "state", "--signed-by", made / "both.pub") == 3
    assert not os.path.exists(tmp_path / "state")


def test_a_name_of_keys_that_is_empty_takes_nothing_unsigned(made, tmp_path, capsys):
    """Such as ``--signed-by "$KEYS"`` where that is not set."""
    state = tmp_path / "state"
    assert tt("apply", made / "nobody.delta", "--store", state, "--signed-by", "") == 3 and not state.exists()
    assert tt("merge", made / "nobody.delta", made / "owner.delta", "--signed-by", "", "-o", state) == 3
    assert not state.exists()


def test_the_part_that_is_taken_out_of_a_merged_delta_must_be_signed_as_well(made, tmp_path, capsys):
    write_delta(tmp_path / "part", 24)
    assert tt("merge", made / "owner.delta", tmp_path / "part", "-o", tmp_path / "all") == 0
    sign(tmp_path / "all", made / "owner.key")
    words = ("merge", tmp_path / "all", "--without", tmp_path / "part", "-o", tmp_path / "rest")
    assert tt(*words, "--signed-by", made / "owner.key.pub") == 3
    assert "part is not signed" in capsys.readouterr().err and not (tmp_path / "rest").exists()
    sign(tmp_path / "part", made / "owner.key")
    assert tt(*words, "--signed-by", made / "owner.key.pub") == 0


def test_the_bytes_that_are_merged_are_those_whose_signature_was_checked(made, tmp_path, monkeypatch):
    """Whoever shares the folder could put another file there in between."""
    for name, n in (("one", 30), ("two", 24)):
        sign(write_delta(tmp_path / name, n), made / "owner.key")
    check = keys.check_signed

    def replaced_after(path, data, known):
        found = check(path, data, known)
        write_delta(path, 9)
        return found

    monkeypatch.setattr(keys, "check_signed", replaced_after)
    given = (tmp_path / "one", tmp_path / "two", "-o", tmp_path / "all")
    assert tt("merge", *given, "--signed-by", made / "owner.key.pub") == 0
    assert tinytrain.load_delta(tmp_path / "all").head.total == 54
