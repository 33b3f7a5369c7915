"""The Program of a forward pass of one image, and what that of Fisher scoring shares with it."""

from tinytrain.network.network import Network
from tinytrain.program.backend import Backend
from tinytrain.program.backends.registry import FLOAT32, find_backend
from tinytrain.program.calls import Buffer, Role
from tinytrain.program.program import BufferTable, CompileTarget, Program
from tinytrain.program.segments import embed_segment, externals_of, prefix_segment
from tinytrain.program.stages import Augment, Items, Load, Of, Read, Repeat, Run, Stage, Unit
from tinytrain.program.unit_buffers import AUGMENTED


def compile_forward(network: Network, precision: str = FLOAT32.name, cut: int | None = None) -> Program:
    """The program of the embedding of one image, by way of the features that enter the block of layer `cut`.

    By default that is the last block.
    """
    start = network.block_start(len(network.layers) - 1 if cut is None else cut)
    backend = find_backend(precision)
    externals = externals_of(network, start, 0, backend)
    segments, table = forward_segments(network, start, externals, None, backend), BufferTable()
    unit = unit_of_one(table, externals, segments, "forward")
    body = (loaded(start), Run("embed", Of.OUTPUT))
    stage = Stage("embed", 0, (Repeat(Items.QUERIES, 1, body, (unit,)),))
    units = {"embed": (unit,)}
    return Program(
        network, segments, table.buffers, table.place(), externals, units, (stage,), CompileTarget(start)
    )


def forward_segments(network: Network, start: int, externals, row_tile: int | None, backend: Backend):
    """The frozen part, if there is one, and the embedding of one image."""
    found = {("prefix", 1): prefix_segment(network, start, externals, row_tile, backend)} if start else {}
    return found | {("embed", 1): embed_segment(network, start, 1, externals, backend=backend)}


def unit_of_one(table: BufferTable, externals: dict[str, Buffer], segments, name: str) -> Unit:
    """A worker of a program that looks at one image at a time, with its buffers in `table`."""
    image, features = externals["input"], externals["features"]
    shown = None
    if image.role is Role.IMAGE:
        shown = table.add(f"{AUGMENTED} ({name})", image.shape, 0, 0, image.dtype, Role.IMAGE)
    work = max(s.nbytes for s in segments.values())
    rows = table.add(f"features ({name})", (1, *features.shape), 0, 0, features.dtype)
    return Unit(table.add(f"workspace ({name})", (work,), 0, 0, "uint8"), rows, shown)


def loaded(start: int) -> Load:
    """Features of an image that is read for them."""
    return Load((), (Read(), Augment(), *((Run("prefix"),) if start else ())))
