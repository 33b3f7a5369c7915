"""Which of the networks on this machine see most in the same images, alone and side by side: none is trained.

Each network embeds the images once. Then every combination costs only a head, which names each image after
having seen all others. `preferred` was settled by `meta.studies.committees`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tinytrain.backbones.catalogue import JOINS, TIERS, is_here
from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError
from tinytrain.base.random_streams import rng_for
from tinytrain.base.statistics import NORMAL
from tinytrain.episode.episode import Images
from tinytrain.episode.kinds import kind_of
from tinytrain.heads.head import unit
from tinytrain.heads.side_by_side import JointLda
from tinytrain.network.committee import Committee, members_of
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import Network
from tinytrain.runtime.device import Device
from tinytrain.runtime.embedder import embedder_of

ROUND = 16  # images of each worker between two reports of progress
MOST = 400  # images that are compared: with more it would take longer than seconds
# Standard deviation between the difference of two on images that are left out, and that on new ones, beyond
# chance: a cautious guess, in which no study has a part.
BETWEEN_TASKS = 0.03


@dataclass(frozen=True)
class Compared:
    """`networks` side by side, whose head is right on a fraction `accuracy` of images that are left out.

    `gain` is that fraction above the one of the networks in use, with its standard error `deviation`; `times`
    the MACs of an image, those in use being 1.
    """

    networks: tuple[str, ...]
    accuracy: float
    gain: float
    deviation: float
    times: float

    @property
    def name(self) -> str:
        """What ``--backbone`` takes."""
        return JOINS.join(self.networks)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval (low, high) of the gain."""
        return self.gain - NORMAL * self.deviation, self.gain + NORMAL * self.deviation

    def to_json(self) -> dict:
        low, high = self.interval
        return {
            "networks": list(self.networks), "accuracy": self.accuracy, "gain": self.gain, "low": low,
            "high": high, "times": self.times,
        }  # fmt: skip


def compared(
    network: Network | Committee,
    others: Iterable[Network],
    images: Images,
    embeddings: np.ndarray,
    seed: int,
    device: Device,
) -> tuple[Compared, ...]:
    """Every combination of the members of `network` and the `others`, `network` itself first.

    There is nothing to compare, and the result is empty, if there are no others or a class has a single one
    of `images`. `embeddings` (n, d) of length 1 are those by `network`.
    """
    used = members_of(network)
    known = {member.digest for member in used}
    members = [*used, *(other for other in others if other.digest not in known)]
    if len(members) == len(used) or np.bincount(images.labels).min() < 2:
        return ()
    chosen = _spread(images.labels, seed)
    some, labels = images.take(chosen), images.labels[chosen]
    ends = np.cumsum([m.embedding_size for m in used])[:-1]
    parts = [unit(part) for part in np.split(embeddings[chosen], ends, axis=1)]
    parts += [embed(other, some, device) for other in members[len(used) :]]
    products = [(part @ part.T).astype(float) for part in parts]
    order = range(len(members))
    every = [c for size in order for c in combinations(order, size + 1)]
    right = {c: _right(c, products, labels, sum(members[k].embedding_size for k in c)) for c in every}
    base = tuple(range(len(used)))
    rows = [
        Compared(
            tuple(members[k].name for k in c),
            float(right[c].mean()),
            *paired(right[base], right[c]),
            sum(members[k].macs for k in c) / network.macs,
        )
        for c in sorted(every, key=lambda c: c != base)
    ]
    return tuple(rows)


def choices(network: Network, images: Images, memory: int | None, seed: int, device: Device) -> Iterator[str]:
    """What ``--backbone`` may take of what is here: what suits the `images` best, and then what needs less.

    `network` is that of the tier small. With `memory`, only tiers whose budget is no larger count.
    """
    tiers = [tier for tier in tiers_here() if memory is None or TIERS[tier].budget <= memory]
    if "large" in tiers:
        yield preferred((), tiers)  # whatever the figures are
    if "medium" in tiers:
        others = (load_backbone("medium"),)
        yield preferred(
            compared(network, others, images, embed(network, images, device), seed, device), tiers[:2]
        )
    yield preferred((), tiers[:1])


