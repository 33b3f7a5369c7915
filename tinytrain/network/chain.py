"""Nodes from the rows of a file: those of a chain, as schemas up to 4 have it, or those of any graph."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tinytrain.base.errors import InputError
from tinytrain.network.node import Node
from tinytrain.network.topology import CHAIN, FIELDS, OPTIONAL, PLAIN, pool_of
from tinytrain.network.validation import check_alone

CHAINS = ("1", "2", "3", "4")  # schemas
FLAGS = ("relu6", "residual", "shortcut", "max_pool")


def nodes_of(rows: list, schema: str, where: str) -> tuple[Node, ...]:
    """What `rows_of` wrote, up to `schema` 4 as a chain. Raises InputError for what no node can hold."""
    if schema not in CHAINS:
        made = [Node(**fitting(FIELDS, (), row, f"{where} {i}")) for i, row in enumerate(rows)]
        return tuple(made)
    chain = _Chain()
    for i, row in enumerate(rows):
        chain.add(OPTIONAL | fitting(CHAIN, OPTIONAL if schema > "2" else (), row, f"{where} {i}"))
    return tuple(chain.nodes)


class _Chain:
    """Nodes of the rows of a chain so far, and what the block of the last one reads."""

    def __init__(self):
        self.nodes: list[Node] = []
        self.read: tuple[str, ...] = ()

    def add(self, row: dict) -> None:
        where = f"layer {row['name']!r:.80}"
        if not all(type(row[flag]) is bool for flag in FLAGS):
            raise InputError("file-damaged", f"{where}: {', '.join(FLAGS)} must be true or false")
        if row["activation"] not in (None, *PLAIN) or (row["relu6"] and row["activation"]):
            what = f"activation must be null, or without ReLU6 one of {', '.join(PLAIN)}"
            raise InputError("file-damaged", f"{where}: {what}")
        before = tuple(node.name for node in self.nodes[-1:])
        if not self.nodes or row["block"] != self.nodes[-1].block:
            self.read = before
        inputs = ()
        if row["shortcut"]:
            inputs = self.read + before
        elif row["residual"]:
            inputs = before + self.read
        elif row["kind"] == "excite" and self.nodes and self.nodes[-1].op == "squeeze":
            inputs = before + tuple(node.name for node in self.nodes[-2:-1])
        if (row["residual"] and row["shortcut"]) or len(inputs) == 1:
            raise InputError("file-damaged", f"{where}: a shortcut has other layers in its block")
        geometry = (row[name] for name in ("cin", "cout", "kernel", "stride", "in_hw", "out_hw"))
        activation = "relu6" if row["relu6"] else row["activation"]
        node = Node(row["name"], row["kind"], *geometry, activation, row["block"], inputs, row["rate"])
        if not row["max_pool"]:
            self.nodes.append(node)
            return
        check_alone(node)
        node = replace(node, out_hw=node.filter_hw)
        self.nodes += [node, replace(pool_of(node), out_hw=row["out_hw"])]


def fitting(names: Sequence[str], optional: Iterable[str], row, where: str) -> dict:
    """Arguments from a JSON object with exactly the fields `names` and any of `optional`; lists as tuples."""
    if not isinstance(row, dict) or row.keys() - set(optional) != set(names):
        raise InputError("file-damaged", f"{where} must have exactly the fields {', '.join(names)}")
    return {name: _tuples(value) for name, value in row.items()}


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
