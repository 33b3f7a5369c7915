"""Clients with toy images that take part in rounds of a server over HTTP, each in a thread of its own."""

import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
from toydevices import ONE

from tinytrain import kernels
from tinytrain.base.errors import InputError
from tinytrain.delta.file import encode_delta
from tinytrain.delta.merge import merge
from tinytrain.episode.episode import Episode
from tinytrain.federate import client as sides
from tinytrain.federate import task as tasks
from tinytrain.federate.work import Client
from tinytrain.pipeline.toy import toy_images, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
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
    return Client(NETWORK, episode, Budget(10**6), ONE)


CLIENTS = {name: client(k) for k, name in enumerate(NAMES)}


def recipe_for_all():
    """Of layers that every client trains, in two steps a round."""
    task = TaskShape.of(CLIENTS["ann"].episode)
    return tasks.recipe_of(Planner(NETWORK, task, "bias_only", Budget(10**6)).plan(None), NETWORK, 2)


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


def keys_in(root):
    """Private keys of all clients and of a stranger by name, and the public ones of the clients."""
    pytest.importorskip("cryptography", reason="keys need the extra [keys]")
    found = {}
    for name in (*NAMES, "stranger"):
        make_key(root / name)
        found[name] = private_key(root / name)
    (root / "fleet.pub").write_bytes(b"".join((root / f"{name}.pub").read_bytes() for name in NAMES))
    return found, public_keys(root / "fleet.pub")
