"""Stages of a program as functions of C: what the runtime does with a node, written down as a loop."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tinytrain.codegen.kernel_calls import Line, c_call
from tinytrain.codegen.placed import Placed
from tinytrain.codegen.places import C_TYPES, Places
from tinytrain.codegen.text import comment, function, name_of
from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import Bias, Call, LayerArray, Segment, View, Weight
from tinytrain.program.program import Program
from tinytrain.program.stages import (
    Augment,
    FitHead,
    Items,
    Load,
    Of,
    Once,
    Read,
    Repeat,
    Rows,
    Run,
    Stage,
    Store,
    Take,
    Unit,
    nodes,
)

# The k-th item of a list, in C; those of the tables are drawn when C is emitted.
ITEM = {
    Items.IMAGES: "(tt_item){0, (uint16_t)k}",
    Items.BATCH: "(tt_item){0, tt_image_at(k)}",
    Items.SUPPORT: "(tt_item){0, tt_shown[tt_step - 1][k]}",
    Items.HARD: "tt_shown_item(tt_hard[k])",
    Items.SAMPLED: "(tt_item){0, tt_sampled[tt_step - 1][k]}",
}
# Host calls that a device has no use for: similarity and loss of Fisher scoring, and tables instead.
WITHOUT = ("add_lengths", "add_loss", "sampled_weights", "keep_changed")
OVER_FLASH = ("assign", "copy", "fold_bias", "scatter_block", "scatter_weights")  # if they write to a layer
COPIES = {"float32": "tt_copy", "int8": "tt_copy_codes"}
HEADS = ("head before", "head after", "result", "queries")  # written by hand: see head.c
INDENT = "    "


def function_of(segment: Segment, program: Program) -> str:
    """The name of the function of a segment."""
    return f"{prefix_of(program)}_{segment.kind}"


def prefix_of(program: Program) -> str:
    return "probe" if program.inspected else "train"


@dataclass(frozen=True, eq=False)
class Writer:
    """Writes the program of `places`; `prefix` of its functions: "probe" or "train"."""

    places: Places

    @property
    def program(self) -> Placed:
        return self.places.program

    @property
    def prefix(self) -> str:
        return prefix_of(self.program)

    # ---- units ----------------------------------------------------------------------------------

    def units(self) -> dict[Unit, str]:
        """The units that stages and the interface use, by the names of their constants."""
        return {
            units[0]: f"{self.prefix}_unit_{name_of(name).lower()}"
            for name, units in self.program.units.items()
            if units
        }

    def c_units(self) -> Iterator[str]:
        for unit, name in self.units().items():
            shown = self.program.image_rows
            yield f"static const tt_unit {name} = {{"
            for field, buffer in (
                ("work", unit.workspace), ("features", unit.features), ("image", unit.augmented),
                ("rows", unit.workspace if unit.workspace.name in shown.workspaces else None),
                ("gradient", unit.gradient), ("label", unit.label),
            ):  # fmt: skip
                there = buffer is not None and buffer.name in self.program.buffers
                at = self.places.whole(buffer) if there else "NULL"
                if there and field == "image":  # whatever it holds
                    at = f"U8(tt_arena.bytes, {self.places.macro(buffer.name)})"
                behind = f" + {shown.offset}" if there and field == "rows" else ""
                yield f"{INDENT}{at}{behind}, {comment(field)}"
            yield "};"
        yield ""

    @property
    def prefix_is_nothing(self) -> bool:
        """Whether the first layer is trained: items are what the cache has."""
        return ("prefix", 1) not in self.program.segments

    def segment(self, kind: str) -> Segment:
        return self.program.segments[kind, 1]

    def c_segments(self) -> Iterator[str]:
        """Functions of straight code over the workspace of a unit; they return what segments leave."""
        if self.prefix_is_nothing:
            body = ("return F(u->image, 0);",)
            yield from function(f"static float *{self.prefix}_prefix(const tt_unit *u)", body)
        for segment in self.program.segments.values():
            kind = f"static {C_TYPES[segment.outputs[0].dtype]} *" if segment.outputs else "static void "
            macs = f"{len(segment.calls)} calls, {segment.all_macs:,} MACs"
            yield comment(f"{segment.name}: {macs}, {segment.nbytes:,} bytes of workspace")
            body = [c_call(Line(call, self.places, segment)) for call in segment.calls]
            body += [f"return {self.places.array(view, segment)};" for view in segment.outputs]
            yield from function(f"{kind}{function_of(segment, self.program)}(const tt_unit *u)", body)

    # ---- loading --------------------------------------------------------------------------------

    def c_load(self) -> Iterator[str]:
        """The function that brings features of one item to a unit."""
        load = next(n for stage in self.program.stages for n in nodes(stage.body) if isinstance(n, Load))
        features = self.program.externals["features"]
        size, copied = math.prod(features.shape), COPIES[features.dtype]
        yield comment(f"Features of one item, {size:,} numbers: from the cache, or computed.")
        body = self.loaded(load, size, copied)
        yield from function(f"static void {self.prefix}_load(const tt_unit *u, tt_item item)", body)

    def loaded(self, load: Load, size: int, copied: str) -> Iterator[str]:
        if load.cache:
            codes, *spans = map(self.places.whole, load.cache)
            sets, images = load.cache[0].shape[:2]
            yield f"if (item.view >= 0 && item.view < {sets}) {{"
            yield f"{INDENT}uint32_t at = (uint32_t)item.view * {images} + item.image;"
            kernel, ranges = ("tt_dequantize", f"{spans[0]} + at * 2, ") if spans else (copied, "")
            yield f"{INDENT}{kernel}(u->features, {codes} + at * {size}, {ranges}{size});"
            yield f"{INDENT}return;"
            yield "}"
        if load.computed:
            yield f"{self.prefix}_show(u, item);"
            yield f"{copied}(u->features, {self.prefix}_prefix(u), {size});"

    # ---- stages ---------------------------------------------------------------------------------

    def c_stages(self) -> Iterator[str]:
        for stage in self.program.stages:
            if stage.name not in HEADS:
                yield from self.c_stage(stage)

    def c_stage(self, stage: Stage) -> Iterator[str]:
        times = f", {stage.times} times" if stage.times > 1 else ""
        yield comment(f"{stage.name}: tick {stage.tick}{times}")
        body = (line for node in stage.body for line in self.node(node, None))
        yield from function(f"void tt_{self.prefix}_stage_{name_of(stage.name).lower()}(void)", body)

    def node(self, node, around: Repeat | None) -> Iterator[str]:
        """Lines of a node in the body of `around`, or of a stage."""
        unit = around and around.units and f"&{self.units()[around.units[0]]}"
        if isinstance(node, Repeat):
            yield from self.repeat(node)
        elif isinstance(node, Once):
            yield "if (k == 0) {"
            for inner in node.body:
                yield from (f"{INDENT}{line}" for line in self.node(inner, None))
            yield "}"
        elif isinstance(node, Load):
            yield f"{self.prefix}_load({unit}, item);"
        elif isinstance(node, Run):
            yield from self.run(node, unit, around)
        elif isinstance(node, Take):
            rows = node.rows
            place = "tt_hard[k]" if rows.within is Items.SHOWN else "k"
            size = rows.view.extent[1]
            source = f"{self.places.array(rows.view)} + {place} * {size}"
            yield f"tt_copy(({unit})->gradient, {source}, {size});"
        elif isinstance(node, Augment):
            yield f"{self.prefix}_show({unit}, item);"
        elif isinstance(node, Store):
            yield from self.store(node, unit)
        elif isinstance(node, Call):
            yield from self.call(node, around)
        elif not isinstance(node, Read | FitHead):
            raise ProgramError(f"no node {node} in C")

    def repeat(self, node: Repeat) -> Iterator[str]:
        if node.items is Items.BATCHES:  # all support images, for whose embeddings a device has room
            if node.count > node.micro:
                raise ProgramError(f"no {node.count} images in batches of {node.micro} in C")
            for inner in node.body:
                yield from self.node(inner, None)
            return
        view = node.items is Items.VIEWS
        k = "view" if view else "k"
        yield f"for (uint32_t {k} = 0; {k} < {node.count}; {k}++) {{ {comment(node.items.value)}"
        if view:
            yield f"{INDENT}tt_item item = {{(int16_t)view, (uint16_t)k}};"
        elif any(not isinstance(inner, Read | Repeat) for inner in node.body):
            shown = "(tt_item){1, (uint16_t)k}" if self.prefix == "probe" else "tt_shown_item(k)"
            yield f"{INDENT}tt_item item = {ITEM.get(node.items, shown)};"
        for inner in node.body:
            yield from (f"{INDENT}{line}" for line in self.node(inner, node))
        if any(isinstance(inner, Load | Augment) for inner in node.body):
            yield f"{INDENT}if (tt_row_failed)"
            yield f"{INDENT * 2}return;"
        yield "}"

    def left_by(self, body: tuple) -> View | None:
        """What the segment that runs in a body leaves."""
        ran = [n.kind for n in body if isinstance(n, Run) and self.segment(n.kind).outputs]
        return self.segment(ran[-1]).outputs[0] if ran else None

    def run(self, node: Run, unit: str, around: Repeat) -> Iterator[str]:
        segment = self.segment(node.kind)
        called = f"{function_of(segment, self.program)}({unit})"
        if isinstance(node.to, Rows):
            size = node.to.view.extent[1]
            yield f"tt_copy({self.places.array(node.to.view)} + k * {size}, {called}, {size});"
        elif node.to is Of.OUTPUT and any(map(_reads_output, around.body)):
            yield f"const float *output = {called};"
        elif segment.outputs and node.to is None:
            yield f"const {C_TYPES[segment.outputs[0].dtype]} *frozen = {called};"
        else:
            yield f"{called};"

    def store(self, node: Store, unit: str) -> Iterator[str]:
        codes, *spans = map(self.places.whole, node.cache)
        _, images, *extent = node.cache[0].shape
        at, size = f"(view * {images} + k)", math.prod(extent)
        kernel, ranges = ("tt_quantize", f"{spans[0]} + {at} * 2, ") if spans else ("tt_copy_codes", "")
        frozen = f"{self.prefix}_prefix({unit})" if self.prefix_is_nothing else "frozen"
        yield f"{kernel}({codes} + {at} * {size}, {ranges}{frozen}, {size});"

    def call(self, node: Call, around: Repeat | None) -> Iterator[str]:
        args = tuple(around.units[0].label.whole if arg is Of.LABEL else arg for arg in node.args)
        kernel, first, node = node.kernel, args[0], replace(node, args=args)
        if kernel in WITHOUT or (kernel in OVER_FLASH and isinstance(first, Weight | Bias | LayerArray)):
            return  # trained parameters lie over the weights: nothing is written there
        if kernel == "labels_of":
            yield from self.labels(node, around)
        elif kernel == "hardest":
            residual, loss, queries, keep = node.args
            arrays = f"tt_hard, {self.places.array(residual)}, {self.places.array(loss)}"
            yield f"tt_hardest({arrays}, {queries}, {keep}, {residual.extent[1]});"
        else:
            output = around and self.left_by(around.body)
            yield c_call(Line(node, self.places, None, output, self.counts()))

    def labels(self, node: Call, around: Repeat | None) -> Iterator[str]:
        labels, items = node.args
        if around is not None:
            at = f" + {'k' if isinstance(labels, Rows) else 0}"
            view = labels.view if isinstance(labels, Rows) else labels
            yield f"*({self.places.array(view)}{at}) = tt_label_of(item.image);"
            return
        item = ITEM.get(items, "tt_shown_item(k)")
        yield f"for (uint32_t k = 0; k < {self.counts()[items]}; k++) {comment(items.value)}"
        yield f"{INDENT}({self.places.array(labels)})[k] = tt_label_of({item}.image);"

    def counts(self) -> dict[Items, int]:
        """Lengths of the lists of a step."""
        every = (n for stage in self.program.stages for n in nodes(stage.body) if isinstance(n, Repeat))
        return {n.items: n.count for n in every}


def _reads_output(node) -> bool:
    """Whether a call of the library reads what the segment before it leaves."""
    called = isinstance(node, Call) and node.kernel not in WITHOUT
    return called and any(arg is Of.OUTPUT for arg in node.args)
