"""A server and its clients over HTTP: rounds end as they should, whoever is late, killed or wrong."""

import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import each
from commandline import tt
from toyfiles import write_images, write_network

from tinytrain import federate, kernels
from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import decode, encode, read_file
from tinytrain.delta.file import decode_delta, encode_delta, load_delta
from tinytrain.delta.merge import merge, without
from tinytrain.episode.episode import Episode
from tinytrain.federate import client as sides
from tinytrain.federate import task as tasks
from tinytrain.federate.work import Client
from tinytrain.pipeline.toy import toy_images, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.runtime.device import Device
from tinytrain.trust.keys import make_key, private_key, public_keys

pytest.importorskip("flwr", reason="servers put layers together by strategies of Flower")
from tinytrain.federate import grid, rounds, server

NETWORK = toy_network()
NAMES = ("ann", "bob", "cyd", "dan", "eve")


def client(k: int, shots: int = 6) -> Client:
    """Number `k` of those that have two classes each."""
    looks = toy_images(np.repeat([2 * k, 2 * k + 1], shots), seed=k)
    images = replace(looks, labels=looks.labels - np.int32(2 * k))
    episode = Episode(images, images.take([]), (f"class {2 * k}", f"class {2 * k + 1}"))
    return Client(NETWORK, episode, Budget(10**6), Device(threads=1))


