"""Whole networks in float64, plain numpy, all images at once: what the engine's results are compared with.

Nothing here is shared with the engine but the description of the network. A convolution is a
sum over its taps; the gradient of each line stands next to it.
"""

from dataclasses import dataclass

import numpy as np
import oraclelayers
import oracletokens
from oraclemodule import padded, parts, taps


def convolve(layer, x, w):
    """(n, out height, out width, cout) of x (n, height, width, cin), w (fan_in, cout)."""
    if layer.op == "squeeze":
        x = x.mean(axis=(1, 2), keepdims=True)
    total, reads = np.zeros((len(x), *layer.filter_hw, layer.cout)), layer.cin // layer.groups
    for tap, part in taps(layer, padded(layer, x)):
        if layer.op == "depthwise":
            total += part * w[tap]
            continue
        for some, out in parts(layer):
            total[..., out] += part[..., some] @ w[tap * reads : (tap + 1) * reads, out]
    return total


def convolve_gradients(layer, x, w, g):
    """(gradient of x, gradient of w) from the gradient g of the output."""
    if layer.op == "squeeze":
        mean = x.mean(axis=(1, 2))
        gx = np.broadcast_to((g[:, 0] @ w.T)[:, None] / (x.shape[1] * x.shape[2]), x.shape)
        return gx, mean.T @ g[:, 0, 0]
    wide, reads = padded(layer, x), layer.cin // layer.groups
    gx, gw = np.zeros_like(wide), np.zeros_like(w)
    for (tap, part), (_, target) in zip(taps(layer, wide), taps(layer, gx), strict=True):
        if layer.op == "depthwise":
            gw[tap] = (part * g).sum(axis=(0, 1, 2))
            target += g * w[tap]
            continue
        rows = slice(tap * reads, (tap + 1) * reads)
        for some, out in parts(layer):
            gw[rows, out] = np.tensordot(part[..., some], g[..., out], ((0, 1, 2), (0, 1, 2)))
            target[..., some] += g[..., out] @ w[rows, out].T
    (top, side), (height, width) = layer.pad, layer.in_hw
    return gx[:, top : top + height, side : side + width], gw


@dataclass
class Forward:
    """Per layer its input, its convolution output with bias, the derivative of its activation or None, and
    what its activation gives; what comes out.
    """

    inputs: list
    plain: list
    masks: list
    active: list
    outputs: dict | None = None  # by node
    output: np.ndarray | None = None
    embeddings: np.ndarray | None = None


@dataclass
class Gradients:
    """Per layer the gradients of weight (fan_in, cout), bias (cout,) and convolution output."""

    weights: list
    biases: list
    plain: list


class Oracle:
    """A network in float64; `weights` and `biases` may be written to."""

    def __init__(self, network):
        self.network = network
        self.weights = [network.float_weight(i).astype(float) for i in range(len(network.layers))]
        self.biases = [b.astype(float) for b in network.biases]
        for i in range(len(network.layers), max(network.added, default=-2) + 1):
            has = i in network.added
            self.weights.append(network.float_weight(i).astype(float) if has else None)
            self.biases.append(network.bias(i).astype(float) if has else None)

    def pixels(self, images):
        contract = self.network.input
        images = np.rot90(images, 2, (1, 2)) if contract.rotated else images
        return (np.asarray(images, float) - np.array(contract.mean)) * np.array(contract.scale)

    def forward(self, images, first=0, last=None) -> Forward:
        """Layers [first, last) of uint8 images, or of features where `first` is above 0."""
        network = self.network
        run = Forward(*([None] * len(self.weights) for _ in range(4)))
        start = network.position(first)
        end = network.position(len(network.layers) if last is None else last)
        run.outputs = {start - 1: self.pixels(images) if first == 0 else np.asarray(images, float)}
        for i in range(start, end):
            inputs = [run.outputs[k] for k in network.sources[i]]
            run.outputs[i] = self._output(i, inputs, run)
        run.output = run.outputs[end - 1]
        run.embeddings = run.output.mean(axis=(1, 2))
        return run

    def _output(self, i, inputs, run):
        node, k = self.network.graph[i], self.network.numbers[i]
        if k is None:
            return oraclelayers.OPS[node.op][0](node, inputs)
        run.inputs[k] = inputs[0]
        if node.op in oracletokens.LAYERS:
            parts = self.weights[k], self.biases[k]
            run.plain[k] = run.active[k] = oracletokens.LAYERS[node.op][0](node, inputs, *parts)
            return run.active[k]
        x = run.plain[k] = convolve(node, inputs[0], self.weights[k]) + self.biases[k]
        if node.adds:
            x = x + inputs[1]
        run.active[k], run.masks[k] = oraclelayers.activation(node, x)
        return run.active[k] * inputs[1] if node.op == "excite" else run.active[k]

    def backward(self, run: Forward, grad_embeddings, first=0, masks=None) -> Gradients:
        """Gradients of every layer from `first` on; `masks` replaces the derivatives of the forward pass."""
        masks = run.masks if masks is None else masks
        network, last = self.network, self.network.graph[-1]
        shape = (len(grad_embeddings), *last.out_hw, last.cout)
        g = np.broadcast_to(grad_embeddings[:, None, None] / (shape[1] * shape[2]), shape)
        found = Gradients(*([None] * len(self.weights) for _ in range(3)))
        pending = {len(network.graph) - 1: g}
        for i in range(len(network.graph) - 1, network.position(first) - 1, -1):
            parts = self._gradients(i, pending.pop(i), run, found, masks)
            for k, part in zip(network.sources[i], parts, strict=True):
                pending[k] = pending.get(k, 0) + part
        return found

    def _gradients(self, i, g, run, found, masks):
        """Gradients of the inputs of node i from that of its output."""
        node, k = self.network.graph[i], self.network.numbers[i]
        inputs = [run.outputs[source] for source in self.network.sources[i]]
        if k is None:
            return oraclelayers.OPS[node.op][1](node, inputs, run.outputs[i], g)
        if node.op in oracletokens.LAYERS:
            parts = self.weights[k], self.biases[k]
            found.plain[k] = g
            gx, found.weights[k], found.biases[k] = oracletokens.LAYERS[node.op][1](node, inputs, *parts, g)
            return gx
        more = ()
        if node.op == "excite":
            more, g = (g * run.active[k],), (g * inputs[1]).sum(axis=(1, 2), keepdims=True)
        if masks[k] is not None:
            g = g * masks[k]
        if node.adds:
            more = (g,)
        found.plain[k], found.biases[k] = g, g.sum(axis=(0, 1, 2))
        gx, found.weights[k] = convolve_gradients(node, inputs[0], self.weights[k], g)
        return gx, *more


