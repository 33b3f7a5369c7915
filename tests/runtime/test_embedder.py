"""A compiled forward pass: what the oracles embed and an adaptation caches, in fewer bytes than training."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from int8nets import toy8
from integernet import Integers
from oracle import Oracle
from toynets import images_of, relative, toy

from tinytrain.base.errors import InputError
from tinytrain.episode.episode import Images
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.recipe import Recipe, Resources, Update
from tinytrain.program.compile import compile_training
from tinytrain.program.forward import compile_forward
from tinytrain.runtime.embedder import IMAGES_OF_WORKER, Embedder
from tinytrain.runtime.predict import Predictor

FORMS = [("blocks", "float32"), ("headed", "float32"), ("blocks", "int8"), ("headed", "int8")]


def network_of(name: str, precision: str) -> Network:
    return toy8(name) if precision == "int8" else toy(name)


def drawn(network: Network, count: int = 3) -> tuple[np.ndarray, Images]:
    arrays = images_of(network.input.shape, count)
    return arrays, Images(np.zeros(count, np.int32), tuple("abc"[:count]), lambda i, size: arrays[i])


def training(network: Network, precision: str, cut: int | None = None):
    """The smallest program of a training whose frozen part ends at layer `cut`, by default the last block."""
    updates = () if cut is None else (Update(cut, bias=True),)
    recipe = Recipe("test", updates, ((0.0, 0.0),) * len(updates), steps=len(updates), head="cosine")
    resources = Resources(sets=0, micro=1, step_support=1, step_queries=1)
    return compile_training(network, recipe.in_precision(precision), resources, TaskShape(1, 2))


@each("name, precision", FORMS)
def test_a_network_without_a_delta_embeds_as_the_oracle_does(name, precision):
    network = network_of(name, precision)
    arrays, images = drawn(network)
    found = Embedder(network, precision=precision).embed(images)
    if precision == "float32":
        assert relative(found, Oracle(network).forward(arrays).embeddings) < 1e-5
    else:
        integers = Integers(network)
        want = np.stack([integers.embedding(integers.run(integers.pixels(x))[-1]) for x in arrays])
        np.testing.assert_allclose(found, want, rtol=1e-6)


@each("threads", [1, 2, 3, 20])
@each("name, precision", FORMS)
def test_a_list_has_the_embeddings_of_its_images_whatever_the_threads(threads, name, precision):
    network, few = network_of(name, precision), IMAGES_OF_WORKER - 1
    arrays = images_of(network.input.shape, 40)
    images = Images(np.zeros(40, np.int32), tuple(map(str, range(40))), lambda i, size: arrays[i])
    embedder = Embedder(network, precision=precision, threads=threads)
    alone = [embedder.embed(images.take([i])) for i in range(40)]
    assert embedder.embed(images.take(range(few))).tobytes() == b"".join(x.tobytes() for x in alone[:few])
    assert embedder.workers == 1 and embedder.arena == embedder.program.nbytes
    room = np.empty((40, network.embedding_size), np.float32)
    assert embedder.embed(images, out=room) is room
    assert room.tobytes() == b"".join(x.tobytes() for x in alone)
    assert embedder.workers == min(threads, 40 // IMAGES_OF_WORKER)
    assert embedder.arena == embedder.workers * embedder.program.nbytes


def test_callers_may_ask_for_more_workers_than_there_are_cores_and_share_those_that_there_are(monkeypatch):
    monkeypatch.setattr("tinytrain.runtime.embedder.cores", lambda: 1)
    network = network_of(*FORMS[0])
    arrays = images_of(network.input.shape, 40)
    images = Images(np.zeros(40, np.int32), tuple(map(str, range(40))), lambda i, size: arrays[i])
    embedder = Embedder(network)
    want = embedder.embed(images).tobytes()
    embedder.threads = 4
    meet, add = threading.Barrier(6), embedder.add_worker

    def slowly():
        time.sleep(0.01)
        add()

    monkeypatch.setattr(embedder, "add_worker", slowly)

    def embedded(_):
        meet.wait(100)
        return embedder.embed(images).tobytes()

    with ThreadPoolExecutor(6) as callers:
        assert set(callers.map(embedded, range(6))) == {want}
    assert embedder.workers == 4


@each("name, precision", FORMS)
@each("cut", [None, 4])
def test_a_forward_pass_makes_the_calls_of_training_in_fewer_bytes(name, precision, cut):
    network = network_of(name, precision)
    ours, theirs = compile_forward(network, precision, cut), training(network, precision, cut)
    assert ours.purpose.start == theirs.purpose.start and ours.nbytes < theirs.nbytes
    for kind in ("prefix", "embed"):
        mine, its = (made.segments[kind, 1] for made in (ours, theirs))
        assert [call.kernel for call in mine.calls] == [call.kernel for call in its.calls]
        assert mine.nbytes == its.nbytes


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_the_codes_of_features_are_those_of_the_cache_of_an_adaptation(precision):
    network = network_of("blocks", precision)
    cut = network.block_start(len(network.layers) - 1)
    report = adapt(
        network, replace(toy_episode(), replay=2), Budget(2**22, precision=precision), "last_layer"
    )
    support, kept = report.episode.support, report.delta.replay
    assert kept.layer == cut
    codes, ranges = Embedder(network, precision=precision, cut=cut).codes(support)
    for row, values, label in zip(kept.codes, kept.ranges, kept.labels, strict=True):
        same = [i for i in np.flatnonzero(support.labels == label) if np.array_equal(codes[i], row)]
        assert same and np.array_equal(ranges[same[0]], values)


def test_a_predictor_answers_for_the_embeddings_of_its_embedder():
    report = adapt(toy("blocks"), toy_episode(), Budget(2**22), "last_layer")
    predictor, query = Predictor(report.network, report.delta), report.episode.query
    embeddings = Embedder(report.network, report.delta).embed(query)
    assert predictor.embed(query).tobytes() == embeddings.tobytes()
    assert predictor.logits(query).tobytes() == report.delta.head.logits(embeddings).tobytes()


def test_a_delta_of_another_network_is_refused():
    report = adapt(toy("blocks"), toy_episode(), Budget(2**22), "last_layer")
    with pytest.raises(InputError, match="backbone"):
        Embedder(toy("headed"), report.delta)
