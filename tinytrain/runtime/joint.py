"""The head of a committee: fitted to the embeddings of its members side by side, inside the memory budget.

Members are adapted one after another in the same bytes. When they are done, their embeddings of the images as
they are make one head. Views of the images gained nothing here, and would take a pass each.
"""

import numpy as np

from tinytrain.delta.delta import Changes
from tinytrain.episode.episode import Episode, Images
from tinytrain.heads.head import Head, HeadMethod
from tinytrain.heads.leave_one_out import COLUMNS
from tinytrain.heads.repeats import Sketches
from tinytrain.network.committee import Committee
from tinytrain.plan.recipe import MOST_WORKERS
from tinytrain.planner.committee import head_arrays, head_bytes, head_methods, head_too_large
from tinytrain.runtime.answers import answer
from tinytrain.runtime.device import Device
from tinytrain.runtime.embedder import SideBySide
from tinytrain.runtime.fitting import CLEAN, Embeddings, Fit, Fitting, Scratch, images_of
from tinytrain.runtime.schedule import dealt

PASSES = 2  # over the images by the head: before training and after it
TIMED = 5  # looks at an image that say how long one takes


def seconds_of_head(device: Device, committee: Committee, images: Images) -> float:
    """Seconds that the head of `committee` takes for `images`, as a few of them say."""
    image = images.take([0])
    SideBySide(committee, None, device.backend).embed(image)  # loads kernels
    start = device.now()
    embedder = SideBySide(committee, None, device.backend)
    compiled = device.now()
    for _ in range(TIMED):
        embedder.embed(image)
    each = (device.now() - compiled) / TIMED
    return PASSES * (compiled - start + len(images) * each)


class JointFitting(Fitting):
    """Fits the heads of a committee to the support of `episode` inside `memory` bytes.

    `arena` is how many of them it takes. Raises BudgetError if they are too few.
    """

    def __init__(
        self, device: Device, committee: Committee, episode: Episode, method: HeadMethod, memory: int
    ):
        self.committee, self.episode, self.memory, self.device = committee, episode, memory, device
        labels, way, size = episode.support.labels, episode.n_way, committee.embedding_size
        self.methods = head_methods(method)
        self.rows_after = np.empty((len(labels), COLUMNS), np.float32)
        super().__init__(
            device.kernels(), labels, dealt(labels), size, np.empty_like(self.rows_after), episode.background
        )
        self.scratch = Scratch(
            np.empty((way, size), np.float32), np.empty(way, np.float32), np.empty((way, size), np.float32)
        )
        self.arrays: dict[HeadMethod, dict[str, np.ndarray]] = {}
        self.room, self.arena = np.empty((0, size), np.float32), 0
        self.macs = 0

    def look_with(self, changes: tuple[Changes, ...]) -> None:
        """Embed images by members with these `changes`."""
        self.embedder = None  # its arena is free before the next one is taken
        self.embedder = SideBySide(self.committee, changes, self.device.backend)
        n, each = len(self.labels), self.embedder.arena
        taken = each + head_bytes(self.methods[0], self.episode.n_way, self.size, n)
        if taken > self.memory:
            raise head_too_large(self.committee, n, taken, self.memory)
        more = min(n - 1, (self.memory - taken) // (4 * self.size))
        self.room = np.empty((1 + more, self.size), np.float32)
        taken += 4 * self.size * more
        workers = min(MOST_WORKERS, 1 + (self.memory - taken) // each)  # however many threads there are
        self.embedder.threads = min(workers, self.device.threads)
        self.arena = max(self.arena, taken + (workers - 1) * each)

    def _fitted(self, after: bool, steps: int, sketches: Sketches | None = None):
        copies, way = self.repeats.copies, self.episode.n_way
        images = images_of(self.labels, copies, way)
        fits = []
        for method in self.methods[:1] if after else self.methods:
            self.arrays.pop(method, None)
            shapes = head_arrays(method, way, self.size, int(images.sum()))
            arrays = self.arrays[method] = {name: np.empty(*b) for name, b in shapes.items()}
            fits.append(Fit(method, arrays, CLEAN, True))
        embeddings = Embeddings(self.kernels, self.order, self.labels, self.room, self._embed)
        rows = self.rows_after if after else self.rows
        return self.fit(embeddings, fits, self.scratch, rows, steps, sketches)[:2]

    def _embed(self, view: int, chosen: np.ndarray, out: np.ndarray) -> None:
        self.embedder.embed(self.episode.support.take(chosen), out=out)
        self.macs += len(chosen) * self.committee.macs

    def kept(self, head: Head) -> Head:
        """`head` as a delta keeps it."""
        return head.for_delta(self.arrays[head.method])

    def answer(self, answers: np.ndarray, *heads: Head) -> None:
        """Write the `answers` (heads, n) of each head for the query images."""
        query, some = self.episode.query, len(self.room)
        for first in range(0, len(query), some):
            chosen = range(first, min(first + some, len(query)))
            embeddings = self.embedder.embed(query.take(chosen), out=self.room[: len(chosen)])
            for i, embedding in zip(chosen, embeddings, strict=True):
                for row, head in zip(answers, heads, strict=True):
                    row[i] = answer(head, embedding[None])