def unit(x):
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True) + 1e-12)


def unit_gradient(x, g):
    """Gradient of x from the gradient g of unit(x)."""
    norm = np.sqrt((x * x).sum(axis=1, keepdims=True) + 1e-12)
    return (g - x * (x * g).sum(axis=1, keepdims=True) / norm**2) / norm


@dataclass
class Loss:
    """Cross-entropy of every query with its gradients; `logits` are temperature x cosine."""

    each: np.ndarray
    logits: np.ndarray
    grad_queries: np.ndarray
    grad_support: np.ndarray

    @property
    def mean(self):
        return float(self.each.mean())


def prototype_loss(support, support_labels, queries, labels, temperature=10.0, chosen=None) -> Loss:
    """Loss of query embeddings against class means of support embeddings, and its exact gradients.

    `grad_*` are of the mean loss over the `chosen` queries (default: all), through the queries and
    through the prototypes.
    """
    way = support_labels.max() + 1
    member = (support_labels[None] == np.arange(way)[:, None]) / np.bincount(support_labels)[:, None]
    prototypes = member @ support
    cosine = unit(queries) @ unit(prototypes).T
    logits = temperature * cosine
    shifted = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    rows = np.arange(len(queries))
    each = -np.log(p[rows, labels])
    chosen = rows if chosen is None else np.asarray(chosen)
    g = np.zeros_like(logits)
    g[chosen] = p[chosen] * temperature / len(chosen)
    g[chosen, labels[chosen]] -= temperature / len(chosen)
    grad_queries = unit_gradient(queries, g @ unit(prototypes))
    grad_prototypes = unit_gradient(prototypes, g.T @ unit(queries))
    return Loss(each, logits, grad_queries, member.T @ grad_prototypes)


def gradients(
    oracle, support, support_labels, queries, labels, step="both", chosen=None, masks=None, run=None
):
    """(Loss, Gradients) of one training step on uint8 images, everything in one batch.

    `run` is a forward pass over support and queries that was made already; `masks` are in their order.
    """
    run = run or oracle.forward(np.concatenate([support, queries]))
    n = len(support)
    loss = prototype_loss(run.embeddings[:n], support_labels, run.embeddings[n:], labels, chosen=chosen)
    grad_support = loss.grad_support if step == "both" else np.zeros_like(loss.grad_support)
    return loss, oracle.backward(run, np.concatenate([grad_support, loss.grad_queries]), masks=masks)


def fisher(oracle, images, labels, queries=None, masks=None, run=None):
    """Per layer ``1/(2N) sum_n (sum_d a_nd g_nd)^2`` of every channel, and the mean loss.

    Prototypes are the class means of `images` and constant; each of `queries` (default: the
    images themselves) is a pseudo-query. `run` is a forward pass over the queries.
    """
    run = run or oracle.forward(images if queries is None else queries)
    clean = run.embeddings if queries is None else oracle.forward(images).embeddings
    loss = prototype_loss(clean, labels, run.embeddings, labels)
    found = oracle.backward(run, loss.grad_queries * len(labels), masks=masks)
    layers = slice(len(oracle.network.layers))
    pairs = zip(run.plain[layers], found.plain[layers], strict=True)
    dots = [(a * g).sum(axis=(1, 2)) for a, g in pairs]
    return [(d * d).sum(axis=0) / (2 * len(labels)) for d in dots], loss.mean
