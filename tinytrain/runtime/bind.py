"""Programs bound to memory: every symbolic argument of a call becomes an array before anything runs."""

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from tinytrain.kernels.dispatch.direct import direct
from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.network.network import Network
from tinytrain.program.calls import Bias, Buffer, Columns, LayerArray, Role, Segment, Table, View, Weight
from tinytrain.program.memory_planner import aligned
from tinytrain.program.program import Program
from tinytrain.runtime.arena import Arena

Part = tuple[int, str]  # a layer, and its "weight" or "bias"
# Parts of networks that no copy writes to, by kind of copy.
FROZEN: WeakKeyDictionary[Network, dict[type, dict[Part, object]]] = WeakKeyDictionary()


def parts_of(layers: Iterable[int]) -> list[Part]:
    return [(i, part) for i in layers for part in ("weight", "bias")]


class WorkingCopy:
    """Float32 weights and biases of a network. Training may write to the parts `own`; the network stays.

    They are all of them by default. The others are made once for all copies for networks that have the values
    of `base`, and nobody writes to them. Layers of lite residual modules are always its own.
    """

    def __init__(self, network: Network, own: Collection[Part] | None = None, base: Network | None = None):
        self.network, base, every = network, base or network, parts_of(range(len(network.layers)))
        self.own = every if own is None else own
        common = [p for p in every if p not in self.own and self._is_same(base, *p)]
        kept = FROZEN.setdefault(base, {}).setdefault(type(self), {})
        if missing := [p for p in common if p not in kept]:
            kept |= self._made(base, missing)
        self._parts = {p: kept[p] for p in common}
        alone = [p for p in (*every, *parts_of(network.added)) if p not in self._parts]
        self._parts |= self._made(network, alone)

    def _is_same(self, base: Network, i: int, part: str) -> bool:
        """Whether `base` has the values of a part."""
        if part == "bias":
            return self.network.biases[i] is base.biases[i]
        return self.network.weights[i] is base.weights[i] and self.network.scales[i] is base.scales[i]

    @staticmethod
    def _made(network: Network, parts: Sequence[Part]) -> dict[Part, np.ndarray]:
        """Weights (fan_in, cout) and biases (cout,), float32, all in one block."""
        shapes = [(layer.fan_in, layer.cout) for layer in (network.all_layers[i] for i, _ in parts)]
        arrays = _in_cache_lines([s[part == "bias" :] for s, (_, part) in zip(shapes, parts, strict=True)])
        for part, array in zip(parts, arrays, strict=True):
            _copy_values(network, *part, array)
        return dict(zip(parts, arrays, strict=True))

    def weight(self, layer: int) -> np.ndarray:
        return self._parts[layer, "weight"]

    def bias(self, layer: int) -> np.ndarray:
        return self._parts[layer, "bias"]

    def part(self, layer: int, part: str) -> np.ndarray:
        """Weights (fan_in, cout), or biases (1, cout)."""
        return self.weight(layer) if part == "weight" else self.bias(layer)[None]

    def restore(self) -> None:
        """The network's own values again."""
        for part in (*self.own, *parts_of(self.network.added)):
            _copy_values(self.network, *part, self._parts[part])


def _copy_values(network: Network, i: int, part: str, out: np.ndarray) -> None:
    if part == "weight":
        network.float_weight(i, out=out)
    else:
        np.copyto(out, network.bias(i))


def _in_cache_lines(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Float32 arrays that begin with a cache line each: a vector across two of them takes two loads."""
    sizes = [aligned(4 * math.prod(shape)) for shape in shapes]
    block = Arena(sum(sizes))
    ends = itertools.accumulate(sizes)
    return [block.view(e - n, s, np.float32) for e, n, s in zip(ends, sizes, shapes, strict=True)]


class Binder:
    """Turns the symbolic arguments of calls into arrays and kernels."""

    def __init__(self, program: Program, arena: Arena, working: WorkingCopy, kernels, columns=None):
        self.program, self.arena = program, arena
        self.working, self.kernels, self.columns = working, kernels, columns or {}
        self.tables: dict[Role, np.ndarray] = {}  # small arrays beside the arena
        # By where they lie: units that work one after another often have the same bytes for the same segment.
        self.bound: dict[tuple, tuple] = {}

    def array(self, name: str) -> np.ndarray:
        """The array of a program buffer."""
        return self.whole(self.program.buffers[name])

    def whole(self, buffer: Buffer) -> np.ndarray:
        return self.arena.view(self.program.offset(buffer.name), buffer.shape, buffer.dtype)

    def value(self, arg):
        """The array of an argument of a stage's call; anything else as it is."""
        return self._argument(
            arg, {arg.buffer: self.whole(arg.buffer).reshape(-1)} if isinstance(arg, View) else {}
        )

    def segment(self, segment: Segment, workspace: Buffer, externals: dict[Buffer, np.ndarray], own=None):
        """Bound calls, few for many, and output arrays of `segment` in the program buffer `workspace`.

        `own` kernels are called instead of others of their names.
        """
        arguments = (a for call in segment.calls for a in call.args)
        named = {a.buffer for a in (*arguments, *segment.outputs) if isinstance(a, View)}
        given = frozenset((b, array.ctypes.data) for b, array in externals.items() if b in named)
        key = segment, self.program.offset(workspace.name), given, *(own or {}).values()
        if key not in self.bound:
            calls, outputs = self.calls(segment, workspace, externals, own)
            self.bound[key] = join_native(calls), outputs
        return self.bound[key]

    def calls(self, segment: Segment, workspace: Buffer, externals: dict[Buffer, np.ndarray], own=None):
        """As `segment`, with a bound call for every call."""
        base = self.program.offset(workspace.name)
        flat = {b: array.reshape(-1) for b, array in externals.items()}
        for buffer, offset in segment.offsets.items():
            flat[buffer] = self.arena.view(base + offset, (buffer.nbytes,), "uint8").view(buffer.dtype)
        arrays: dict = {}  # one for all calls that name it

        def argument(arg):
            key = arg
            if isinstance(arg, View):
                key = arg.buffer, arg.start, arg.shape, arg.column_range, arg.transposed
            elif not isinstance(arg, Weight):
                return self._argument(arg, flat)
            if key not in arrays:
                arrays[key] = self._argument(arg, flat)
            return arrays[key]

        calls = []
        for call in segment.calls:
            kernel = (own or {}).get(call.kernel) or getattr(self.kernels, call.kernel)
            calls.append(direct(kernel, tuple(map(argument, call.args))))
        return calls, tuple(map(argument, segment.outputs))

    def _argument(self, arg, flat):
        if isinstance(arg, View):
            array = flat[arg.buffer][arg.start : arg.start + arg.size].reshape(arg.shape)
            if arg.column_range is not None:
                array = array[:, slice(*arg.column_range)]
            return array.T if arg.transposed else array
        if isinstance(arg, Weight):
            weight = self.working.weight(arg.layer)
            if arg.flat:
                return weight.reshape(-1)
            if arg.columns is not None:
                weight = weight[:, slice(*arg.columns)]
            return weight.T if arg.transposed else weight
        if isinstance(arg, Bias):
            return self.working.bias(arg.layer)
        if isinstance(arg, LayerArray):
            return self.working.array(arg.layer, arg.name)
        if isinstance(arg, Columns):
            return self.columns[arg]
        if isinstance(arg, Table):
            return self.tables.setdefault(arg.role, np.zeros(arg.shape, arg.dtype))
        return arg


def run(calls) -> None:
    """Run bound calls in order."""
    for kernel, args in calls:
        kernel(*args)
