"""Rows of the table: which kind of work a line of an emitted program is, and how many MACs it makes."""

from dataclasses import dataclass

from tinytrain.codegen.device import Device
from tinytrain.codegen.stages import function_of
from tinytrain.firmware_sim.emulated.listing import Listing, Place
from tinytrain.network.network import Network
from tinytrain.program.calls import Call

FORWARD = {"conv": "first layer", "pointwise": "pointwise", "depthwise": "depthwise"}
INPUT = {True: "depthwise, input gradient", False: "pointwise, input gradient"}
REST = "images, masks, pooling, copies"
# By the file of the function that calls, or that is called.
BY_FILE = {
    "head.c": "heads, loss, guard", "head_result.c": "heads, loss, guard", "guard.c": "heads, loss, guard",
    "calibration.c": "heads, loss, guard", "kernels_head.c": "heads, loss, guard",
    "kernels_optimizer.c": "update", "kernels_int8_updates.c": "update",
}  # fmt: skip
ROWS = (*FORWARD.values(), *INPUT.values(), "weight gradient", "update", "heads, loss, guard", REST)
NOT_OURS = ("demo.c", "examples.c", "start.c", "cortex_m.c", "riscv.c")  # of the example and of the emulator


def is_kernel(file: str) -> bool:
    """Whether a file has arithmetic, whose instructions count to the call of it."""
    return file.startswith("kernels_")


@dataclass(frozen=True, eq=False)
class Program:
    """What was emitted: the `network`, the calls of its segments by lines of adapt.c, and machine code."""

    network: Network
    calls: dict[int, Call]
    listing: Listing

    def call(self, place: Place) -> Call | None:
        return self.calls.get(place.line) if place.file == "adapt.c" else None

    def row(self, place: Place) -> str | None:
        """The row of what runs from an instruction on; None if it is no part of the library."""
        if place.file in NOT_OURS:
            return None
        if call := self.call(place):
            return row_of(call, self.network)
        return BY_FILE.get(place.file) or BY_FILE.get(self.listing.file_of(place.target), REST)

    def macs(self, place: Place) -> int:
        """Multiply-accumulates of the call that an instruction makes."""
        call = self.call(place)
        return call.macs if call and is_kernel(self.listing.file_of(place.target)) else 0


def row_of(call: Call, network: Network) -> str:
    """Of a call of a segment: a layer with its bias, activation and rounding, or a gradient."""
    if call.part == "grad_weight":
        return "weight gradient"
    if call.part == "grad_input" or call.kernel == "widen_columns":
        return INPUT[call.kernel.startswith(("depthwise", "widen"))]
    if call.kernel.startswith(("enter", "unfold")):
        return FORWARD["conv"]
    layers = [arg.layer for arg in call.args if hasattr(arg, "layer")]
    if layers and (call.macs or call.kernel.startswith("add_bias")):
        return FORWARD[network.all_layers[layers[0]].op]
    return BY_FILE["kernels_head.c"] if call.kernel.startswith("prototype_loss") else REST


def calls_by_line(device: Device, text: str) -> dict[int, Call]:
    """The calls of all segments by their lines in adapt.c, which is `text`."""
    lines, found = text.splitlines(), {}
    for program in filter(None, (device.probe, device.training)):
        for segment in program.segments.values():
            opening = f"{function_of(segment, program)}(const tt_unit *u)"
            (first,) = (n for n, line in enumerate(lines, 3) if line.endswith(opening))  # behind the brace
            found.update(zip(range(first, first + len(segment.calls)), segment.calls, strict=True))
    return found
