"""Programs bound to memory: every symbolic argument of a call becomes an array before anything runs."""

import itertools
import math

import numpy as np

from tinytrain.kernels.dispatch.direct import direct
from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.network.network import Network
from tinytrain.program.calls import Bias, Buffer, Columns, LayerArray, Segment, Table, View, Weight
from tinytrain.program.memory_planner import aligned
from tinytrain.program.program import Program
from tinytrain.runtime.arena import Arena


class WorkingCopy:
    """Float32 weights and biases of a network that training may write to; the network stays as it is.

    `added` are those of its lite residual modules, (weight, bias) by index. All of them lie in one block.
    """

    def __init__(self, network: Network):
        self.network = network
        indices = [*range(len(network.layers)), *network.added]
        layers = [network.all_layers[i] for i in indices]
        parts = iter(_in_cache_lines([s for a in layers for s in ((a.fan_in, a.cout), (a.cout,))]))
        pairs = dict(zip(indices, zip(parts, parts, strict=True), strict=True))
        self.added = {i: pairs.pop(i) for i in network.added}
        self.weights, self.biases = zip(*pairs.values(), strict=True)
        self.restore()

    def weight(self, layer: int) -> np.ndarray:
        return self.added[layer][0] if layer in self.added else self.weights[layer]

    def bias(self, layer: int) -> np.ndarray:
        return self.added[layer][1] if layer in self.added else self.biases[layer]

    def restore(self) -> None:
        """The network's own values again."""
        for i in (*range(len(self.weights)), *self.added):
            self.network.float_weight(i, out=self.weight(i))
            np.copyto(self.bias(i), self.network.bias(i))

    def part(self, layer: int, part: str) -> np.ndarray:
        return self.weight(layer) if part == "weight" else self.bias(layer)[None]


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
        self.tables: dict[str, np.ndarray] = {}  # small arrays beside the arena, by name

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
        calls, outputs = self.calls(segment, workspace, externals, own)
        return join_native(calls), outputs

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
            return self.tables.setdefault(arg.name, np.zeros(arg.shape, arg.dtype))
        return arg


def run(calls) -> None:
    """Run bound calls in order."""
    for kernel, args in calls:
        kernel(*args)
