"""A published encoder of text as a network: MiniLM, a transformer of the kind BERT, with int8 weights."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.safetensors import decode
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network, int8_scales
from tinytrain.network.node import Node
from tinytrain.network.validation import check_network

HEADS = 12  # of each layer of MiniLM
EPSILON = (("epsilon", 1e-12),)
WORDS = "embeddings.word_embeddings.weight"
Part = tuple[Node, np.ndarray | None, np.ndarray | None]  # with weight (fan_in, cout) and bias


def minilm(data: bytes, name: str, rows: int, vocabulary: str) -> Network:
    """The network of the file `model.safetensors`, whose digest is right, for texts of so many `rows`.

    `vocabulary` is the sha256 of its words. The embedding is the mean over the words of a text.
    """
    return bert(decode(data, name)[0], name, rows, vocabulary, HEADS)


def bert(tensors: dict[str, np.ndarray], name: str, rows: int, vocabulary: str, heads: int) -> Network:
    """A network of the kind BERT from its tensors. Raises InputError ``file-damaged``."""
    try:
        made = list(_nodes(tensors, rows, heads))
    except KeyError as error:
        raise InputError("file-damaged", f"{name} has no tensor {error.args[0]}") from error
    nodes = tuple(node for node, _, _ in made)
    parts = [_rounded(node, weight) for node, weight, _ in made if weight is not None]
    weights, scales = zip(*parts, strict=True)
    biases = tuple(bias.astype(np.float32) for _, weight, bias in made if weight is not None)
    spec = InputSpec((rows, 1, 1), "float32", 0.0, 1.0, kind="text", parameters={"vocabulary": vocabulary})
    network = Network(name, nodes, weights, scales, biases, spec)
    check_network(network)
    return network


def _rounded(node: Node, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Weights of a layer as a network keeps them: places are few and stay as they are."""
    weight = np.ascontiguousarray(weight, np.float32)
    if node.op == "position":
        return weight, None
    scales = int8_scales(weight)
    return np.rint(weight / scales).astype(np.int8), scales


def _nodes(tensors: dict, rows: int, heads: int) -> Iterator[Part]:
    (known, size), hw = tensors[WORDS].shape, (rows, 1)
    words = Node("words", "words", 1, size, 1, 1, hw, hw, None, 0)
    words = replace(words, attributes=(("vocabulary", float(known)),))
    yield words, tensors[WORDS], tensors["embeddings.token_type_embeddings.weight"][0]
    plain = replace(words, cin=size, attributes=())
    places = tensors["embeddings.position_embeddings.weight"][:rows]
    yield replace(plain, name="places", op="position"), places, np.zeros(size)

    def dense(name: str, at: str, *inputs: str, **more) -> Part:
        weight = tensors[f"{at}.weight"].T
        shape = {"cin": weight.shape[0], "cout": weight.shape[1], "block": block, "inputs": inputs}
        return replace(plain, name=name, op="pointwise", **shape, **more), weight, tensors[f"{at}.bias"]

    def norm(name: str, at: str, *inputs: str) -> Part:
        node = replace(plain, name=name, op="layer-norm", block=block, inputs=inputs, attributes=EPSILON)
        return node, tensors[f"{at}.weight"][None], tensors[f"{at}.bias"]

    block = 0
    yield norm("start", "embeddings.LayerNorm", "places", "words")
    read, layers = "start", len({key.split(".")[2] for key in tensors if key.startswith("encoder.layer.")})
    for k in range(layers):
        at, own, block = f"encoder.layer.{k}", f"layer{k}", 2 * k + 1
        named = [f"{own}.{part}" for part in ("query", "key", "value")]
        for name in named:
            yield dense(name, f"{at}.attention.self.{name.rpartition('.')[2]}", read)
        attention = replace(plain, name=f"{own}.attention", op="attention", block=block)
        numbers = (("heads", float(heads)), ("scale", (size // heads) ** -0.5))
        yield replace(attention, inputs=(*named, read), attributes=numbers), None, None
        yield dense(f"{own}.project", f"{at}.attention.output.dense", f"{own}.attention", read)
        yield norm(f"{own}.norm", f"{at}.attention.output.LayerNorm", f"{own}.project", read)
        block += 1
        yield dense(f"{own}.expand", f"{at}.intermediate.dense", f"{own}.norm", activation="gelu")
        yield dense(f"{own}.contract", f"{at}.output.dense", f"{own}.expand", f"{own}.norm")
        yield norm(f"{own}.norm2", f"{at}.output.LayerNorm", f"{own}.contract", f"{own}.norm")
        read = f"{own}.norm2"
    mean = replace(plain, name="mean", op="sequence-pool", block=block, out_hw=(1, 1), inputs=(read,))
    yield mean, None, None
