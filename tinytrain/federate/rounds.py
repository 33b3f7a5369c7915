"""All rounds of a server on a grid of Flower: strategies of Flower put layers together, heads are merged.

The grid may be one of Flower's engines or `federate.grid.HttpGrid`. Messages of a round of layers hold an
ArrayRecord and a ConfigRecord with the task, answers an ArrayRecord and the number of images, as Flower's own
applications do it. A round of heads is a query, whose answers hold the bytes of a delta.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, FedMedian, FedTrimmedAvg, Krum

from tinytrain.base.errors import InputError
from tinytrain.delta.delta import Delta
from tinytrain.federate.task import (
    Arrays,
    Task,
    arrays_of,
    changes_of,
    decode_head,
    decode_layers,
    decode_task,
    encode_task,
)
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe

logging.getLogger("flwr").setLevel(logging.ERROR)  # our own events say what happens

HEADS = "query.heads"
# What is given to Flower's strategies: all places take part, and nothing is evaluated on clients.
EVERY = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}
# The share of clients that may be wrong: that a trimmed mean cuts at both ends, and that Krum expects.
WRONG = 0.2
STRATEGIES: dict[str, Callable[[int], FedAvg]] = {
    "average": lambda n: FedAvg(**EVERY),
    "median": lambda n: FedMedian(**EVERY),
    "trimmed": lambda n: FedTrimmedAvg(**EVERY, beta=WRONG),
    "krum": lambda n: Krum(**EVERY, num_malicious_nodes=max(1, int(WRONG * n))),
}


class Rounds(NamedTuple):
    """`layers` rounds that train by `recipe`, and one of heads `head`, for `network`.

    A round takes answers for `deadline` seconds, or until all have answered; it needs at least `least`.
    """

    network: Network | Committee
    head: str
    layers: int = 0
    recipe: Recipe | None = None
    strategy: str = "average"
    least: int = 1
    deadline: float = 3600.0

    def task(self, number: int) -> Task:
        return Task(number, self.layers + 1, self.network.digest, self.head, self.recipe)

    def begin(self) -> Arrays:
        """The layers before the first round."""
        return arrays_of(self.network, self.recipe) if self.recipe else {}

    def content_of(self, data: bytes, task: Task, source: str) -> RecordDict:
        """What an answer to `task` holds, after every check. Raises InputError."""
        if task.of_layers:
            arrays, images = decode_layers(data, self.begin(), source)
            found = {"arrays": recorded(arrays), "metrics": MetricRecord({"num-examples": images})}
        else:
            decode_head(data, task, self.network, source)
            found = {"head": ConfigRecord({"delta": data})}
        return RecordDict({"from": ConfigRecord({"name": source}), **found})

    def run_layers(self, grid: Grid, number: int, arrays: Arrays) -> Arrays:
        """The layers after round `number`, which goes on from `arrays`."""
        strategy = STRATEGIES[self.strategy](len(list(grid.get_node_ids())))
        task = ConfigRecord({"task": encode_task(self.task(number), {})})
        asked = strategy.configure_train(number, recorded(arrays), task, grid)
        found, _ = strategy.aggregate_train(number, self._answers(grid, asked, self.task(number)))
        return {name: array.numpy().astype("f4") for name, array in found.items()}

    def run_heads(self, grid: Grid, arrays: Arrays) -> tuple[list[Delta], list[str]]:
        """Deltas with the heads of all clients and the layers `arrays`, to be merged, and their names."""
        task = self.task(self.layers + 1)
        config = ConfigRecord({"task": encode_task(task, {})})
        content = RecordDict({"arrays": recorded(arrays), "config": config})
        asked = (Message(content, place, HEADS) for place in grid.get_node_ids())
        answers = [answer.content for answer in self._answers(grid, asked, task)]
        names = [found["from"]["name"] for found in answers]
        slices = changes_of(self.network, self.recipe, arrays, "layers").slices if self.recipe else ()
        pairs = zip((found["head"]["delta"] for found in answers), names, strict=True)
        deltas = (decode_head(data, task, self.network, name) for data, name in pairs)
        return [replace(delta, slices=slices) for delta in deltas], names

    def _answers(self, grid: Grid, asked: Iterable[Message], task: Task) -> list[Message]:
        """Those in the order of their names, which decides how floats are added."""
        found = [a for a in grid.send_and_receive(asked, timeout=self.deadline) if a.has_content()]
        if len(found) < self.least:
            text = (
                f"{task.name}: {len(found)} answers came within {self.deadline:g} s, {self.least} are needed"
            )
            raise InputError("file-missing", f"{text}; start the server again to wait for others")
        return sorted(found, key=lambda answer: answer.content["from"]["name"])


def recorded(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(values) for name, values in arrays.items()})


def asked_for(message: Message) -> tuple[Task, Arrays]:
    """The task and the layers of a message that a client got."""
    content = message.content
    task, _ = decode_task(content["config"]["task"], "the message")
    return task, {name: array.numpy() for name, array in content["arrays"].items()}