CLIENTS = {name: client(k) for k, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def recipe():
    task = TaskShape.of(CLIENTS["ann"].episode)
    return tasks.recipe_of(Planner(NETWORK, task, "bias_only", Budget(10**6)).plan(None), NETWORK, steps=2)


def asked_for(recipe=None, layers=0, **more):
    return rounds.Rounds(NETWORK, "lda", layers, recipe, **{"least": 5, "deadline": 60.0, **more})


def held(asked, folder, places=5, say=lambda _: None, kind=grid.HttpGrid):
    return kind(folder, places, asked.content_of, lambda *_: None, say)


def listening(places, host="127.0.0.1", token=None):
    return grid.listening(places, host, 0, token)


class Fleet:
    """Clients that take part, each in a thread of its own; what they got or raised is in `ended` by name."""

    def __init__(self, address, keys):
        self.address, self.keys, self.ended, self.threads, self.said = address, keys, {}, [], []

    def start(self, *names):
        for name in names:
            self.threads.append(threading.Thread(target=self._run, args=(name,)))
            self.threads[-1].start()

    def _run(self, name):
        try:
            of = sides.Server(self.address, name, poll=0.01, patience=0.5, key=self.keys.get(name))
            self.ended[name] = sides.take_part(CLIENTS[name], of, self.said.append)
        except InputError as error:
            self.ended[name] = error


def run(asked, folder, names=NAMES, keys=None, known=None):
    """All rounds with the clients of these names: the merged delta, the rounds, and the fleet.

    The clients sign with `keys` by name, and the server takes what those that are `known` have signed.
    """
    said = []
    places = held(asked, folder, say=said.append)
    places.keys = known
    with listening(places) as address:
        fleet = Fleet(address, keys or {})
        fleet.start(*names)
        deltas, found, ran = server.run(asked, places)
        merged = merge(kernels.load(), deltas, found).delta
        server.finish(places, encode_delta(merged), list(names))
    for thread in fleet.threads:
        thread.join()
    fleet.said += said
    return merged, ran, fleet


def answers_of(folder, number, names, to):
    """Put the answers of clients to a round into another folder, as if they had come there."""
    (to / f"round-{number}").mkdir(parents=True)
    for name in names:
        shutil.copy(folder / f"round-{number}" / f"{name}.safetensors", to / f"round-{number}")


@pytest.fixture(scope="module")
def signing(tmp_path_factory):
    """Private keys of all clients and of a stranger by name, and the public ones of the clients."""
    pytest.importorskip("cryptography", reason="keys need the extra [keys]")
    root, found = tmp_path_factory.mktemp("keys"), {}
    for name in (*NAMES, "stranger"):
        make_key(root / name)
        found[name] = private_key(root / name)
    (root / "fleet.pub").write_bytes(b"".join((root / f"{name}.pub").read_bytes() for name in NAMES))
    return found, public_keys(root / "fleet.pub")


@pytest.fixture(scope="module")
def one_round(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    return folder, *run(asked_for(), folder)


@pytest.fixture(scope="module")
def three_rounds(tmp_path_factory, recipe):
    folder = tmp_path_factory.mktemp("layers")
    return folder, *run(asked_for(recipe, 2), folder)


def heads_alone():
    """The deltas that the clients make without any server."""
    task = tasks.Task(1, 1, NETWORK.digest, "lda")
    return [decode_delta(*decode(c.answer(task, {}))) for c in CLIENTS.values()]


def test_one_round_of_heads_gives_every_client_what_merge_makes_of_files(one_round):
    _, merged, ran, fleet = one_round
    alone = merge(kernels.load(), heads_alone(), NAMES).delta
    assert encode_delta(merged) == encode_delta(alone)
    assert fleet.ended == dict.fromkeys(NAMES, encode_delta(merged))
    assert [row.name for row in ran] == ["round 1 of 1, heads"] and ran[0].answered == NAMES


def test_rounds_of_layers_average_by_images_and_the_last_one_fits_heads_to_them(three_rounds, recipe):
    folder, merged, ran, _ = three_rounds
    assert [row.name.split(", ")[1] for row in ran] == ["layers", "layers", "heads"]
    begin = tasks.arrays_of(NETWORK, recipe)
    answers = [tasks.decode_layers(p.read_bytes(), begin, "") for p in sorted((folder / "round-1").iterdir())]
    first, _ = read_file(folder / "layers-1.safetensors")
    total = sum(images for _, images in answers)
    for name in begin:
        mean = sum(arrays[name].astype(float) * images for arrays, images in answers) / total
        assert np.allclose(first[name], mean, atol=1e-6) and (first[name] != begin[name]).any()
    second, _ = read_file(folder / "layers-2.safetensors")
    assert {f"{s.layer}.{s.part}": s.values.tobytes() for s in merged.slices} == {
        name: values.tobytes() for name, values in second.items()
    }
    merged.check_backbone(NETWORK)


@each("rounds_of", ["one_round", "three_rounds"])
def test_a_client_is_taken_out_again_by_the_answer_that_the_server_keeps(request, rounds_of):
    folder, merged, ran, _ = request.getfixturevalue(rounds_of)
    kept = {name: load_delta(folder / f"round-{len(ran)}" / f"{name}.safetensors") for name in NAMES}
    rest = without(kernels.load(), merged, kept.pop("cyd"), ("all", "cyd"))
    others = [replace(delta, slices=merged.slices) for delta in kept.values()]
    assert encode_delta(rest) == encode_delta(merge(kernels.load(), others, [*kept]).delta)


def test_bytes_of_rounds_are_those_that_came_and_went(three_rounds, recipe):
    folder, _, ran, _ = three_rounds
    asked = asked_for(recipe, 2)
    layers = [asked.begin(), *(read_file(folder / f"layers-{k}.safetensors")[0] for k in (1, 2))]
    for number, (row, arrays) in enumerate(zip(ran, layers, strict=True), 1):
        sizes = [p.stat().st_size for p in (folder / f"round-{number}").iterdir()]
        assert row.bytes_in == sum(sizes)
        assert row.bytes_out == 5 * len(tasks.encode_task(asked.task(number), arrays))


def test_a_server_that_was_stopped_goes_on_and_asks_nobody_again(three_rounds, recipe, tmp_path):
    """It was killed in the second round, when two answers to it had come."""
    folder, merged, _, _ = three_rounds
    answers_of(folder, 2, NAMES[:2], tmp_path)
    for name in ("layers-1.safetensors", "rounds.json"):
        shutil.copy(folder / name, tmp_path)
    again, ran, fleet = run(asked_for(recipe, 2), tmp_path)
    assert encode_delta(again) == encode_delta(merged)
    assert [row.name for row in ran] == ["round 2 of 3, layers", "round 3 of 3, heads"]
    assert len([line for line in fleet.said if line.startswith("round 2")]) == 3


def test_a_folder_of_other_rounds_is_refused(one_round, recipe):
    with pytest.raises(InputError, match=r"run-mismatch: .* other options; name a"):
        run(asked_for(recipe, 2), one_round[0])


def test_who_never_comes_is_waited_for_until_the_deadline_and_then_left_out(one_round, tmp_path):
    answers_of(one_round[0], 1, NAMES[:3], tmp_path)
    merged, ran, _ = run(asked_for(least=3, deadline=0.01), tmp_path, ())
    assert len(merged.class_names) == 6 and ran[0].answered == NAMES[:3]


def test_too_few_answers_end_in_one_line_and_are_kept_for_the_next_start(one_round, tmp_path):
    answers_of(one_round[0], 1, NAMES[:2], tmp_path)
    with pytest.raises(InputError, match=r"round 1 of 1, heads: 2 answers came within 0.01 s, 3"):
        run(asked_for(least=3, deadline=0.01), tmp_path, ())
    merged, _, fleet = run(asked_for(), tmp_path, NAMES[1:])
    assert encode_delta(merged) == encode_delta(one_round[1])
    assert fleet.ended["bob"] == encode_delta(merged), "bob came back, and ann did not"


@each("wrong", [lambda a: a + np.float32("nan"), lambda a: a[:-1], lambda a: a.astype("i4")])
def test_an_answer_that_is_none_is_refused_with_a_reason_and_another_one_taken(three_rounds, recipe, wrong):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        answers_of(three_rounds[0], 1, NAMES[1:], folder)
        asked = asked_for(recipe, 1)
        places = held(asked, folder)
        ended = threading.Thread(target=asked.run_layers, args=(places, 1, asked.begin()))
        with listening(places) as address:
            ended.start()
            ann = sides.Server(address, "ann")
            while not (data := ann.ask("/task", round=0)):
                pass
            task, arrays = tasks.decode_task(data, "")
            with pytest.raises(InputError, match=r"(run-mismatch|delta-not-finite)"):
                ann.ask(
                    "/answer",
                    encode({name: wrong(a) for name, a in arrays.items()}, {"images": "5"}),
                    round=1,
                )
            assert not (folder / "round-1" / "ann.safetensors").exists() and ended.is_alive()
            ann.ask("/answer", CLIENTS["ann"].answer(task, arrays), round=1)
            ended.join()
            with pytest.raises(InputError, match="round 1 is over"):
                ann.ask("/answer", CLIENTS["ann"].answer(task, arrays), round=1)


@each("strategy", ["median", "trimmed", "krum"])
def test_one_liar_of_five_moves_the_average_and_not_a_robust_strategy(three_rounds, recipe, strategy):
    def moved(strategy):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            answers_of(three_rounds[0], 1, NAMES, folder)
            asked = asked_for(recipe, 1, strategy=strategy)
            lie = tasks.encode_layers({name: a + 1000 for name, a in asked.begin().items()}, 12)
            (folder / "round-1" / "bob.safetensors").write_bytes(lie)
            found = asked.run_layers(held(asked, folder), 1, asked.begin())
            return max(float(np.abs(found[name] - a).max()) for name, a in asked.begin().items())

    assert moved(strategy) < 1 < 100 < moved("average")


def test_the_order_in_which_answers_come_changes_no_bit(three_rounds, recipe, tmp_path):
    class Backwards(grid.HttpGrid):
        def pull_messages(self, message_ids):
            return super().pull_messages(message_ids)[::-1]

    asked, rng = asked_for(recipe, 1), np.random.default_rng(0)
    (tmp_path / "round-1").mkdir()
    for name in NAMES:
        arrays = {k: rng.standard_normal(a.shape).astype("f") for k, a in asked.begin().items()}
        (tmp_path / "round-1" / f"{name}.safetensors").write_bytes(tasks.encode_layers(arrays, 7))
    found = [
        asked.run_layers(held(asked, tmp_path, kind=kind), 1, asked.begin())
        for kind in (grid.HttpGrid, Backwards)
    ]
    assert all(found[0][name].tobytes() == found[1][name].tobytes() for name in found[0])


def test_a_place_belongs_to_a_name_and_there_are_no_more_than_expected(tmp_path):
    with listening(held(asked_for(), tmp_path, 1)) as address:
        assert sides.Server(address, "ann").ask("/task") == b"", "nothing is asked for yet"
        for name in ("bob", "", "../ann", "a" * 65):
            with pytest.raises(InputError, match=r"run-mismatch: .* refused: "):
                sides.Server(address, name).ask("/task")
        for path in ("/", "/answer"):
            with pytest.raises(InputError, match="is not known here"):
                sides.Server(address, "ann").ask(path)
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


def test_an_empty_name_of_a_token_file_opens_no_server_to_others(tmp_path, capsys):
    """Such as ``--token-file "$TOKEN"`` where that is not set."""
    write_network(tmp_path)
    words = ("--backbone", tmp_path / "toy.safetensors", "-o", tmp_path / "out", "--deadline", "0.01")
    host = ("--host", "0.0.0.0", "--token-file", "", "--port", "0")
    assert tt("federate", "server", tmp_path / "state", *host, *words) == 6
    assert "listening" not in capsys.readouterr().err


def test_who_has_no_token_is_told_nothing(tmp_path):
    places = held(asked_for(), tmp_path, 1)
    with listening(places, token="a-secret-of-some-length") as address:
        for token in (None, "another-secret-of-length"):
            with pytest.raises(InputError, match="wants the token in its --token-file"):
                sides.Server(address, "ann", token).ask("/task")
        assert sides.Server(address, "ann", "a-secret-of-some-length").ask("/task") == b""
    assert places.names == ["ann"]


def test_signed_rounds_end_as_others_and_what_was_kept_is_checked_again(
    three_rounds, signing, recipe, tmp_path
):
    asked = asked_for(recipe, 2)
    merged, _, fleet = run(asked, tmp_path, keys=signing[0], known=signing[1])
    assert encode_delta(merged) == encode_delta(three_rounds[1]) and len(fleet.said) == 15
    again, *_ = run(asked, tmp_path, (), known=signing[1])
    assert encode_delta(again) == encode_delta(merged), "all answers were there"
    shutil.copy(tmp_path / "round-3/ann.safetensors", tmp_path / "round-3/bob.safetensors")
    with pytest.raises(
        InputError, match="file-damaged: bob: the answer to round 3 of 3, heads is signed by none"
    ):
        run(asked, tmp_path, (), known=signing[1])
    (tmp_path / "round-3/bob.safetensors.sig").unlink()
    with pytest.raises(InputError, match=r"file-missing: .*bob\.safetensors\.sig"):
        run(asked, tmp_path, (), known=signing[1])


def test_an_answer_counts_only_with_a_signature_of_its_sender_for_this_very_task(signing, tmp_path):
    (keys, known), asked = signing, asked_for(least=2)
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


def test_the_strategies_of_the_command_are_those_of_the_server():
    assert tuple(rounds.STRATEGIES) == federate.STRATEGIES


@pytest.mark.slow  # three processes
def test_a_server_and_two_clients_are_three_commands_that_write_the_same_file(tmp_path):
    pytest.importorskip("cryptography", reason="keys need the extra [keys]")
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
    running = {
        name: subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tinytrain",
                "federate",
                *map(str, (*words, *more, tmp_path / f"{name}.out")),
            ],
            stdout=subprocess.PIPE,
        )
        for name, words in commands.items()
    }
    said = {name: json.loads(process.communicate()[0]) for name, process in running.items()}
    assert said["server"]["rounds"][0]["answered"] == ["one", "two"]
    assert said["one"]["classes"] == ["ant", "bee", "cat", "dog"]
    assert len([*tmp_path.glob("state/round-1/*.sig")]) == 2
    written = {(tmp_path / f"{name}.out").read_bytes() for name in commands}
    assert len(written) == 1 and tt("predict", tmp_path / "one.out", tmp_path / "one/ant/0-0.png") == 0
