"""Single segments of a program, bound to an arena of their own."""

from types import SimpleNamespace

import numpy as np
from oracle import Oracle
from toynets import features_of, recipe, relative, selected

from tinytrain import kernels
from tinytrain.base.arena import Arena
from tinytrain.plan.costs import cut_layer, n_trained
from tinytrain.program.autodiff import emitter as emit
from tinytrain.program.autodiff import fused_block
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.backends.int8_copy import Int8Copy
from tinytrain.program.backends.registry import FLOAT32, INT8
from tinytrain.program.backends.working_copy import WorkingCopy
from tinytrain.program.calls import Buffer, Segment
from tinytrain.program.trained_arrays import columns_of, slots, trained_parts
from tinytrain.runtime.bind import Binder


def bound(segment, network, arrays, updates=()):
    """(calls bound to kernels, outputs, arena bytes) of a segment alone; `arrays` are its externals."""
    arena = Arena(segment.nbytes)
    columns = columns_of(slots(network, recipe(updates)))
    place = SimpleNamespace(offset=lambda workspace: 0)
    working = Int8Copy(network) if segment.backend is INT8 else WorkingCopy(network)
    binder = Binder(place, arena, working, kernels.load(), columns)
    calls, outputs = binder.segment(segment, Buffer("workspace", (segment.nbytes,)), arrays)
    return calls, outputs, arena.view(0, (segment.nbytes,), "uint8")


def ran(segment, network, arrays, updates=()):
    """The outputs of a segment alone, after its calls; `arrays` are its externals."""
    calls, outputs, _ = bound(segment, network, arrays, updates)
    for kernel, args in calls:
        kernel(*args)
    return outputs


def source_of(network, first, n, backend):
    """The buffer of what layer `first` reads."""
    layer, features = network.layers[first], "int8" if backend is INT8 else "float32"
    return Buffer("source", (n, *layer.in_hw, layer.cin), network.input.dtype if first == 0 else features)


def forward_segment(network, first, last, n, row_tile=None, backend=FLOAT32):
    """(segment, its input buffer) of a forward pass that saves nothing."""
    source = source_of(network, first, n, backend)
    segment = Segment("forward", n, external={source}, backend=backend)
    segment.outputs = (backend.emitter(segment, network, row_tile).forward(source.whole, first, last),)
    return segment.finish(keep=segment.outputs), source


def backward_segment(network, updates, first=0, n=1, row_tile=None, backend=FLOAT32, hook=None):
    """(segment, buffers: source, gradient of the embedding, gradients of the trained numbers)."""
    source = source_of(network, first, n, backend)
    g = Buffer("grad embedding", (n, network.embedding_size))
    gradients = Buffer("gradients", (n_trained(network, updates),))
    segment = Segment("backward", n, external={source, g, gradients}, backend=backend)
    emitter = backend.emitter(segment, network, row_tile)
    tape = Tape(cut_layer(network, updates), trained_parts(network, recipe(updates), gradients))
    emitter.forward(source.whole, first, len(network.layers), tape)
    emitter.backward(emitter.pool_grad(g.whole), first, len(network.layers), tape, hook)
    return segment.finish(), source, g, gradients


def backward_case(network, updates, n=1, row_tile=None):
    """(segment, arrays of its external buffers) with random input."""
    segment, source, g, gradients = backward_segment(network, updates, 0, n, row_tile)
    arrays = {
        source: features_of(network, 0, n),
        g: np.random.default_rng(1).standard_normal(g.shape).astype("f"),
        gradients: np.zeros(gradients.shape, "f"),
    }
    return segment, arrays


def assert_gradients_equal_oracle(network, updates, n, most=1e-5):
    """Of one pass over n images, for random gradients of their embeddings; returns the segment."""
    segment, arrays = backward_case(network, updates, n)
    ran(segment, network, arrays, updates)
    source, g, found = arrays.values()
    oracle = Oracle(network)
    want = oracle.backward(oracle.forward(source), g.astype(float))
    for slot in slots(network, recipe(updates)):
        got = found[slot.start : slot.start + slot.size].reshape(slot.shape)
        exact = {"weight": want.weights, "bias": want.biases}[slot.part][slot.layer]
        assert relative(got, selected(exact, slot), 0.1) < most
    return segment


def limit_row_tiles(monkeypatch, nbytes):
    """Every fused block is computed in row tiles of `nbytes`."""
    monkeypatch.setattr(emit, "ROW_TILE_BYTES", nbytes)
    monkeypatch.setattr(fused_block, "WHOLE_BYTES", nbytes)


def assert_forward_equals_oracle(network):
    """From the start of every block to the end of the network, fused and whole."""
    last = len(network.layers)
    for first in sorted({network.block_start(i) for i in range(last)}):
        x = features_of(network, first, 2)
        want = Oracle(network).forward(x, first).output
        for n in (1, 2):  # blocks of one image are fused, two are computed whole
            segment, source = forward_segment(network, first, last, n)
            (out,) = ran(segment, network, {source: x[:n]})
            rounding = max(1e-5, 2e-6 * abs(want).max())  # sums of large numbers may be small
            np.testing.assert_allclose(out, want[:n], rtol=1e-5, atol=rounding)
