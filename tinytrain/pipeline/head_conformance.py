"""Does a head keep its promises? For heads of your own, before they are compared with others.

    from tinytrain.pipeline.head_conformance import check_head
    check_head(my_method)

A head takes the bytes that its method declares before it is fitted, and 1,000 updates need no more. The same
images give the same bits, whatever the memory held before, and kernels of another kind nearly the same
logits. Every task that can come up, degenerate ones too, gives finite answers, and a delta file gives back
the head bit for bit.

A head that `tells_strangers` refuses images of other classes and keeps those of its own; one that does not
refuses none. What is found besides is returned: whether a head is INCREMENTAL, learns in ANY_ORDER, and
KEEPS_CLASSES. A `fingerprint` must be the same on all processors.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.random_streams import rng_for
from tinytrain.base.safetensors import decode
from tinytrain.delta.delta import Delta
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.heads.head import (
    FIT_TAKES,
    FITTING,
    IDENTIFIED,
    LIFETIMES,
    OUTSIDE,
    STATES,
    UNKNOWN,
    Head,
    HeadMethod,
)
from tinytrain.pipeline.conformance import blamed, demand
from tinytrain.pipeline.head_tasks import LONG, Task, degenerate, made_up

INCREMENTAL = "incremental"  # updated with more images, it is the head that is fitted to all of them
ANY_ORDER = "any order"  # in which it learns images: that changes it by rounding alone
KEEPS_CLASSES = "keeps classes"  # one more changes no bit of the logits of the others
SHAPES = ((2, 3), (5, 12), (200, 8))  # classes, and values of an embedding
UPDATES = 1000
CLOSE = 1e-3  # of the largest logit: more is no rounding
LEAST_RIGHT = 0.8  # of new images of classes that are far apart
LEAST_REFUSED, MOST_LOST = 0.7, 0.35  # of images opposite to those of the classes, and of new ones of these


class Checked(NamedTuple):
    """Bytes of the tensors of a head by (way, embedding size), and which of the properties above it has."""

    nbytes: dict[tuple[int, int], int]
    properties: set[str]


def check_head(method: HeadMethod, backend: str = "auto") -> Checked:
    """Put `method` through everything above. `backend` is that of the kernels. Raises ConformanceError."""
    kernels, task, found = kernel_table.load(backend), made_up(5, 12, 6), {}
    properties = {INCREMENTAL, ANY_ORDER, KEEPS_CLASSES}
    # A head meets numbers that overflow as it does in `adapt`: its results are what is looked at.
    with np.errstate(all="ignore"):
        with _blamed(method, "when it declares its buffers"):
            for shape in SHAPES:
                found[shape] = _check_declaration(method, *shape)
        for other in (task, *degenerate()):
            with _blamed(method, f"for {other.name}"):
                _check_answers(method, kernels, other)
        # In the form for any number of embeddings, then in the one for few of them.
        for other in (task, made_up(5, LONG, 6, name="few images")):
            with _blamed(method, f"for {other.name}"):
                _check_fit(method, kernels, other)
                properties &= _check_update(method, kernels, other)
                _check_file(method, kernels, other)
        with _blamed(method, "in a long stream"):
            _check_stream(method, kernels, task)
    return Checked(found, properties)


def fingerprint(method: HeadMethod, tasks: Iterable[Task], backend: str = "auto") -> str:
    """A digest of every bit of heads of `method` that are fitted to `tasks`, and updated with these again.

    The same `tasks` must be handed to the processors that are compared: numpy's own sums make them up.
    """
    kernels, found = kernel_table.load(backend), hashlib.sha256()
    with np.errstate(all="ignore"):
        for task in tasks:
            head = fitted(method, kernels, task)
            grown = head.extended(task.way)
            grown.update(kernels, task.embeddings, task.labels)
            for values in (*_bytes(head).values(), *_bytes(grown).values()):
                found.update(values)
    return found.hexdigest()


def _blamed(method: HeadMethod, where: str):
    return blamed(f"head {method.name}", where)


def _demand(holds: bool, method: HeadMethod, otherwise: str) -> None:
    demand(bool(holds), f"head {method.name}", otherwise)


def fitted(method: HeadMethod, kernels, task: Task, byte: int = 0xFF) -> Head:
    """The head of `task` as a delta stores it, in memory that held `byte` everywhere."""
    buffers = method.buffers_for(task.way, task.embeddings.shape[1], len(task.labels))
    arrays = {b.name: b.allocate(byte) for b in buffers}

    def those(lifetimes):
        return {b.name: arrays[b.name] for b in buffers if b.lifetime in lifetimes}

    head = method.fit(kernels, those(FIT_TAKES), task.support(f"head {method.name}"))
    _demand(isinstance(head, method.head), method, f"is fitted as {type(head).__name__}")
    head = head.for_delta(those((FITTING,)))
    _check_tensors(method, head, task.way, "when fitted", len(task.labels))
    for b in method.tensors(task.way, head.embedding_size, len(task.labels)):
        inside = b.lifetime == OUTSIDE or np.shares_memory(head.tensors()[b.name], arrays[b.name])
        _demand(inside, method, f"has {b.name} outside of the buffer that it declares for it")
    return head


def _check_declaration(method: HeadMethod, way: int, size: int) -> int:
    plain = isinstance(method.name, str) and re.fullmatch("[a-z][a-z0-9-]*", method.name)
    _demand(plain, method, "must have a name of small letters, digits and dashes")
    for embeddings in (None, way, 1000 * way):
        buffers = _declared(method, way, size, embeddings)
        again = _declared(method, way, size, embeddings)
        _demand(again == buffers, method, "declares other buffers when asked again")
        twice = [name for name, times in Counter(b.name for b in buffers).items() if times > 1]
        _demand(not twice, method, f"declares {', '.join(twice)} twice")
        for b in buffers:
            _demand(b.lifetime in LIFETIMES, method, f"declares {b.name} for the lifetime {b.lifetime!r}")
    sizing = [b for b in method.tensors(way, size) if b.name == method.sized_by and len(b.shape) > 1]
    known = sizing and sizing[0].shape[-1] == size
    _demand(known, method, f"is sized by {method.sized_by}, which is no tensor with an embedding in a row")
    return sum(b.nbytes for b in method.tensors(way, size))


def _declared(method: HeadMethod, way: int, size: int, embeddings: int | None):
    return method.buffers(way, size) if embeddings is None else method.buffers_for(way, size, embeddings)


def _check_tensors(method: HeadMethod, head: Head, way: int, when: str, fitted: int | None = None) -> None:
    """The bytes that were declared, and finite; `fitted`: to so many embeddings, and not updated since."""
    tensors = method.tensors(way, head.embedding_size, fitted)
    declared = {b.name: (b.shape, np.dtype(b.dtype)) for b in tensors}
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
    _check_strangers(method, head, new)
    again = fitted(method, kernels, task, byte=0)
    _demand(_bytes(again) == _bytes(head), method, "differs with what its memory held before, or by chance")
    other = fitted(method, kernel_table.load("numpy"), task)
    near = _close(other.logits(new.embeddings), head.logits(new.embeddings))
    _demand(near, method, "answers otherwise with numpy kernels")


def _check_strangers(method: HeadMethod, head: Head, new: Task) -> None:
    own, strangers = ([head.verdict(e).state for e in x] for x in (new.embeddings, -new.embeddings))
    _demand({*own, *strangers} <= {*STATES}, method, f"says {own[0]!r}, which is none of {', '.join(STATES)}")
    if not head.tells_strangers:
        silent = {*own, *strangers} == {IDENTIFIED}
        _demand(silent, method, "refuses images, and says that it cannot tell strangers")
        return
    lost, refused = own.count(UNKNOWN) / len(own), strangers.count(UNKNOWN) / len(strangers)
    _demand(refused >= LEAST_REFUSED, method, f"refuses {refused:.0%} of strangers")
    _demand(lost <= MOST_LOST, method, f"refuses {lost:.0%} of new images of its classes")


def _check_update(method: HeadMethod, kernels, task: Task) -> set[str]:
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
    order, other = rng_for(2, "order of images").permutation(len(rest.labels)), head.extended(task.way)
    other.update(kernels, rest.embeddings[order], rest.labels[order])
    found = {
        INCREMENTAL: _close(grown.logits(x), fitted(method, kernels, task).logits(x)),
        ANY_ORDER: _close(other.logits(x), grown.logits(x)),
        KEEPS_CLASSES: _keeps_classes(method, kernels, head, task),
    }
    return {name for name, holds in found.items() if holds}


def _keeps_classes(method: HeadMethod, kernels, head: Head, task: Task) -> bool:
    """Whether a new class, which the head must learn, leaves the logits of the others as they are."""
    x, way = task.embeddings, task.way
    wider, new = head.extended(way + 1), -made_up(1, x.shape[1], 3).embeddings
    wider.update(kernels, new, np.full(3, way, np.int32))
    _check_tensors(method, wider, way + 1, "after an update with a new class")
    learnt = (wider.logits(new).argmax(axis=1) == way).all()
    _demand(learnt, method, "does not know a new class that it was updated with")
    # Products of one row and of several are computed in other ways.
    return all(wider.logits(e)[:, :way].tobytes() == head.logits(e).tobytes() for e in (x, x[:1]))


def _check_stream(method: HeadMethod, kernels, task: Task) -> None:
    """The state stays as it was declared, and useful."""
    grown = fitted(method, kernels, task).extended(task.way)
    more = made_up(task.way, task.embeddings.shape[1], UPDATES // task.way, seed=2)
    for k in range(UPDATES):
        grown.update(kernels, more.embeddings[k : k + 1], more.labels[k : k + 1])
    _check_tensors(method, grown, task.way, f"after {UPDATES} updates")
    new = made_up(task.way, task.embeddings.shape[1], 20, seed=1)
    right = (grown.logits(new.embeddings).argmax(axis=1) == new.labels).mean()
    _demand(right >= LEAST_RIGHT, method, f"is right about {right:.0%} of new images after {UPDATES} updates")


def _check_file(method: HeadMethod, kernels, task: Task) -> None:
    head, heads = fitted(method, kernels, task), {method.name: method}
    delta = Delta("0" * 64, "made up", (), head, tuple(f"class {k}" for k in range(task.way)), {})
    again = decode_delta(*decode(encode_delta(delta, heads)), heads=heads).head
    facts = [(h.kind, h.temperature, h.left_out, h.views, h.limit) for h in (head, again)]
    same = facts[0] == facts[1] and _bytes(head) == _bytes(again)
    same = same and np.array_equal(head.logits(task.embeddings), again.logits(task.embeddings))
    _demand(same, method, "does not come back from a delta file as it was")


def _bytes(head: Head) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in head.tensors().items()}


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=CLOSE * float(np.abs(other).max())))
