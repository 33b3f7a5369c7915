"""Programs bound to memory: every symbolic argument of a call becomes an array before anything runs."""

from collections.abc import Container, Iterator, Sequence

import numpy as np

from tinytrain.base.arena import Arena
from tinytrain.kernels.dispatch.direct import BIAS, CLAMP, NOTHING, SKIP, direct, windows
from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.program.backends.working_copy import WorkingCopy
from tinytrain.program.calls import (
    Bias,
    Buffer,
    Call,
    Columns,
    LayerArray,
    Role,
    Segment,
    Table,
    View,
    Weight,
)
from tinytrain.program.program import Program
from tinytrain.program.segments import turns
from tinytrain.runtime.thread_pool import Hand

# Kernels that may follow a product in a layer, and what the kernel `product` does for them.
AFTER = {"add_bias": BIAS, "add_bias_relu6": BIAS + CLAMP, "add_bias_residual": BIAS + SKIP}


class Binder:
    """Turns the symbolic arguments of calls into arrays and kernels."""

    def __init__(self, program: Program, arena: Arena, working: WorkingCopy, kernels, columns=None):
        self.program, self.arena = program, arena
        self.working, self.kernels, self.columns = working, kernels, columns or {}
        self.tables: dict[Role, np.ndarray] = {}  # small arrays beside the arena
        # By where they lie: units that work one after another often have the same bytes for the same segment.
        self.bound: dict[tuple, tuple] = {}
        self._named: dict[tuple, tuple] = {}  # external buffers that a segment names, and its turns

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

    def segment(
        self,
        segment: Segment,
        workspace: Buffer,
        externals: dict[Buffer, np.ndarray],
        own=None,
        hand: Hand | None = None,
        shared: Container[Buffer] = (),
    ):
        """Bound calls, few for many, and output arrays of `segment` in the program buffer `workspace`.

        `own` kernels are called instead of others of their names. With a `hand`, others work at the same
        time, and `shared` buffers change when its turn has come.
        """
        if (segment, hand is None) not in self._named:
            arguments = (a for call in segment.calls for a in call.args)
            named = {a.buffer for a in (*arguments, *segment.outputs) if isinstance(a, View)}
            in_turn = turns(segment, shared) if hand else ()
            self._named[segment, hand is None] = named & segment.external, in_turn
        named, in_turn = self._named[segment, hand is None]
        given = frozenset((b, array.ctypes.data) for b, array in externals.items() if b in named)
        key = segment, self.program.offset(workspace.name), given, hand, *(own or {}).values()
        if key not in self.bound:
            calls, outputs = self.calls(segment, workspace, externals, own)
            for turn in reversed(in_turn):
                calls[turn.stop : turn.stop] = [(hand.end_turn, ())]
                calls[turn.start : turn.start] = [(hand.begin_turn, ())]
            self.bound[key] = join_native(calls), outputs
        return self.bound[key]

    def calls(self, segment: Segment, workspace: Buffer, externals: dict[Buffer, np.ndarray], own=None):
        """As `segment`, one for each call, or None where the one before does its work."""
        base = self.program.offset(workspace.name)
        flat = {b: array.reshape(-1) for b, array in externals.items()}
        for buffer, offset in segment.offsets.items():
            flat[buffer] = self.arena.view(base + offset, (buffer.nbytes,), "uint8").view(buffer.dtype)
        arrays: dict = {}  # one for all calls that name it

        def argument(arg):
            key = arg
            if isinstance(arg, View):
                key = arg.buffer, arg.start, arg.shape, arg.steps
            elif not isinstance(arg, Weight):
                return self._argument(arg, flat)
            if key not in arrays:
                arrays[key] = self._argument(arg, flat)
            return arrays[key]

        calls = []
        for name, given in together(segment.calls):
            kernel = name and ((own or {}).get(name) or getattr(self.kernels, name))
            given = tuple(map(argument, given))
            if name == "product":
                given = given[0], windows(given[1]), *given[2:]
            calls.append(kernel and direct(kernel, given))
        return calls, tuple(map(argument, segment.outputs))

    def _argument(self, arg, flat):
        if isinstance(arg, View):
            array = flat[arg.buffer][arg.start : arg.start + arg.span]
            if arg.steps is None:
                return array.reshape(arg.shape)
            return np.ndarray(arg.shape, array.dtype, array, 0, [array.itemsize * step for step in arg.steps])
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


def together(calls: Sequence[Call]) -> Iterator[tuple[str | None, tuple]]:
    """Kernel and arguments of each call. What follows a product in a layer has none: the product does it."""
    done = False
    for call, after in zip(calls, (*calls[1:], None), strict=True):
        if done:
            done = False
            yield None, ()
        elif call.kernel == "matmul" and after and after.kernel in AFTER and after.args[0] == call.args[0]:
            done = True
            rest = *after.args[1:], *NOTHING[len(after.args) - 1 :]
            yield "product", (*call.args, *rest, AFTER[after.kernel])
        else:
            yield call.kernel, call.args


def run(calls) -> None:
    """Run bound calls in order."""
    for kernel, args in calls:
        kernel(*args)
