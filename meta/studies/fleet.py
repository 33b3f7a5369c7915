"""A round of heads with many clients in Flower's simulation engine, on this machine.

    python -m tinytrain.meta.studies.fleet --clients 1000

Needs the extra ``federated`` and Ray, which is that engine (``pip install 'flwr[simulation]'``). Images of a
generated domain are embedded once; each client has some of them, of a few classes, and sends the bytes of a
delta, which are checked and merged as those of devices. Prints seconds and bytes, and accuracy on queries:
of the first client alone, of all clients merged, and of one head for all images.
"""

import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import guarded
from tinytrain.base.extras import needed
from tinytrain.datasets import open_dataset
from tinytrain.delta.delta import Delta
from tinytrain.delta.merge import merge
from tinytrain.federate.task import encode_head
from tinytrain.meta.studies.heads import head_of
from tinytrain.meta.studies.study import (
    decoded_episode,
    number,
    option,
    parser_of,
    percent,
    table,
    task_options,
)
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.device import Device

HEADER = "clients,seconds of the engine,of merging,bytes of an answer,first alone,merged,joint"


class Shards:
    """Embeddings of the support of an episode, dealt out: each client has one image of two classes."""

    def __init__(self, network, episode):
        self.digest, self.name, self.names = network.digest, network.name, episode.class_names
        self.x, self.y = embed(network, episode.support, Device()), episode.support.labels
        self.rows = [np.flatnonzero(self.y == label) for label in range(episode.n_way)]

    def delta(self, rows: Sequence[int]) -> Delta:
        """That of a client with these images."""
        classes, labels = np.unique(self.y[rows], return_inverse=True)
        head = head_of("lda", self.x[rows], labels)
        return Delta(self.digest, self.name, (), head, tuple(self.names[k] for k in classes), {})

    def of(self, client: int) -> Delta:
        way = len(self.names)
        places = (2 * client, 2 * client + 1)
        return self.delta([self.rows[place % way][place // way] for place in places])


def simulated(asked, shards: Shards, clients: int, processes: int):
    """What `Rounds.run_heads` gives with so many clients of Flower's engine."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    found, server, client = [], ServerApp(), ClientApp()

    @server.main()
    def _serve(grid, context) -> None:
        while len(list(grid.get_node_ids())) < clients:  # they come one after another
            time.sleep(0.1)
        found.append(asked.run_heads(grid, {}))

    @client.query("heads")
    def _heads(message, context):
        k = context.node_config["partition-id"]
        head = ConfigRecord({"delta": encode_head(shards.of(k))})
        content = {"from": ConfigRecord({"name": f"{k:05}"}), "head": head}
        return Message(RecordDict(content), reply_to=message)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": processes}}
    run_simulation(server, client, clients, backend_config=resources)
    return found[0]


OPTIONS = (
    number("--clients", 1000, "(default: %(default)s)"),
    number("--processes", 2, "of Ray (default: %(default)s)"),
    *(option("--backbone", "tinytrain-small"), option("--pack", "leaves"), option("--data")),
    *(o for o in task_options(queries=5, way=40) if o[0] != "--shots"),
)


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser_of("fleet", __doc__, *OPTIONS).parse(arguments)
    args.shots = -(-2 * args.clients // args.way)
    network = load_backbone(args.backbone)
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when Flower is imported
    with needed("flwr", "federated", "the engine"):
        from tinytrain.federate.rounds import Rounds
    drawn = decoded_episode(network, open_dataset(args.pack, args.data), args)
    shards, times = Shards(network, drawn), [time.monotonic()]
    asked = Rounds(network, "lda", least=args.clients)
    deltas, names = simulated(asked, shards, args.clients, args.processes)
    times.append(time.monotonic())
    merged = merge(kernel_table.load(), deltas, names).delta
    times.append(time.monotonic())
    joint = shards.delta(range(2 * args.clients))
    order = [merged.class_names.index(name) for name in joint.class_names]
    theirs, ours = vars(merged.head.moments), vars(joint.head.moments.at(order, len(order)))
    alike = all(np.array_equal(theirs[name], value) for name, value in ours.items())
    query = embed(network, drawn.query, Device())
    right = [percent(_right(delta, query, drawn)) for delta in (deltas[0], merged, joint)]
    seconds = [f"{b - a:.1f}" for a, b in pairwise(times)]
    sent = sum(len(encode_head(delta)) for delta in deltas)
    row = (str(args.clients), *seconds, f"{sent / args.clients:,.0f}", *right)
    print(
        "\n".join(table(HEADER.split(","), [row])),
        f"\n\nThe sums are those of all images, bit for bit: {alike}.",
    )


def _right(delta: Delta, query: np.ndarray, drawn) -> np.ndarray:
    found, names = delta.head.logits(query).argmax(axis=1), np.array(drawn.class_names)
    return np.array(delta.class_names)[found] == names[drawn.query.labels]


if __name__ == "__main__":
    sys.exit(main())
