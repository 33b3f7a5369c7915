"""The nodes of a network as rows of a file.

Up to schema 4, rows are the layers of a chain, each with what follows it: an addition, an activation, max
pooling. A network that is such a chain is still written so, and its digest is taken over these rows. Any
other one has rows with the fields of its nodes.
"""

from dataclasses import asdict, fields
from itertools import groupby

from tinytrain.network.node import Node, sources_of

FIELDS = [each.name for each in fields(Node)]
CHAIN = ["name", "kind", "cin", "cout", "kernel", "stride", "in_hw", "out_hw", "relu6", "block", "residual"]
OPTIONAL = {"rate": 1.0, "activation": None, "shortcut": False, "max_pool": False}  # since schema 3
PLAIN = ("relu", "hard-swish", "hard-sigmoid")  # activations of a chain beside ReLU6
LAYERS = {"conv", "pointwise", "depthwise", "squeeze", "excite"}  # of a chain


def rows_of(nodes: tuple[Node, ...]) -> list[dict]:
    """A row for each layer of a chain, or for each of `nodes` if they are none."""
    return _chain(nodes) or [asdict(node) for node in nodes]


def _chain(nodes: tuple[Node, ...]) -> list[dict] | None:
    rows: list[dict] = []
    sources, starts = sources_of(nodes), _starts(nodes)
    for i, node in enumerate(nodes):
        before = i - 1, starts[i] - 1
        role = {before[::-1]: "shortcut", before: "residual", before[:1]: ""}.get(sources[i])
        if node.op == "excite" and sources[i] == (i - 1, *sources[i - 1]):
            role = ""
        if node == pool_of(nodes[i - 1]) and role == "" and nodes[i - 1].op in LAYERS:
            rows[-1] |= {"max_pool": True, "out_hw": node.out_hw}
            continue
        plain = node.is_usual and node.activation in (None, "relu6", *PLAIN)
        if node.op not in LAYERS or role is None or not plain:
            return None
        row = {name: getattr(node, name, None) for name in CHAIN}
        row |= {"kind": node.op, "kernel": node.kernel[0], "stride": node.stride[0]}
        row |= {"relu6": node.activation == "relu6", "residual": role == "residual"}
        activation = None if row["relu6"] else node.activation
        more = {"rate": node.rate, "activation": activation, "shortcut": role == "shortcut"}
        rows.append(row | {name: value for name, value in more.items() if value != OPTIONAL[name]})
    return rows


def _starts(nodes: tuple[Node, ...]) -> list[int]:
    """For each node the number of the first one of its block."""
    sizes = [len(list(members)) for _, members in groupby(nodes, lambda node: node.block)]
    return [sum(sizes[:k]) for k, size in enumerate(sizes) for _ in range(size)]


def pool_of(node: Node) -> Node:
    """The max pooling of a row whose convolution is `node`: windows of 3 x 3, stride 2, padding 1."""
    hw = tuple((side + 1) // 2 for side in node.out_hw)
    shape = node.cout, node.cout, 3, 2, node.out_hw, hw
    return Node(f"{node.name}.max_pool", "max-pool", *shape, None, node.block)
