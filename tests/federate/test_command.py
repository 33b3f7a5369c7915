"""``tinytrain federate``: what cannot be is one line with the remedy, before any image is looked at."""

import json
import socket
import subprocess
import sys

import pytest
from cases import each
from commandline import tt
from toyfiles import write_images, write_network

from tinytrain import federate
from tinytrain.base.errors import InputError
from tinytrain.base.sockets import bound
from tinytrain.federate.client import Server
from tinytrain.trust.keys import make_key


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("federate")
    write_network(root)
    write_images(root / "images")
    (root / "token").write_text("a-secret-of-16-letters\n")
    return root


def refused(capsys, *words):
    code, err = tt("federate", *words), capsys.readouterr().err
    assert err.count("\n") == 1, err
    return code, err


def test_a_server_without_flower_says_what_to_install(folder, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("tinytrain.federate.", "flwr"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    monkeypatch.delattr("tinytrain.federate.grid", raising=False)
    monkeypatch.delattr("tinytrain.federate.rounds", raising=False)
    code, err = refused(capsys, "server", folder / "state", "-o", folder / "x.safetensors")
    assert (
        code == 3
        and "package-missing: a server needs flwr, which is not installed" in err
        and "pip install 'flwr" in err
    )
    assert not (folder / "state").exists()


def test_a_client_without_a_server_gives_up_in_one_line(folder, capsys):
    words = ("images", "--backbone", "toy.safetensors", "--patience", "0.01", "-o", "x.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, err = refused(capsys, "client", "http://127.0.0.1:9", *words)
        assert code == 3 and "download-failed: http://127.0.0.1:9: no answer for 0.01 s" in err
        code, err = refused(capsys, "client", "127.0.0.1", *words)
        assert code == 2 and "is not like http://pi.local:8765" in err
        code, err = refused(capsys, "client", "http://127.0.0.1:9", *words, "--token-file", "toy.safetensors")
        assert code == 3 and "toy.safetensors" in err
        for name in ("", "../x", "a b"):
            code, err = refused(capsys, "client", "http://127.0.0.1:9", *words, "--name", name)
            assert code == 3 and f"bad-value: {name!r} is no name of a client; give up to 64" in err
    assert not (folder / "x.safetensors").exists()


def test_a_client_whose_key_is_none_asks_nobody(folder, capsys, monkeypatch):
    pytest.importorskip("cryptography", reason="keys need the extra [keys]")
    monkeypatch.chdir(folder)
    words = ("http://127.0.0.1:9", "images", "--key", "toy.safetensors", "-o", "x.safetensors")
    code, err = refused(capsys, "client", *words)
    assert code == 3 and "file-kind: toy.safetensors holds no private key" in err


@each(
    "more, text",
    [
        (["--layers", "2"], "with it goes --plan, and only with it"),
        (["--plan", "plan.json"], "with it goes --plan, and only with it"),
        (["--steps", "3"], "are of rounds of layers; give --layers"),
        (["--strategy", "krum"], "are of rounds of layers; give --layers"),
        (["--least", "3"], "--least 3 answers never come from 2 clients"),
        (["--host", "0.0.0.0"], "is open to others; give --token-file"),
        (["--head", "cosine"], "cosine"),
    ],
)
def test_a_server_that_cannot_be_is_one_line(folder, capsys, more, text):
    words = (folder / "state", "--backbone", folder / "toy.safetensors", "-o", folder / "x.safetensors")
    code, err = refused(capsys, "server", *words, *more)
    assert code == 2 and text in err and not (folder / "state").exists()


@each(
    "host, port, remedy", [("127.0.0.1", 2**16, "--port"), ("192.0.2.1", 0, "--host"), ("::g", 0, "--host")]
)
def test_an_address_that_cannot_be_used_names_the_option_that_is_wrong(host, port, remedy):
    with pytest.raises(InputError, match=rf"^system: port {port} of {host} .*; give another {remedy}$"):
        bound(host, port)


@each("keys", ["", "images", "toy.safetensors"])
def test_a_server_whose_keys_are_none_opens_to_nobody(folder, capsys, monkeypatch, keys):
    """Such as ``--signed-by "$KEYS"`` where that is not set."""
    for name in ("flwr", "cryptography"):
        pytest.importorskip(name, reason="a server needs Flower, and keys the extra [keys]")
    monkeypatch.chdir(folder)
    words = ("state", "--backbone", "toy.safetensors", "-o", "x.safetensors", "--deadline", "0.01")
    code, err = refused(capsys, "server", *words, "--port", "0", "--signed-by", keys)
    assert code == 3 and "listening" not in err and not (folder / "state").exists()


class Answer:
    """An answer of a server that ended `length` bytes too early."""

    def __init__(self, data, length=0):
        self.length, self.read, self.close = length, lambda limit: data, lambda: None

    __enter__, __exit__ = (lambda self: self), (lambda self, *_: None)


def test_an_answer_that_ended_too_early_is_asked_for_again(monkeypatch):
    answers = [Answer(b"ta", 2), Answer(b"task")]
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: answers.pop(0))
    assert Server("http://pi:1", "ann", poll=0).ask("/task") == b"task" and not answers


def test_a_client_sends_its_name_and_its_token_and_reads_the_answer(monkeypatch):
    seen = []

    def answered(request, timeout):
        seen.append((request.full_url, request.get_header("Authorization"), request.data))
        return Answer(b"task")

    monkeypatch.setattr("urllib.request.urlopen", answered)
    assert Server("http://pi:1", "a b", "secret").ask("/answer", b"data", round=3) == b"task"
    assert seen == [("http://pi:1/answer?name=a+b&round=3", "Bearer secret", b"data")]


def test_an_empty_name_of_a_token_file_opens_no_server_to_others(folder, capsys):
    """Such as ``--token-file "$TOKEN"`` where that is not set."""
    pytest.importorskip("flwr", reason="a server needs Flower")
    words = ("--backbone", folder / "toy.safetensors", "-o", folder / "x.safetensors", "--deadline", "0.01")
    host = ("--host", "0.0.0.0", "--token-file", "", "--port", "0")
    code, err = refused(capsys, "server", folder / "state", *host, *words)
    assert code == 6 and "listening" not in err


def test_the_strategies_of_the_command_are_those_of_the_server():
    pytest.importorskip("flwr", reason="a server needs Flower")
    from tinytrain.federate import rounds

    assert tuple(rounds.STRATEGIES) == federate.STRATEGIES


@pytest.mark.slow  # three processes
def test_a_server_and_two_clients_are_three_commands_that_write_the_same_file(tmp_path):
    for name in ("flwr", "cryptography"):
        pytest.importorskip(name, reason="a server needs Flower, and keys the extra [keys]")
    write_network(tmp_path)
    keys = tmp_path / "keys"
    keys.mkdir()
    called = {name: make_key(keys / name) for name in ("one", "two")}
    (tmp_path / "fleet.pub").write_bytes(b"".join((keys / f"{name}.pub").read_bytes() for name in called))
    write_images(tmp_path / "one", ("ant", "bee"))
    write_images(tmp_path / "two", ("cat", "dog"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = ("--port", port, "--signed-by", tmp_path / "fleet.pub")
    commands = {"server": ("server", tmp_path / "state", "--clients", 2, *where)}
    for name in called:
        who = ("--name", name, "--key", keys / name)
        commands[name] = ("client", f"http://127.0.0.1:{port}", tmp_path / name, *who)
    more = ("--backbone", tmp_path / "toy.safetensors", "--json", "-q", "-o")
    running = {}
    for name, words in commands.items():
        program = [sys.executable, "-m", "tinytrain", "federate", *words, *more, tmp_path / f"{name}.out"]
        running[name] = subprocess.Popen([*map(str, program)], stdout=subprocess.PIPE)
    said = {name: json.loads(process.communicate()[0]) for name, process in running.items()}
    assert said["server"]["rounds"][0]["answered"] == ["one", "two"]
    assert said["one"]["classes"] == ["ant", "bee", "cat", "dog"]
    assert len([*tmp_path.glob("state/round-1/*.sig")]) == 2
    written = {(tmp_path / f"{name}.out").read_bytes() for name in commands}
    assert len(written) == 1 and tt("predict", tmp_path / "one.out", tmp_path / "one/ant/0-0.png") == 0
