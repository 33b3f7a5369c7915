"""A Program is data: segments of kernel calls over named buffers, with no loop and no branch inside.

Differentiation happens while calls are emitted (see `autodiff.emitter`), never while they run. A buffer
of a segment lives from the first call that names it to the last one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np

from tinytrain.program.backend import Backend
from tinytrain.program.memory_planner import Interval, Layout, place
from tinytrain.program.signatures import Signature

ANY = Backend()  # all kernels there are, float32 between them

# The ticks of an adaptation: what is not alive at the same tick may share memory. A training run passes
# through seven, of which EMBED and BACKWARD take turns in every step.
FILL, BEFORE, EMBED, BACKWARD, AFTER, RESULT, PREDICT = range(7)


class Role(Enum):
    """What a buffer or a table is for. Programs ask for it; the name of a buffer is for people."""

    # Arrays of segments that each unit has for itself.
    IMAGE = "image"
    SHOWN = "image of which a segment asks for rows: it has no bytes of its own"
    FEATURES = "features"
    EMBEDDING_GRADIENTS = "gradients of embeddings"
    LABEL = "label"
    # Arrays of a program.
    CACHE = "cached features"
    KEPT_FEATURES = "features that the delta keeps"
    GRADIENTS = "gradients of parameters"
    PARAMETERS = "trained parameters"
    BIASES = "trained biases, beside int8 weights"
    ROUNDING = "what rounding needs beside int8 weights"
    MOMENTS = "state of the optimizer"
    OPTIMIZER = "workspace of the optimizer"
    CLASS_SUMS = "sums and counts of classes, which heads share with training"
    HEAD = "head"
    LENGTHS = "lengths of the prototypes before training"
    LEFT_OUT_BEFORE = "what leaving every image out showed before training"
    LEFT_OUT_AFTER = "what it shows after training"
    RESULT = "what the delta keeps of the trained parameters"
    OUTSIDE = "what numpy and Python take beside the arena"
    OTHER = "other"
    # Tables, which lie beside the arena.
    STARTS = "starts"
    RATES = "rates"
    DIVISORS = "images that a sampled one stands for"
    SEED = "rounding seed"
    CLASS_LENGTHS = "lengths of embeddings by class"
    LOSS = "loss"


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Memory for one array. Segment buffers are placed in their segment, the others in the program."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    role: Role = Role.OTHER

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def whole(self) -> "View":
        return View(self, self.shape)

    def images(self, n: int) -> "View":
        """One such array for each of n images; whoever places the buffer makes it that large."""
        return View(self, (n, *self.shape))


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A contiguous part of a buffer from item `start` on, seen in another shape.

    With `steps`, the distances in numbers along every axis, it has gaps or another order, or its windows
    overlap: those views are for products only, and what is made of them is whole again.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    start: int = 0
    steps: tuple[int, ...] | None = None

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    @property
    def extent(self) -> tuple[int, ...]:
        """Shape of the array that a kernel gets; windows are a matrix for it."""
        if self.steps is None or len(self.shape) == 2:
            return self.shape
        return math.prod(self.shape[:2]), math.prod(self.shape[2:])

    def rows(self, first: int, last: int) -> "View":
        """Entries [first, last) of the leading axis."""
        item = math.prod(self.shape[1:])
        return View(self.buffer, (last - first, *self.shape[1:]), self.start + first * item)

    def columns(self, first: int, last: int) -> "View":
        """Columns [first, last) of a matrix."""
        return View(self.buffer, (self.shape[0], last - first), self.start + first, (self.shape[1], 1))

    def windows(self, size: tuple[int, int], stride: int) -> "View":
        """What filters of this size read of a plane (height, width, channels): a matrix with a row for each.

        Its four axes are rows and columns of filters, rows of one filter and the numbers that it reads there.
        """
        if size == (stride, stride) == (1, 1):
            return self.matrix
        height, width, channels = self.shape
        shape = (height - size[0]) // stride + 1, (width - size[1]) // stride + 1, size[0], size[1] * channels
        line = width * channels
        return View(self.buffer, shape, self.start, (stride * line, stride * channels, line, 1))

    def reshape(self, *shape: int) -> "View":
        if -1 in shape:
            known = -math.prod(shape)
            shape = tuple(self.size // known if s == -1 else s for s in shape)
        return View(self.buffer, shape, self.start)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """Numbers of the buffer from the first to the last one of the view."""
        if self.steps is None:
            return self.size
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.steps, strict=True))

    @property
    def flat(self) -> "View":
        return self.reshape(self.size)

    @property
    def matrix(self) -> "View":
        """A row per pixel, a column per channel."""
        return self.reshape(-1, self.shape[-1])

    @property
    def T(self) -> "View":  # noqa: N802 - the name numpy gives it
        """Of a matrix or of windows."""
        half, steps = len(self.shape) // 2, self.steps or (self.shape[1], 1)
        shape = *self.shape[half:], *self.shape[:half]
        return View(self.buffer, shape, self.start, (*steps[half:], *steps[:half]))


@dataclass(frozen=True, slots=True)
class Weight:
    """Weight matrix (fan_in, cout) of a layer in the working copy of the network; never in the arena.

    `columns` [first, last) of it, where they are given.
    """

    layer: int
    shape: tuple[int, int]
    transposed: bool = False
    columns: tuple[int, int] | None = None
    flat: bool = False
    dtype: str = "float32"

    @property
    def extent(self) -> tuple[int, ...]:
        """Shape of the array that a kernel gets."""
        if self.flat:
            return (self.shape[0] * self.shape[1],)
        columns = self.shape[1] if self.columns is None else self.columns[1] - self.columns[0]
        return (columns, self.shape[0]) if self.transposed else (self.shape[0], columns)


@dataclass(frozen=True, slots=True)
class Bias:
    """Bias (cout,) of a layer in the working copy of the network."""

    layer: int
    shape: tuple[int]
    dtype = "float32"

    @property
    def extent(self) -> tuple[int]:
        return self.shape


@dataclass(frozen=True, slots=True)
class LayerArray:
    """A small array of a layer in the working copy for int8, by its `name` in `backends.int8_copy`."""

    layer: int
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def extent(self) -> tuple[int, ...]:
        return self.shape


@dataclass(frozen=True, slots=True)
class Columns:
    """Channels of a layer whose weights are trained, (count,) int32: `of` its "outputs", its "inputs", or, if
    all of these are trained, "every input"."""

    layer: int
    count: int
    of: str = "outputs"
    dtype = "int32"

    @property
    def extent(self) -> tuple[int]:
        return (self.count,)


@dataclass(frozen=True, slots=True)
class Table:
    """A small array that the runtime holds beside the arena, such as the learning rates of a step."""

    role: Role
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def extent(self) -> tuple[int, ...]:
        return self.shape


def extent_of(array) -> tuple[int, ...]:
    """Shape of an array argument, which may be a table of constants."""
    return array.shape if isinstance(array, np.ndarray) else array.extent


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """One kernel call. `part` says what its MACs count towards: forward, grad_input or grad_weight.

    Raises ProgramError if the `backend` lacks the kernel.
    """

    kernel: str
    args: tuple
    part: str = "forward"
    backend: Backend = ANY

    def __post_init__(self):
        self.backend.signature(self.kernel)

    @property
    def signature(self) -> Signature:
        return self.backend.signature(self.kernel)

    @property
    def arrays(self) -> tuple:
        """Its array arguments; its values come after them."""
        return self.args[: len(self.signature.arrays)]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the network, by the shapes of its arrays."""
        return self.signature.macs([extent_of(a) for a in self.arrays])


