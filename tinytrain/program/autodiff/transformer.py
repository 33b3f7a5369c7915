"""Kernel calls of transformers: words, places, norms over channels, attention, and the mean of a sequence.

Tokens are positions of feature maps. `emitter` is the `Emitter` of the pass.
"""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from tinytrain.program.autodiff import convolution
from tinytrain.program.autodiff.matrix_products import add_bias
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import View, Weight

ONE = np.float32(1)


def _image(x: View, k: int) -> View:
    """Image k of x as a matrix: a row for each token."""
    return x.rows(k, k + 1).matrix


def _note(emitter, i: int, inputs: list[View], tape: Tape | None) -> None:
    if tape is not None and i in emitter.reached(tape):
        tape.read[i] = inputs


def _new(emitter, i: int, tape: Tape, *names: str) -> list[View | None]:
    """New views for gradients of the inputs of these names; None where none is needed."""
    node, rows = emitter.nodes[i], zip(names, emitter.sources[i], tape.read[i], strict=False)
    return [
        emitter.segment.new(f"{node.name} gradient of {name}", *x.shape)
        if k in emitter.reached(tape)
        else None
        for name, k, x in rows
    ]


def _with_sources(emitter, i: int, found: list[View | None]) -> list[tuple[int, View]]:
    return [(source, g) for source, g in zip(emitter.sources[i], found, strict=False) if g]


# ---- words and places -------------------------------------------------------------------------------------


