"""The Program that computes embeddings and gradients of a network of which everything is trained."""

from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe
from tinytrain.planner.candidates import WIDE_TILES
from tinytrain.program.autodiff.emitter import ROW_TILE_BYTES, Emitter
from tinytrain.program.autodiff.tape import Tape
from tinytrain.program.calls import Buffer, Segment, View
from tinytrain.program.memory_planner import Interval, place
from tinytrain.program.program import CompileTarget, Program
from tinytrain.program.segments import externals_of
from tinytrain.program.trained_arrays import trained_parts

PARTITIONS = 2  # gradient accumulators: part of the result, unlike the number of workers that fill them


def output_shapes(network: Network, hooks: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Shapes per image of the gradients in the embeddings and in the feature maps, by external name."""
    layers = [network.layers[i] for i in hooks]
    grads = {f"grad {layer.name}": (*layer.out_hw, layer.cout) for layer in layers}
    return {"grad embedding": (network.embedding_size,)} | grads


def _parts(network: Network, hooks: tuple[int, ...]) -> list[tuple[int, int]]:
    """Ranges of layers between feature maps."""
    ends = [i + 1 for i in hooks]
    starts, last = [0, *ends], len(network.layers)
    return [(a, b) for a, b in zip(starts, [*ends, last], strict=True) if a < b]


def _forward(
    emitter: Emitter, starts: dict[int, View], hooks: tuple[int, ...], tapes: list[Tape] | None = None
) -> tuple[View, ...]:
    """Embeddings and feature maps. A part begins with what `starts` has, or with what the one before gave."""
    parts, found = _parts(emitter.network, hooks), []
    for (a, b), tape in zip(parts, tapes or [None] * len(parts), strict=True):
        x = starts[a] if a in starts else found[-1]
        found.append(emitter.forward(x, a, b, tape))
    return emitter.pool(found[-1]), *found[: len(hooks)]


def _embed_segment(network: Network, externals, micro: int, hooks: tuple[int, ...]) -> Segment:
    segment = Segment("embed", micro, external=set(externals.values()))
    # A PC has the bytes for the widest bands; they change no bit.
    emitter = Emitter(segment, network, WIDE_TILES[0])
    segment.outputs = _forward(emitter, {0: externals["features"].images(micro)}, hooks)
    return segment.finish(keep=segment.outputs)


def _train_segment(
    network: Network, recipe: Recipe, externals, micro: int, hooks: tuple[int, ...], block_wise: bool
) -> tuple[Segment, int]:
    """Forward pass, embeddings, backward pass; and the number of calls before the latter.

    If it is `block_wise`, every part starts from its own input, and its gradient stays inside.
    """
    segment = Segment("train", micro, external=set(externals.values()))
    # The usual bands, for others add up gradients in another order; named, for bytes are no limit here.
    emitter, parts = Emitter(segment, network, ROW_TILE_BYTES), _parts(network, hooks)
    trained = trained_parts(network, recipe, externals["gradients"])
    starts = {0: externals["features"].images(micro)}
    if block_wise:
        starts |= {a: externals[f"into {network.layers[a].name}"].images(micro) for a, _ in parts[1:]}
        tapes = [Tape(a, trained) for a, _ in parts]
    else:
        tapes = [Tape(0, trained)] * len(parts)
    segment.outputs = _forward(emitter, starts, hooks, tapes)
    split = len(segment.calls)
    g = emitter.pool_grad(externals["grad embedding"].images(micro))
    for (a, b), tape in reversed(list(zip(parts, tapes, strict=True))):
        added = externals[f"grad {network.layers[b - 1].name}"].images(micro) if b - 1 in hooks else None
        if added is not None and block_wise and b < len(network.layers):
            g = added
        elif added is not None:
            segment.call("accumulate", g.flat, added.flat)
        g = emitter.backward(g, a, b, tape)
    return segment.finish(keep=segment.outputs), split


def full_program(
    network: Network, recipe: Recipe, size: int, micro: int, count: int, hooks: tuple, block_wise: bool
) -> tuple[Program, int]:
    """The program of `count` micro-batches that are all alive at once, and where their segment splits."""
    externals = externals_of(network, 0, size)
    shapes = output_shapes(network, hooks)
    if block_wise:
        firsts = [network.layers[a] for a, _ in _parts(network, hooks)[1:]]
        shapes |= {f"into {layer.name}": (*layer.in_hw, layer.cin) for layer in firsts}
    externals |= {name: Buffer(name, shape) for name, shape in shapes.items()}
    segments, split = {("embed", micro): _embed_segment(network, externals, micro, hooks)}, 0
    units = [(f"worker {p}", "embed") for p in range(PARTITIONS)]
    buffers: dict[str, Buffer] = {}

    def add(name: str, shape: tuple[int, ...], dtype: str = "float32") -> None:
        buffers[name] = Buffer(name, shape, dtype)

    if size:
        segments["train", micro], split = _train_segment(network, recipe, externals, micro, hooks, block_wise)
        units += [(f"batch {b}", "train") for b in range(count)]
        for p in range(PARTITIONS):
            add(f"gradients {p}", (size,))
    for unit, segment in units:
        add(f"images ({unit})", (micro, *externals["features"].shape), "uint8")
        add(f"workspace ({unit})", (segments[segment, micro].nbytes,), "uint8")
        if segment == "train":
            for name, shape in shapes.items():
                add(f"{name} ({unit})", (micro, *shape))
    layout = place([Interval(name, b.nbytes, 0, 0) for name, b in buffers.items()])
    purpose = CompileTarget(0, TaskShape(micro, 0), recipe)
    return Program(network, segments, buffers, layout, externals, {}, (), purpose), split
