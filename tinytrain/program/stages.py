"""The whole of a Program as data: what is loaded, which segments run, which kernels are called, how often.

The runtime, the simulator, the listing and the checker read the same stages. Counts are known when a
program is compiled; only which images a list holds is decided while it runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tinytrain.program.calls import Buffer, Role, Table, View


class Items(Enum):
    """Lists that a `Repeat` goes over. The runtime fills those of a step before the stage that reads them."""

    IMAGES = "support images"
    VIEWS = "cached views"
    BATCHES = "support images of the task"
    BATCH = "images of the batch"
    SUPPORT = "support images of a step"
    SHOWN = "pseudo-queries and unlabelled images"
    HARD = "hardest pseudo-queries and unlabelled images"
    SAMPLED = "sampled support images"
    QUERIES = "query images"


class Of(Enum):
    """Arrays that differ from one worker to the next: those of a `Unit`, and what its last segment left."""

    AUGMENTED = "augmented"
    FEATURES = "features"
    GRADIENT = "gradient"
    LABEL = "label"
    OUTPUT = "output"


class Value(Enum):
    """Values that differ from one step to the next."""

    STEP = "number of the step, from 1"


@dataclass(frozen=True, eq=False)
class Unit:
    """Where one worker of one stage has its bytes.

    `features` and `gradient` hold a row for each image of a micro-batch. `augmented` is the image as its
    segments read it; a unit without it gives them some rows when they ask for them.
    """

    workspace: Buffer
    features: Buffer | None = None
    augmented: Buffer | None = None
    gradient: Buffer | None = None
    label: Buffer | None = None

    def own(self, external: Buffer) -> Buffer | None:
        """The buffer of this unit for one of segments; None for what is the same for all units."""
        return {
            Role.IMAGE: self.augmented, Role.FEATURES: self.features,
            Role.EMBEDDING_GRADIENTS: self.gradient, Role.LABEL: self.label,
        }.get(external.role)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Listed:
    """The first rows of `view`, one for each item of a list."""

    view: View | Table
    items: Items

    @property
    def extent(self) -> tuple[int, ...]:
        return self.view.extent

    @property
    def dtype(self) -> str:
        return self.view.dtype


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of `view` that belong to the items of a micro-batch.

    `within`: a list among whose items each of them has its row; None if rows follow the repeated list, as in
    arguments of calls.
    """

    view: View
    within: Items | None = None

    @property
    def extent(self) -> tuple[int, ...]:
        return self.view.extent

    @property
    def dtype(self) -> str:
        return self.view.dtype


@dataclass(frozen=True)
class Read:
    """Pass the item's decoded image to the unit. The decoder owns the buffer."""


@dataclass(frozen=True)
class Augment:
    """Copy the image that the unit is shown to `augmented`, changed at random unless it is the clean view.

    Without `augmented`, rows are changed so when a segment asks for them.
    """


@dataclass(frozen=True, eq=False)
class Load:
    """Features of every item of a micro-batch into the unit's `features`.

    They come from the `cache` (codes, or codes and their ranges), those without an image from what is
    `remembered` (likewise); `computed` says how if they are not there.
    """

    cache: tuple[Buffer, ...] = ()
    computed: tuple = ()
    remembered: tuple[Buffer, ...] = ()


@dataclass(frozen=True, eq=False)
class Store:
    """The output of the prefix goes to the place of its view and image in the `cache`."""

    cache: tuple[Buffer, ...]


@dataclass(frozen=True, eq=False)
class Take:
    """Copy rows of the gradient of embeddings to the unit's `gradient`."""

    rows: Rows


@dataclass(frozen=True, eq=False)
class Run:
    """Run the segment of `kind` for as many images as the micro-batch has; `to` gets its output."""

    kind: str
    to: Rows | Of | None = None


@dataclass(frozen=True, eq=False)
class Once:
    """Do `body` once, between what comes before it for the first micro-batch of a list and what comes after.

    Whatever lists were gone over before are done by then.
    """

    body: tuple


@dataclass(frozen=True, eq=False)
class Repeat:
    """Do `body` for the `count` items of a list, `micro` at a time, in `units` that run at once.

    What a micro-batch adds to arrays that the units share comes after what the one before it adds there. So
    it depends neither on the number of units nor on who is first. If lists are gone over one right after the
    other, units begin with the second one while others are at the first. `computed`: how many of the items
    have no features in the cache.
    """

    items: Items
    count: int
    body: tuple
    units: tuple[Unit, ...] = ()
    micro: int = 1
    computed: int = 0


@dataclass(frozen=True, eq=False)
class FitHead:
    """Fit a head of `kind` to embeddings of `views` views of all support images, and judge it by clean ones.

    The method of the head decides when it asks for which pass. What a pass is and how many there are is said
    here.
    `batches` is one pass; `looks`: passes over the clean images beside those of `views`; `reuses`: no pass at
    all, as the head before it left the clean embeddings. `arrays`: the buffers that the head is fitted in, by
    the names that its method declares; `left_out` takes what leaving every image out shows. `kept`: the delta
    keeps this head.
    """

    kind: str
    views: range
    looks: int
    reuses: bool
    batches: Repeat
    arrays: dict[str, Buffer]
    left_out: Buffer
    kept: bool


@dataclass(frozen=True, eq=False)
class KeepHead:
    """Make the head that is kept as the delta stores it, from `arrays` by their declared names."""

    arrays: dict[str, Buffer]


@dataclass(frozen=True, eq=False)
class Stage:
    """`body` at one `tick` of a program, `times` in all; `part` is what reports count it to."""

    name: str
    tick: int
    body: tuple
    times: int = 1
    part: str = ""


STEP = ("loss", "gradients", "update")  # run once in every step of training, if they are there


def nodes(body: Iterable) -> Iterator:
    """Every node of a body, those inside of others after them."""
    for node in body:
        yield node
        if isinstance(node, FitHead):
            yield from nodes((node.batches,))
        else:
            yield from nodes(getattr(node, "body", getattr(node, "computed", ())))
