"""Arguments of calls as C expressions: pointers into the arena, layers, index arrays, constants."""

from dataclasses import dataclass, field

import numpy as np

from tinytrain.codegen.placed import Placed
from tinytrain.codegen.text import name_of
from tinytrain.program.calls import Bias, Buffer, Columns, LayerArray, Role, Segment, View, Weight
from tinytrain.program.stages import Listed

# Externals of segments that each unit has for itself, as fields of `tt_unit`.
OF_UNIT = {
    Role.IMAGE: "u->image",
    Role.FEATURES: "u->features",
    Role.EMBEDDING_GRADIENTS: "u->gradient",
    Role.LABEL: "u->label",
}
C_TYPES = {"float32": "float", "int8": "int8_t"}  # of what segments leave
CASTS = {"float32": "F", "uint8": "U8", "int32": "I32", "uint16": "U16", "int8": "I8", "int16": "I16"}


@dataclass(frozen=True, eq=False)
class Places:
    """Where the buffers of `program` lie.

    `constants` are those that calls name. Written in the calls, each of hundreds of them would have a place
    of its own on the stack.
    """

    program: Placed
    constants: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)

    def macro(self, name: str) -> str:
        """The macro of the offset of a program's buffer."""
        return name_of(name, "AT_PROBE" if self.program.inspected else "AT")

    def whole(self, buffer: Buffer) -> str:
        return f"{CASTS[buffer.dtype]}(tt_arena.bytes, {self.macro(buffer.name)})"

    def channels(self, layer: int, what: str = "channels") -> str:
        """Where the indices of trained channels of a layer lie, or of its "inputs"."""
        return f"tt_channels + {name_of(f'{what} of {layer}')}"

    def array(self, view, segment: Segment | None = None) -> str:
        """A pointer to the first number of a view; columns are the caller's business."""
        view = view.view if isinstance(view, Listed) else view
        start, buffer = view.start, view.buffer
        if segment is not None and buffer in segment.offsets:
            at = segment.offsets[buffer] + start * np.dtype(buffer.dtype).itemsize
            return f"{CASTS[buffer.dtype]}(u->work, {at})"
        if buffer.role in OF_UNIT and segment is not None:
            base = OF_UNIT[buffer.role]
        else:
            base = self.whole(self.program.buffers[buffer.name])
        return f"{base} + {start}" if start else base

    def layer(self, weight: Weight | Bias | LayerArray) -> str:
        return f"tt_layers[{weight.layer}]"

    def columns(self, columns: Columns) -> str:
        return self.channels(columns.layer, "inputs" if columns.of == "inputs" else "channels")

    def constant(self, kind: str, *values: int) -> str:
        """The name of a constant struct ``tt_<kind>``."""
        return self.constants.setdefault((kind, values), f"{kind}_{len(self.constants)}")


def is_plain(view: View) -> bool:
    return view.steps is None
