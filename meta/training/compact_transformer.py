"""Compact convolutional transformers to pre-train (CCT, Hassani et al. 2021): nodes, and first weights."""

import math

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import Node
from tinytrain.network.topology import pool_of

EPSILON = 1e-5
PLACES = 0.02  # deviation of what is added by place


def compact_transformer(
    shape: tuple[int, int, int], tokens: tuple[int, ...], attention: tuple[int, int, int]
) -> tuple[Node, ...]:
    """Convolutions to `tokens` channels, each with a pool of half the size, then blocks of attention.

    `attention` has the number of blocks, the heads of each, and the channels between its two last layers. The
    embedding is the mean of all tokens, each counted by the softmax of what a last layer says of it.
    """
    nodes: list[Node] = []

    def add(name: str, op: str, cout: int, read: str = "", added: str = "", **more) -> str:
        at = {node.name: node for node in nodes}
        last = at[read] if read else nodes[-1] if nodes else None
        cin, in_hw = (last.cout, last.out_hw) if last else (shape[2], shape[:2])
        inputs = (read or last.name, added) if added else (read,) if read else ()
        facts = {"kernel": 1, "activation": None, "out_hw": in_hw, "inputs": inputs} | more
        nodes.append(Node(name, op, cin, cout, stride=1, in_hw=in_hw, block=block, **facts))
        return name

    for block, channels in enumerate(tokens):
        add(f"tokens{block}", "conv", channels, kernel=3, activation="relu")
        nodes.append(pool_of(nodes[-1]))
    (count, heads, hidden), width = attention, tokens[-1]
    scale = (("heads", float(heads)), ("scale", (width // heads) ** -0.5))
    block += 1
    start, norm = add("position", "position", width), {"attributes": (("epsilon", EPSILON),)}
    for number in range(count):
        name, block = f"block{number}", block + 1
        read = add(f"{name}.norm", "layer-norm", width, **norm)
        parts = [add(f"{name}.{part}", "pointwise", width, read) for part in ("query", "key", "value")]
        add(f"{name}.attention", "attention", width, inputs=tuple(parts), attributes=scale)
        add(f"{name}.joined", "pointwise", width, added=start)
        block += 1
        normed = add(f"{name}.middle", "layer-norm", width, **norm)
        add(f"{name}.expand", "pointwise", hidden, activation="gelu")
        start = add(f"{name}.project", "pointwise", width, added=normed)
    block += 1
    last = add("norm", "layer-norm", width, **norm)
    add("pool", "sequence-pool", width, last, add("shares", "pointwise", 1), out_hw=(1, 1))
    return tuple(nodes)


def initial_transformer(seed: int, nodes: tuple[Node, ...], spec: InputSpec) -> Network:
    """Normal numbers by which values stay as large from layer to layer; residual branches start at half."""
    layers = [node for node in nodes if node.is_layer]
    weights = []
    for layer in layers:
        size = math.sqrt((2 if layer.activation else 1) / layer.fan_in) * (0.5 if layer.adds else 1)
        drawn = rng_for(seed, "weights", layer.name).standard_normal((layer.fan_in, layer.cout), np.float32)
        weights.append(drawn * np.float32(PLACES if layer.op == "position" else size))
        if layer.op == "layer-norm":
            weights[-1][:] = 1
    biases = tuple(np.zeros(layer.cout, np.float32) for layer in layers)
    return Network("untrained", nodes, tuple(weights), (None,) * len(layers), biases, spec)