def left_out(network: Network, images: Images, seed: int, device: Device) -> float:
    """The fraction of the `images`, two of each class or more, that a head names rightly after the others."""
    chosen = _spread(images.labels, seed)
    seen = embed(network, images.take(chosen), device).astype(float)
    return float(_right((0,), [seen @ seen.T], images.labels[chosen], network.embedding_size).mean())


def preferred(rows: Sequence[Compared], tiers: Sequence[str]) -> str:
    """What ``--backbone`` takes for those networks of `tiers` that suit the images, by what was `compared`.

    That of large sits beside that of small wherever it is here. Where it is not, that of medium does if more
    of the images that are left out are named rightly with it. To follow the figures further is no better:
    three networks, the best of all combinations, or large left out.
    """
    small, medium, large = (TIERS[tier].backbone for tier in ("small", "medium", "large"))
    if "large" in tiers:
        return JOINS.join((small, large))
    found = {frozenset(row.networks): row.accuracy for row in rows}
    pair = found.get(frozenset((small, medium)), 0)
    return JOINS.join((small, medium)) if pair > found.get(frozenset((small,)), 0) else small


def tiers_in(rows: Sequence[Compared]) -> list[str]:
    """The tiers whose network is in one of `rows`, the smallest first."""
    return [tier for tier, each in TIERS.items() if any(each.backbone in row.networks for row in rows)]


def tiers_here() -> list[str]:
    """The tiers of one network that are on this machine, the smallest first."""
    return [tier for tier, row in TIERS.items() if JOINS not in row.backbone and is_here(tier)]


def installed(given: InputSpec) -> Iterator[Network]:
    """The networks of these tiers that take the same images; damaged ones are left out."""
    for tier in tiers_here():
        with suppress(InputError):
            network = load_backbone(tier)
            if network.input.item == given.item:
                yield network


def paired(base: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """How much more often `other` is right than `base` on the same images, both (n,), and its standard error.

    Half an image more on either side, as few images may differ in nothing by chance: Agresti and Min, "Simple
    improved confidence intervals for comparing matched proportions", Statistics in Medicine 24, 2005.
    """
    n, change = len(base), other.astype(int) - base
    gain = float(change.mean())
    variance = (np.count_nonzero(change) + 1) / n - gain**2
    return gain, float(np.sqrt(variance / n + BETWEEN_TASKS**2))


def _right(chosen: tuple[int, ...], products: list[np.ndarray], labels: np.ndarray, size: int) -> np.ndarray:
    """Whether the head of the `chosen` networks names each image (n,) that it has not seen rightly."""
    head = JointLda(sum(products[k] for k in chosen), labels, size)
    return head.left_out().argmax(axis=1) == labels


def _spread(labels: np.ndarray, seed: int) -> np.ndarray:
    """Numbers of MOST images at most, of each class as many as of the others if it has them; at least 2."""
    order = rng_for(seed, "networks").permutation(len(labels))
    each = max(2, MOST // (int(labels.max()) + 1))
    return np.sort(np.concatenate([order[labels[order] == k][:each] for k in range(labels.max() + 1)]))


def embed(network: Network, images: Images, device: Device) -> np.ndarray:
    """Embeddings (n, d) of length 1 of all images, several at once if the device has threads."""
    embedder = embedder_of(network, backend=device.backend, threads=device.threads)
    out = np.empty((len(images), network.embedding_size), np.float32)
    many, some = kind_of(images.kind).plural, ROUND * device.threads
    for first in range(0, len(images), some):
        chosen = range(first, min(first + some, len(images)))
        embedder.embed(images.take(chosen), out=out[first : chosen.stop])
        device.progress(f"{many} compared", chosen.stop, len(images), None)
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-6)
