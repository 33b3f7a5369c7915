"""What a server says to whoever asks it over HTTP, and which answers it takes."""

import contextlib
import http.client
import socket
import struct
import tempfile
import threading
import urllib.parse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import each
from toyrounds import CLIENTS, NAMES, asked_for, held, keys_in, listening, recipe_for_all

from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import encode
from tinytrain.federate import client as sides
from tinytrain.federate import task as tasks


@pytest.fixture(scope="module")
def recipe():
    return recipe_for_all()


@each("wrong", [lambda a: a + np.float32("nan"), lambda a: a[:-1], lambda a: a.astype("i4")])
def test_an_answer_that_is_none_is_refused_with_a_reason_and_its_place_is_free_for_another_one(recipe, wrong):
    with tempfile.TemporaryDirectory() as folder:
        folder, asked = Path(folder), asked_for(recipe, 1, least=1)
        places = held(asked, folder, 1)
        ended = threading.Thread(target=asked.run_layers, args=(places, 1, asked.begin()))
        with listening(places) as address:
            ended.start()
            ann, liar = (sides.Server(address, name) for name in ("ann", "liar"))
            while not (data := liar.ask("/task", round=0)):
                pass
            task, arrays = tasks.decode_task(data, "")
            with pytest.raises(InputError, match=r"(run-mismatch|delta-not-finite)"):
                lie = {name: wrong(a) for name, a in arrays.items()}
                liar.ask("/answer", encode(lie, {"images": "5"}), round=1)
            assert not list((folder / "round-1").iterdir()) and ended.is_alive()
            ann.ask("/answer", CLIENTS["ann"].answer(task, arrays), round=1)
            ended.join()
            with pytest.raises(InputError, match="round 1 is over"):
                ann.ask("/answer", CLIENTS["ann"].answer(task, arrays), round=1)
            with pytest.raises(InputError, match="of 1 places none is free"):
                liar.ask("/task")


def test_what_is_no_name_and_what_is_not_known_is_refused(tmp_path):
    with listening(held(asked_for(), tmp_path, 1)) as address:
        assert sides.Server(address, "ann").ask("/task") == b"", "nothing is asked for yet"
        for name in ("", "../ann", "a" * 65):
            with pytest.raises(InputError, match=r"run-mismatch: .* refused: "):
                sides.Server(address, name).ask("/task")
        for path in ("/", "/answer"):
            with pytest.raises(InputError, match="is not known here"):
                sides.Server(address, "ann").ask(path)
        place = urllib.parse.urlsplit(address).netloc
        with contextlib.closing(http.client.HTTPConnection(place, timeout=60)) as connection:
            length = f"{1:012}{10**20}"  # whose first digits are those of a small number
            connection.request("POST", "/answer?name=ann", b"x", {"Content-Length": length})
            assert b"is not known here" in connection.getresponse().read()
        with pytest.raises(InputError, match="round 7 is over"):
            sides.Server(address, "ann").ask("/answer", b"late", round=7)
        with pytest.raises(InputError, match="round must be a number"):
            sides.Server(address, "ann").ask("/task", round="x")


def test_a_client_that_goes_in_the_middle_of_its_answer_leaves_no_trace(tmp_path, capfd):
    with listening(held(asked_for(), tmp_path, 1)) as address:
        host, port = address.removeprefix("http://").split(":")
        for part in (
            b"POST /answer?name=ann&round=1 HTTP/1.0\r\nContent-Length: 999\r\n\r\nabc",
            b"GET /ta",
            b"",
        ):
            with socket.create_connection((host, int(port))) as gone:
                gone.sendall(part)
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        assert sides.Server(address, "ann").ask("/task") == b""
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6")
def test_an_address_of_version_6_is_one_that_clients_can_use(tmp_path):
    with listening(held(asked_for(), tmp_path), "::1") as address:
        assert address.startswith("http://[::1]:") and sides.Server(address, "ann").ask("/task") == b""


def test_who_has_no_token_is_told_nothing(tmp_path):
    with listening(held(asked_for(), tmp_path, 1), token="a-secret-of-some-length") as address:
        for token in (None, "another-secret-of-length"):
            with pytest.raises(InputError, match="wants the token in its --token-file"):
                sides.Server(address, "ann", token).ask("/task")
        assert sides.Server(address, "ann", "a-secret-of-some-length").ask("/task") == b""


def test_an_answer_counts_only_with_a_signature_of_its_sender_for_this_very_task(tmp_path):
    (keys, known), asked = keys_in(tmp_path), asked_for(least=2)
    places = held(asked, tmp_path, 2)
    places.keys = known
    ended = threading.Thread(target=asked.run_heads, args=(places, {}))
    with listening(places) as address:
        ended.start()
        ann, bob = (sides.Server(address, name) for name in NAMES[:2])
        while not (data := ann.ask("/task", round=0)):
            pass
        task, arrays = tasks.decode_task(data, "")
        answers = {name: CLIENTS[name].answer(task, arrays) for name in NAMES[:2]}

        def signed(key="ann", asked=data, name="ann", answer=answers["ann"]):
            return keys[key].sign(tasks.to_sign(asked, name, answer)).hex()

        other = tasks.encode_task(replace(task, rounds=2), arrays)
        for wrong, text in (
            ("", "signed by none of 5 known keys"),
            (signed("stranger"), "signed by none"),
            (signed(asked=other), "signed by none"),
            (signed(name="bob"), "signed by none"),
            (signed(answer=answers["bob"]), "signed by none"),
            (signed()[:-2], "signed by none"),
            ("xyz", "signature hex"),
        ):
            with pytest.raises(InputError, match=text):
                ann.ask("/answer", answers["ann"], round=1, signature=wrong)
        assert not any((tmp_path / "round-1").iterdir()) and not places.replies
        ann.ask("/answer", answers["ann"], round=1, signature=signed())
        with pytest.raises(InputError, match="give each client one name, and a key of its own"):
            bob.ask("/answer", answers["bob"], round=1, signature=signed("ann", data, "bob", answers["bob"]))
        bob.ask("/answer", answers["bob"], round=1, signature=signed("bob", data, "bob", answers["bob"]))
        ended.join()
    assert sorted(places.replies) == ["ann", "bob"]