@dataclass(eq=False)
class Segment:
    """Straight-line code for `n` images. `external` buffers are placed by the program, not here.

    `backend`: the kernels that it may call, and the dtype of activations.
    `kind`: "prefix" (the frozen part), "embed", "backward", "fisher", or a backward pass in two: "forward",
    and "back", which goes on `after` it in the same bytes.
    """

    kind: str
    n: int
    calls: list[Call] = field(default_factory=list)
    external: set[Buffer] = field(default_factory=set)
    outputs: tuple[View, ...] = ()
    layout: Layout | None = None
    offsets: dict[Buffer, int] = field(default_factory=dict)
    backend: Backend = ANY
    after: "Segment | None" = None

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.n} images" if self.n > 1 else self.kind

    def call(self, kernel: str, *args, part: str = "forward") -> None:
        self.calls.append(Call(kernel, args, part, self.backend))

    def new(self, name: str, *shape: int, dtype: str = "float32") -> View:
        """A buffer of its own."""
        return View(Buffer(name, shape, dtype), shape)

    def activations(self, name: str, *shape: int) -> View:
        """A buffer of its own, of what layers give."""
        return self.new(name, *shape, dtype=self.backend.dtype)

    @cached_property
    def _macs(self) -> dict[str, int]:
        counts = dict.fromkeys(("forward", "grad_input", "grad_weight"), 0)
        for call in self.calls:
            counts[call.part] += call.macs
        return counts

    def macs(self, part: str) -> int:
        """Multiply-accumulates of one run; `part` as in `Call`."""
        return self._macs[part]

    @property
    def all_macs(self) -> int:
        return sum(self._macs.values())

    @property
    def backward_macs(self) -> int:
        return self.macs("grad_input") + self.macs("grad_weight")

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    def halves(self, kinds: tuple[str, str], at: int) -> tuple["Segment", "Segment"]:
        """This finished segment in two that share its bytes; call `at` is the first one of the second half.

        The first half has the outputs: they are there until the second half runs.
        """
        first = replace(self, kind=kinds[0], calls=self.calls[:at])
        return first, replace(self, kind=kinds[1], calls=self.calls[at:], outputs=(), after=first)

    def finish(self, keep: Iterable[View] = ()) -> "Segment":
        """Place the segment's own buffers; those in `keep` stay alive until after the last call."""
        lives: dict[Buffer, list[int]] = {}
        for tick, call in enumerate(self.calls):
            for arg in call.args:
                if isinstance(arg, View) and arg.buffer not in self.external:
                    lives.setdefault(arg.buffer, [tick, tick])[1] = tick
        for view in keep:
            if view.buffer not in self.external:
                lives.setdefault(view.buffer, [0, 0])[1] = len(self.calls)
        self.layout = place([Interval(b.name, b.nbytes, *life) for b, life in lives.items()])
        self.offsets = dict(zip(lives, self.layout.offsets, strict=True))
        return self
