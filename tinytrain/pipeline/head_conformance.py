"""Does a head keep its promises? For heads of your own, before they are compared with others.

    from tinytrain.pipeline.head_conformance import check_head
    check_head(my_method)

A head takes the bytes that its method declares before it is fitted, and updates need no more. The same
images give the same bits, whatever the memory held before, and kernels of another kind nearly the same
logits. Every task that can come up, degenerate ones too, gives finite answers, and a delta file gives back
the head bit for bit. A method that calls itself `incremental` may be fitted to some images and updated with
the rest.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.random_streams import rng_for
from tinytrain.base.safetensors import decode
from tinytrain.delta.delta import Delta
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.heads.head import (
    BESIDE,
    DELTA_TAKES,
    FIT_TAKES,
    LIFETIMES,
    Head,
    HeadMethod,
    Support,
)
from tinytrain.pipeline.conformance import blamed, demand

SHAPES = ((2, 3), (5, 12), (200, 8))  # classes, and values of an embedding
BATCH = 7  # embeddings handed to a head at a time
CLOSE = 1e-3  # of the largest logit: more is no rounding
LEAST_RIGHT = 0.8  # of new images of classes that are far apart


@dataclass(frozen=True)
class Task:
    """Unit embeddings (n, d) with labels (n,) of `way` classes, and how messages call it."""

    name: str
    embeddings: np.ndarray
    labels: np.ndarray
    way: int

    def part(self, chosen) -> "Task":
        return replace(self, embeddings=self.embeddings[chosen], labels=self.labels[chosen])

    def support(self, method: HeadMethod) -> Support:
        """For `method`, in batches that share their memory, as a session hands them out."""

        def batches():
            room = np.empty((BATCH, self.embeddings.shape[1]), np.float32)
            for first in range(0, len(self.labels), BATCH):
                part = slice(first, first + BATCH)
                batch = room[: len(self.labels[part])]
                batch[:] = self.embeddings[part]
                yield batch, self.labels[part]
                untouched = np.array_equal(batch, self.embeddings[part])
                _demand(untouched, method, "writes to the embeddings that it is fitted to")

        return Support(batches, batches, np.bincount(self.labels, minlength=self.way))


def made_up(way: int, size: int, shots: int, seed: int = 0, name: str = "an ordinary task") -> Task:
    """Images of classes that are far apart; `seed` draws other images of the same classes."""
    labels = np.tile(np.arange(way, dtype=np.int32), shots)
    centres = rng_for(0, "centres of classes").standard_normal((way, size))
    noise = rng_for(seed, "images of classes").standard_normal((len(labels), size))
    embeddings = 3 * centres[labels] + noise / 2
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return Task(name, embeddings.astype(np.float32), labels, way)


def degenerate() -> list[Task]:
    """Tasks that come up where little is known."""
    task = made_up(3, 6, 4)
    return [
        made_up(3, 6, 1, name="one image of each class"),
        replace(task, name="images that are all alike", embeddings=np.full((12, 6), 6**-0.5, np.float32)),
        replace(task, name="embeddings of zero", embeddings=np.zeros((12, 6), np.float32)),
        made_up(2, 3, 2, name="two classes"),
        made_up(200, 8, 2, name="200 classes"),
    ]


def check_head(method: HeadMethod, backend: str = "auto") -> dict[tuple[int, int], int]:
    """Put `method` through everything above; bytes of its tensors by (way, embedding size).

    `backend` is that of the kernels. Raises ConformanceError.
    """
    kernels, task, found = kernel_table.load(backend), made_up(5, 12, 6), {}
    # A head meets numbers that overflow as it does in `adapt`: its results are what is looked at.
    with np.errstate(all="ignore"):
        with _blamed(method, "when it declares its buffers"):
            for shape in SHAPES:
                found[shape] = _check_declaration(method, *shape)
        for other in (task, *degenerate()):
            with _blamed(method, f"for {other.name}"):
                _check_answers(method, kernels, other)
        with _blamed(method, "for an ordinary task"):
            _check_fit(method, kernels, task)
            _check_update(method, kernels, task)
            _check_file(method, kernels, task)
    return found


def _blamed(method: HeadMethod, where: str):
    return blamed(f"head {method.name}", where)


def _demand(holds: bool, method: HeadMethod, otherwise: str) -> None:
    demand(bool(holds), f"head {method.name}", otherwise)


def fitted(method: HeadMethod, kernels, task: Task, byte: int = 0xFF) -> Head:
    """The head of `task` as a delta stores it, in memory that held `byte` everywhere."""
    buffers = method.buffers(task.way, task.embeddings.shape[1])
    arrays = {b.name: b.allocate(byte) for b in buffers}

    def those(lifetimes):
        return {b.name: arrays[b.name] for b in buffers if b.lifetime in lifetimes}

    head = method.fit(kernels, those(FIT_TAKES), task.support(method))
    _demand(isinstance(head, method.head), method, f"is fitted as {type(head).__name__}")
    head = head.for_delta(those(DELTA_TAKES))
    _check_tensors(method, head, task.way, "when fitted")
    for b in method.tensors(task.way, head.embedding_size):
        inside = b.lifetime == BESIDE or np.shares_memory(head.tensors()[b.name], arrays[b.name])
        _demand(inside, method, f"has {b.name} outside of the buffer that it declares for it")
    return head


def _check_declaration(method: HeadMethod, way: int, size: int) -> int:
    plain = isinstance(method.name, str) and re.fullmatch("[a-z][a-z0-9-]*", method.name)
    _demand(plain, method, "must have a name of small letters, digits and dashes")
    buffers = method.buffers(way, size)
    _demand(method.buffers(way, size) == buffers, method, "declares other buffers when asked again")
    twice = [name for name, times in Counter(b.name for b in buffers).items() if times > 1]
    _demand(not twice, method, f"declares {', '.join(twice)} twice")
    for b in buffers:
        _demand(b.lifetime in LIFETIMES, method, f"declares {b.name} for the lifetime {b.lifetime!r}")
    sizing = [b for b in method.tensors(way, size) if b.name == method.sized_by and len(b.shape) > 1]
    known = sizing and sizing[0].shape[-1] == size
    _demand(known, method, f"is sized by {method.sized_by}, which is no tensor with an embedding in a row")
    return sum(b.nbytes for b in method.tensors(way, size))


def _check_tensors(method: HeadMethod, head: Head, way: int, when: str) -> None:
    """The bytes that were declared, and finite."""
    declared = {b.name: (b.shape, np.dtype(b.dtype)) for b in method.tensors(way, head.embedding_size)}
    present = {name: (a.shape, a.dtype) for name, a in head.tensors().items()}
    wrong = sorted(n for n in declared | present if declared.get(n) != present.get(n))
    _demand(not wrong, method, f"does not have {', '.join(wrong)} as declared {when}")
    _demand(head.is_finite(), method, f"holds NaN or infinity {when}")


def _check_answers(method: HeadMethod, kernels, task: Task) -> None:
    """Logits, probabilities and verdicts that mean something; also after an update."""
    head = fitted(method, kernels, task)
    facts = 0 < head.temperature < np.inf and 0 <= (head.left_out or 0) <= 1 and head.views >= 1
    _demand(facts, method, f"has a temperature, left_out or views that mean nothing for {task.name}")
    grown = head.extended(task.way)
    grown.update(kernels, task.embeddings, task.labels)
    _check_tensors(method, grown, task.way, f"after an update with {task.name}")
    for one in (head, grown):
        _check_logits(method, one, task)


def _check_logits(method: HeadMethod, head: Head, task: Task) -> None:
    x, before = task.embeddings.copy(), _bytes(head)
    logits, probabilities = head.logits(x), head.probabilities(x)
    same = np.array_equal(x, task.embeddings) and _bytes(head) == before
    _demand(same, method, "changes itself or the embeddings when it answers")
    numbers = logits.shape == (len(x), task.way) and np.isfinite(logits).all()
    _demand(numbers, method, f"has logits that are not finite or not one per class for {task.name}")
    shares = (probabilities >= 0).all() and np.allclose(probabilities.sum(axis=1), 1, atol=1e-4)
    _demand(shares, method, f"has probabilities that do not add up to 1 for {task.name}")
    _demand(_close(head.logits(3 * x), logits), method, "answers by the length of an embedding")
    verdict = head.verdict(x[0])
    known = 0 <= verdict.label < task.way and 0 <= verdict.confidence <= 1.0001
    _demand(known, method, f"gives a verdict that is no class or no confidence for {task.name}")
    refused = head.verdict(x[0], np.nextafter(verdict.confidence, 2.0)).rejected
    _demand(refused, method, "does not reject what it is less sure of than asked for")


def _check_fit(method: HeadMethod, kernels, task: Task) -> None:
    head, new = fitted(method, kernels, task), made_up(task.way, task.embeddings.shape[1], 20, seed=1)
    right = (head.logits(new.embeddings).argmax(axis=1) == new.labels).mean()
    _demand(right >= LEAST_RIGHT, method, f"is right about {right:.0%} of new images of clear classes")
    again = fitted(method, kernels, task, byte=0)
    _demand(_bytes(again) == _bytes(head), method, "differs with what its memory held before, or by chance")
    other = fitted(method, kernel_table.load("numpy"), task)
    near = _close(other.logits(new.embeddings), head.logits(new.embeddings))
    _demand(near, method, "answers otherwise with numpy kernels")


def _check_update(method: HeadMethod, kernels, task: Task) -> None:
    some, rest = task.part(slice(None, 3 * task.way)), task.part(slice(3 * task.way, None))
    head, x = fitted(method, kernels, some), task.embeddings
    before, grown, slow = _bytes(head), head.extended(task.way), head.extended(task.way)
    grown.update(kernels, rest.embeddings, rest.labels)
    _demand(_bytes(head) == before, method, "changes the head that it was extended from")
    for k, label in enumerate(rest.labels):
        slow.update(kernels, rest.embeddings[k : k + 1], rest.labels[k : k + 1])
        _check_tensors(method, slow, task.way, f"after {k + 1} updates, the last of class {label}")
    near = _close(slow.logits(x), grown.logits(x))
    _demand(near, method, "learns otherwise from images one by one than from all at once")
    if method.incremental:
        near = _close(grown.logits(x), fitted(method, kernels, task).logits(x))
        _demand(near, method, "calls itself incremental, and an update is not what fitting to all gives")
    wider, new = head.extended(task.way + 1), -made_up(1, x.shape[1], 3).embeddings
    wider.update(kernels, new, np.full(3, task.way, np.int32))
    _check_tensors(method, wider, task.way + 1, "after an update with a new class")
    learnt = (wider.logits(new).argmax(axis=1) == task.way).all()
    _demand(learnt, method, "does not know a new class that it was updated with")


def _check_file(method: HeadMethod, kernels, task: Task) -> None:
    head, heads = fitted(method, kernels, task), {method.name: method}
    delta = Delta("0" * 64, "made up", (), head, tuple(f"class {k}" for k in range(task.way)), {})
    again = decode_delta(*decode(encode_delta(delta, heads)), heads=heads).head
    facts = [(h.kind, h.temperature, h.left_out, h.views) for h in (head, again)]
    same = facts[0] == facts[1] and _bytes(head) == _bytes(again)
    same = same and np.array_equal(head.logits(task.embeddings), again.logits(task.embeddings))
    _demand(same, method, "does not come back from a delta file as it was")


def _bytes(head: Head) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in head.tensors().items()}


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=CLOSE * float(np.abs(other).max())))
