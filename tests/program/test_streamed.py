"""Images and first blocks that are computed some rows at a time: the same codes in fewer bytes."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from int8nets import forward8, toy8
from integernet import Integers
from oracle import Oracle
from programcheck import check_program
from published import published_network
from toygraphs import fire
from toynets import images, images_of, relative, toy
from toysegments import forward_segment, ran

from tinytrain import kernels
from tinytrain.backbones.load import load_backbone
from tinytrain.episode.augment import Augmentation
from tinytrain.meta.training.compact_transformer import compact_transformer, initial_transformer
from tinytrain.network.input_spec import InputSpec
from tinytrain.plan.budget import TaskShape
from tinytrain.program.autodiff import streamed
from tinytrain.program.autodiff.emitter import Emitter
from tinytrain.program.autodiff.int8_emitter import Int8Emitter
from tinytrain.program.backends.registry import INT8
from tinytrain.program.calls import Segment
from tinytrain.program.compile import compile_fisher
from tinytrain.program.forward import compile_forward
from tinytrain.runtime.embedder import Embedder

PUBLISHED = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")
CHANGES = {
    "clean": None,
    "moved and mirrored": Augmentation(True, 3, -2, 10.0, 0.5, 1.3),
    "turned": Augmentation(False, -2, 1, -5.0, 1.5, 0.8, 0.95, 0.1),
}


def ends_of_blocks(network):
    blocks = [node.block for node in network.nodes]
    return [i for i in range(2, len(blocks) + 1) if i == len(blocks) or blocks[i] != blocks[i - 1]]


def usable(network, emitter=None):
    """Ends of blocks up to which all layers can be streamed."""
    ends = ends_of_blocks(network)
    emitter = emitter or Emitter(Segment("forward", 1), network)
    found = [e for e in ends if all(streamed.is_streamed(emitter, i) for i in range(e))]
    assert found
    return found


def compact():
    """Dense convolutions with poolings behind them, then attention."""
    spec = InputSpec((20, 18, 3))
    network = initial_transformer(3, compact_transformer(spec.shape, (5, 8), (1, 2, 12)), spec)
    return replace(network, biases=tuple(b + np.float32(0.1) for b in network.biases))


FLOATS = {"blocks": lambda: toy("blocks"), "headed": lambda: toy("headed"), "fire": fire, "compact": compact}


@pytest.mark.parametrize("name", FLOATS)
def test_blocks_that_are_streamed_in_float32_equal_the_oracle_wherever_they_end(name, monkeypatch):
    network = FLOATS[name]()
    source_images = images_of(network.input.shape, 1)
    want = Oracle(network).forward(source_images).output
    for end in usable(network):
        monkeypatch.setattr("tinytrain.program.autodiff.emitter.streamed_nodes", lambda *_: end)  # noqa: B023
        segment, source = forward_segment(network, 0, len(network.layers), 1)
        (out,) = ran(segment, network, {source: source_images})
        assert relative(out, want) < 1e-5
        assert segment.macs("forward") == network.macs  # no row is computed twice


@pytest.mark.parametrize("size, streams", [(16, False), (64, True), (128, True)])
def test_an_image_is_streamed_if_that_takes_less_than_row_tiles(size, streams, monkeypatch):
    network = toy("blocks", size)
    last = len(network.layers)
    assert streams == (Emitter(Segment("forward", 1), network).streams(None, 0, last) > 0)
    chosen = forward_segment(network, 0, last, 1)[0].nbytes
    monkeypatch.setattr(Emitter, "streams", lambda *_: 0)
    in_tiles = forward_segment(network, 0, last, 1)[0].nbytes
    assert (chosen < in_tiles) if streams else (chosen == in_tiles)


@each("network", [toy("blocks", 64), toy("headed", 46), load_backbone("small"), compact()])
def test_one_schedule_says_what_streaming_takes_wherever_it_ends(network):
    ends = usable(network)
    longest = streamed.Schedule(network.nodes, ends[-1])
    for end in ends:
        alone = streamed.Schedule(network.nodes, end)
        numbers = [room * n.out_hw[1] * n.cout for room, n in zip(alone.room, alone.nodes, strict=True)]
        assert longest.size(end) == sum(numbers)


def test_convolutions_and_poolings_are_streamed_if_that_takes_less():
    spec = InputSpec((32, 32, 3))
    network = initial_transformer(0, compact_transformer(spec.shape, (64, 128), (2, 2, 128)), spec)
    last = len(network.layers)
    chosen = forward_segment(network, 0, last, 1)[0]
    assert chosen.nbytes < 0.75 * forward_segment(network, 0, last, 2)[0].nbytes / 2


@pytest.mark.parametrize("name", ["blocks", "headed", "dense"])
def test_blocks_that_are_streamed_give_the_codes_of_whole_ones_wherever_they_end(name, monkeypatch):
    network, shown = toy8(name), images(1)
    want = Integers(network).run(Integers(network).pixels(shown[0]))
    for end in usable(network, Int8Emitter(Segment("forward", 1, backend=INT8), network)):
        monkeypatch.setattr("tinytrain.program.autodiff.emitter.streamed_nodes", lambda *_: end)  # noqa: B023
        segment, source = forward8(network, 0, len(network.layers), 1)
        (out,) = ran(segment, network, {source: shown})
        np.testing.assert_array_equal(out[0], want[-1])
        assert segment.macs("forward") == network.macs  # no row is computed twice


def test_dense_convolutions_are_streamed_in_int8_if_that_takes_less(monkeypatch):
    network = toy8("dense", 64)
    last = len(network.layers)
    chosen = forward8(network, 0, last, 1)[0].nbytes
    alone = replace(Int8Emitter.ops["conv"], forward_padded=None)
    monkeypatch.setattr(Int8Emitter, "ops", Int8Emitter.ops | {"conv": alone})
    assert chosen < 0.7 * forward8(network, 0, last, 1)[0].nbytes


def features(network, layer: int, change) -> np.ndarray:
    """Features of an image in front of `layer`, whose frozen part asks for rows of it."""
    embedder = Embedder(network, precision="int8", cut=layer)
    check_program(embedder.program)
    assert not any("augmented" in name for name in embedder.program.buffers)
    return embedder.features(images_of(network.input.shape, 1)[0], change).copy()


@each("change", CHANGES.values(), ids=CHANGES)
@each("rotated", [False, True])
@each("name, size", [("blocks", 16), ("blocks", 46), ("headed", 16)])
def test_rows_of_an_image_give_the_codes_of_the_whole_augmented_image(name, size, rotated, change):
    network = toy8(name, size)
    network = replace(network, input=replace(network.input, rotated=rotated))
    last = network.block_start(len(network.layers) - 1)
    shown = images_of(network.input.shape, 1)[0]
    if change:
        whole = np.empty_like(shown)
        kernels.load().augment(whole, shown, *change.arguments())
        shown = whole
    segment, source = forward8(network, 0, last, 1, 56_000)
    (want,) = ran(segment, network, {source: shown[None]})
    np.testing.assert_array_equal(features(network, last, change), want[0])


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_frozen_part_of_a_published_network_takes_less_than_50_kb_and_no_image(name):
    network = published_network(name)
    last = len(network.layers) - 1
    program = compile_forward(network, "int8", last)
    assert program.segments["prefix", 1].nbytes < 50_000
    probe = compile_fisher(network, (last,), TaskShape(1, 2), precision="int8")
    assert not any("augmented" in name for name in (*program.buffers, *probe.buffers))
