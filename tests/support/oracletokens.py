"""What the oracle does in transformers, in float64: words, places, norms, attention, means of sequences."""

import math

import numpy as np


def _tokens(x):
    """(n, tokens, channels) of feature maps."""
    return x.reshape(len(x), -1, x.shape[-1])


def _there(x):
    """(n, tokens, 1): 1 where x has numbers, 0 where it has zeros alone."""
    return _tokens(x).any(axis=2, keepdims=True).astype(float)


def gelu(x):
    below = 0.5 + 0.5 * np.vectorize(math.erf)(x / math.sqrt(2))
    return x * below, below + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _words(node, inputs, w, b):
    ids = _known(inputs[0], w)
    return np.where((ids > 0)[..., None], w[ids] + b, 0)


def _known(x, w):
    """Numbers of words, 0 for what is none."""
    ids = x[..., 0].astype(int)
    return np.where(ids < len(w), ids, 0)


def _words_gradients(node, inputs, w, b, g):
    ids, gw = _known(inputs[0], w), np.zeros_like(w)
    np.add.at(gw, ids[ids > 0], g[ids > 0])
    return (0,), gw, g[ids > 0].sum(axis=0)


def _places(node, inputs, w, b):
    tokens = np.concatenate([np.zeros((len(inputs[0]), _more(node), w.shape[1])), _tokens(inputs[0])], axis=1)
    return (tokens + w).reshape(len(tokens), *node.out_hw, -1) + b


def _more(node):
    """1 if it adds a token before those of the image."""
    return int(node.out_hw != node.in_hw)


def _places_gradients(node, inputs, w, b, g):
    gx = _tokens(g)[:, _more(node) :].reshape(inputs[0].shape)
    return (gx,), g.sum(axis=0).reshape(w.shape), g.sum(axis=(0, 1, 2))


def _standard(node, x):
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + dict(node.attributes)["epsilon"])
    return (x - x.mean(axis=-1, keepdims=True)) / deviation, deviation


def _kept(inputs, x):
    return x * _there(inputs[1]).reshape(*x.shape[:3], 1) if len(inputs) > 1 else x


def _norm(node, inputs, w, b):
    return _kept(inputs, _standard(node, inputs[0])[0] * w[0] + b)


def _norm_gradients(node, inputs, w, b, g):
    g, (y, deviation) = _kept(inputs, g), _standard(node, inputs[0])
    gw, gb, g = (g * y).sum(axis=(0, 1, 2))[None], g.sum(axis=(0, 1, 2)), g * w[0]
    gx = (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)) / deviation
    return (gx, *[0] * (len(inputs) - 1)), gw, gb


def _softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _softmax_gradients(p, g):
    return p * (g - (g * p).sum(axis=-1, keepdims=True))


def _heads(node, x):
    """(n, heads, tokens, channels of a head)."""
    return np.stack(np.split(_tokens(x), int(dict(node.attributes)["heads"]), axis=2), axis=1)


def _weights(node, inputs):
    q, k, v = (_heads(node, x) for x in inputs[:3])
    logits = q @ k.swapaxes(2, 3) * dict(node.attributes)["scale"]
    if len(inputs) > 3:
        logits = np.where(_there(inputs[3])[:, None, None, :, 0] > 0, logits, -np.inf)
    return q, k, v, _softmax(logits)


def _attention(node, inputs):
    *_, v, p = _weights(node, inputs)
    return np.concatenate(list((p @ v).swapaxes(0, 1)), axis=2).reshape(inputs[0].shape)


def _attention_gradients(node, inputs, output, g):
    q, k, v, p = _weights(node, inputs)
    g = _heads(node, g)
    gs = _softmax_gradients(p, g @ v.swapaxes(2, 3)) * dict(node.attributes)["scale"]
    found = gs @ k, gs.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ g
    shape = inputs[0].shape
    whole = [np.concatenate(list(x.swapaxes(0, 1)), axis=2).reshape(shape) for x in found]
    return (*whole, *[0] * (len(inputs) - 3))


def _shares(inputs):
    """(n, 1, tokens)."""
    if len(inputs) == 1:
        there = _there(inputs[0])
        return (there / there.sum(axis=1, keepdims=True)).swapaxes(1, 2)
    return _softmax(_tokens(inputs[1]).swapaxes(1, 2))


def _pool(node, inputs):
    return (_shares(inputs) @ _tokens(inputs[0]))[:, :, None]


def _pool_gradients(node, inputs, output, g):
    p, x, g = _shares(inputs), _tokens(inputs[0]), _tokens(g)
    gx = (p.swapaxes(1, 2) @ g).reshape(inputs[0].shape)
    if len(inputs) == 1:
        return (gx,)
    return gx, _softmax_gradients(p, g @ x.swapaxes(1, 2)).swapaxes(1, 2).reshape(inputs[1].shape)


# Of layers: what they give, from weight and bias; gradients of their inputs, of weight and of bias.
LAYERS = {
    "words": (_words, _words_gradients),
    "position": (_places, _places_gradients),
    "layer-norm": (_norm, _norm_gradients),
}
OPS = {"attention": (_attention, _attention_gradients), "sequence-pool": (_pool, _pool_gradients)}