def _embed(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    emitter.segment.call("embed", y.matrix, x.flat, emitter.weight(i), emitter.bias(i))


def _embed_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    emitter.segment.call("embed_grad", gw, x.flat, g.matrix)


WORDS = SimpleNamespace(forward=_embed, grad_weight=_embed_weight)


def _place(emitter, i: int, y: View, x: View, skip: View | None, activation: str | None) -> None:
    segment, node = emitter.segment, emitter.nodes[i]
    places = emitter.once(Weight, emitter.numbers[i], (node.fan_in, node.cout), False, None, True)
    for k in range(emitter.n):
        segment.call("copy", y.rows(k, k + 1).flat, places)
        segment.call("accumulate", _read(emitter, i, y, k), x.rows(k, k + 1).flat)
    add_bias(emitter, i, y.matrix, None, activation)


def _read(emitter, i: int, y: View, k: int) -> View:
    """The tokens of image k of y that are made of tokens which node i reads: all but the one that it adds."""
    node, tokens = emitter.nodes[i], _image(y, k)
    return tokens.rows(int(node.filter_hw != node.in_hw), tokens.shape[0]).flat


def _place_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    for k in range(emitter.n):
        emitter.segment.call("accumulate", gw.flat, g.rows(k, k + 1).flat)


def _place_input(emitter, i: int, g: View) -> View:
    node, segment = emitter.nodes[i], emitter.segment
    if node.filter_hw == node.in_hw:
        return g
    gx = segment.new(f"{node.name} gradient", emitter.n, *node.in_hw, node.cin)
    for k in range(emitter.n):
        segment.call("copy", gx.rows(k, k + 1).flat, _read(emitter, i, g, k))
    return gx


POSITION = SimpleNamespace(forward=_place, grad_input=_place_input, grad_weight=_place_weight)


# ---- norms over channels ----------------------------------------------------------------------------------


def _norm(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    y = _normed(emitter, i, inputs)
    _note(emitter, i, inputs, tape)
    if tape is not None and emitter.numbers[i] in tape.hooked:
        tape.output[emitter.numbers[i]] = y
    return y


def _normed(emitter, i: int, inputs: list[View]) -> View:
    segment, (x, *marks) = emitter.segment, inputs
    y = emitter.output(i)
    segment.call("standardise", y.matrix, x.matrix, _epsilon(emitter, i))
    _scale(emitter, i, y)
    add_bias(emitter, i, y.matrix, None, None)
    for mark in marks:
        segment.call("clear_rows", y.matrix, mark.matrix)
    return y


def _norm_again(emitter, i: int, tape: Tape) -> View:
    return _normed(emitter, i, tape.read[i])


def _norm_gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    segment, number, (x, *marks) = emitter.segment, emitter.numbers[i], tape.read[i]
    for mark in marks:
        segment.call("clear_rows", g.matrix, mark.matrix)
    if hook is not None:
        hook(number, g, 0)
    if (trained := tape.trained.get(number)) is not None:
        plain = None
        if trained.weight is not None:
            plain = segment.new(f"{emitter.nodes[i].name} standardised", *x.shape)
            segment.call("standardise", plain.matrix, x.matrix, _epsilon(emitter, i))
        convolution.of_parameters(emitter, i, g, trained, plain)
    source = emitter.sources[i][0]
    if source not in emitter.reached(tape):
        return []
    _scale(emitter, i, g)
    segment.call("standardise_grad", g.matrix, x.matrix, _epsilon(emitter, i))
    return [(source, g)]


def _scale(emitter, i: int, y: View) -> None:
    rows = y.reshape(1, -1, y.shape[-1])
    emitter.segment.call("scale_channels", rows, rows, emitter.weight(i))


def _epsilon(emitter, i: int) -> np.float32:
    return np.float32(*emitter.nodes[i].numbers("epsilon"))


def _norm_weight(emitter, i: int, gw: View, x: View, g: View) -> None:
    sums = emitter.segment.new(f"{emitter.nodes[i].name} weight gradient", *gw.shape)
    rows = (view.reshape(1, -1, view.shape[-1]) for view in (g, x))
    emitter.segment.call("scale_channels_grad", sums, *rows)
    emitter.segment.call("accumulate", gw.flat, sums.flat)


LAYER_NORM = SimpleNamespace(
    apply=_norm, gradients=_norm_gradients, grad_weight=_norm_weight, again=_norm_again
)


# ---- attention --------------------------------------------------------------------------------------------


def _attend(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    """Where nothing needs the queries afterwards, each head writes over its own."""
    read = sum(row.count(emitter.sources[i][0]) for row in emitter.sources)
    segment, y = emitter.segment, inputs[0] if tape is None and read == 1 else emitter.output(i)
    heads = _Heads(emitter, i, inputs)
    for k, (first, last) in heads.all():
        weights = heads.weights(k, first, last)
        segment.call("matmul", heads.part, weights, heads.of(2, k).columns(first, last))
        segment.call("put_columns", _image(y, k), heads.part, first)
    _note(emitter, i, inputs, tape)
    return y


def _attend_gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    """One head after another. What each key counts is computed again: so it is never kept."""
    segment, node, part = emitter.segment, emitter.nodes[i], "grad_input"
    heads = _Heads(emitter, i, tape.read[i])
    found = _new(emitter, i, tape, "queries", "keys", "values")
    of_weights = segment.new(f"{node.name} gradient of weights", heads.tokens, heads.tokens)

    def put(which: int, k: int, first: int, x: View, y: View) -> None:
        segment.call("matmul", heads.part, x, y, part=part)
        segment.call("put_columns", _image(found[which], k), heads.part, first)

    for k, (first, last) in heads.all():
        gk = _image(g, k).columns(first, last)
        query, key, value = (heads.of(which, k).columns(first, last) for which in range(3))
        weights = heads.weights(k, first, last, part)
        if found[2]:
            put(2, k, first, weights.T, gk)
        if found[0] or found[1]:
            segment.call("matmul", of_weights, gk, value.T, part=part)
            segment.call("softmax_grad", of_weights, weights, heads.scale)
        if found[0]:
            put(0, k, first, of_weights, key)
        if found[1]:
            put(1, k, first, of_weights.T, query)
    return _with_sources(emitter, i, found)


class _Heads:
    """Queries, keys and values of attention i, a part of whose channels is a head. `inputs` are its views."""

    def __init__(self, emitter, i: int, inputs: list[View]):
        node, self.segment = emitter.nodes[i], emitter.segment
        heads, scale = node.numbers("heads", "scale")
        self.inputs, self.count, self.scale, self.n = inputs, int(heads), np.float32(scale), emitter.n
        self.tokens, self.width = inputs[0].matrix.shape[0] // emitter.n, node.cin // self.count
        self.part = self.segment.new(f"{node.name} head", self.tokens, self.width)
        self.each = self.segment.new(f"{node.name} weights", self.tokens, self.tokens)
        self.lacks = self.segment.new(f"{node.name} absent", self.tokens) if len(inputs) > 3 else None

    def all(self):
        """(image, (first channel, end)) of each head."""
        for k in range(self.n):
            if self.lacks:
                self.segment.call("absent", self.lacks, self.of(3, k))
            for first in range(0, self.count * self.width, self.width):
                yield k, (first, first + self.width)

    def of(self, which: int, k: int) -> View:
        return _image(self.inputs[which], k)

    def weights(self, k: int, first: int, last: int, part: str = "forward") -> View:
        """How much each key counts for each query (tokens, tokens)."""
        query, key = (self.of(which, k).columns(first, last) for which in range(2))
        self.segment.call("matmul", self.each, query, key.T, part=part)
        if self.lacks:
            self.segment.call("add_bias", self.each, self.lacks)
        self.segment.call("softmax", self.each, self.scale)
        return self.each


ATTENTION = SimpleNamespace(apply=_attend, gradients=_attend_gradients)


# ---- the mean of a sequence -------------------------------------------------------------------------------


def _pool(emitter, i: int, inputs: list[View], tape: Tape | None) -> View:
    y = emitter.output(i)
    for k in range(emitter.n):
        weights = _shares(emitter, i, inputs, k)
        emitter.segment.call("matmul", _image(y, k), weights, _image(inputs[0], k))
    _note(emitter, i, inputs, tape)
    return y


def _pool_gradients(emitter, i: int, g: View, tape: Tape, hook: Callable | None) -> list:
    segment, inputs = emitter.segment, tape.read[i]
    found = _new(emitter, i, tape, "tokens", "logits")
    for k in range(emitter.n):
        weights, gk = _shares(emitter, i, inputs, k), _image(g, k)
        if found[0]:
            segment.call("matmul", _image(found[0], k), weights.T, gk, part="grad_input")
        for logits in filter(None, found[1:]):
            row = logits.rows(k, k + 1).reshape(1, -1)
            segment.call("matmul", row, gk, _image(inputs[0], k).T, part="grad_input")
            segment.call("softmax_grad", row, weights, ONE)
    return _with_sources(emitter, i, found)


def _shares(emitter, i: int, inputs: list[View], k: int) -> View:
    """How much each token of image k counts (1, tokens)."""
    segment, (x, *logits) = emitter.segment, inputs
    tokens = _image(x, k)
    shares = segment.new(f"{emitter.nodes[i].name} weights", 1, tokens.shape[0])
    if logits:
        segment.call("copy", shares.flat, logits[0].rows(k, k + 1).flat)
    else:
        segment.call("absent", shares.flat, tokens)
    segment.call("softmax", shares, ONE)
    return shares


SEQUENCE_POOL = SimpleNamespace(apply=_pool, gradients=_pool_gradients)
