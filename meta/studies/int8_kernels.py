"""How fast kernels of int8 programs are beside those of float32: every shape of layer, and the forward pass.

    python -m tinytrain.meta.studies.int8_kernels --backbone mcunet-5fps
    python -m tinytrain.meta.studies.int8_kernels --backbone mcunet-5fps --count "firmware_sim/pi/run.sh ..."

Without --count both precisions take turns on one thread, and the shortest time of each counts, in
microseconds. --count names a command that runs Python on another machine, such as the emulated Pi, with the
arguments that it gets. Whenever that Python asks for its process number, the command shall append the number
of instructions so far to a file, the one that the variable COUNT names with ".marks" behind it;
`firmware_sim/pi/count.c` does so. Then thousands of instructions are printed.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import guarded
from tinytrain.base.errors import UsageError
from tinytrain.kernels.blas import one_thread
from tinytrain.kernels.dispatch.direct import direct
from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.meta.studies.study import number, option, parser_of
from tinytrain.network.layer import Layer
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.program.compile import compile_training
from tinytrain.runtime.arena import Arena
from tinytrain.runtime.bind import Binder, run
from tinytrain.runtime.bound_unit import QueryUnit
from tinytrain.runtime.int8_copy import working_copy
from tinytrain.runtime.predict import FORWARD_ONLY, ONE_IMAGE

PRECISIONS = ("float32", "int8")
FORWARD = "forward pass"
REPEATS = 3  # between two marks


def shape_of(layer: Layer) -> str:
    """The name of the shape of a layer that is no residual one."""
    place = f"{layer.out_hw[0]}x{layer.out_hw[1]}"
    if layer.kind == "depthwise":
        return f"depthwise {layer.kernel}x{layer.kernel}/{layer.stride} {layer.cout} {place}"
    return f"{layer.kind} {layer.cin}-{layer.cout} {place}"


def shapes(network: Network) -> dict[str, tuple[Layer, int]]:
    """The layers of different shapes by name, and how many there are of each."""
    found: dict[str, tuple[Layer, int]] = {}
    for layer in network.layers:
        name = shape_of(layer)
        found[name] = found.get(name, (layer, 0))[0], found.get(name, (layer, 0))[1] + 1
    return found


def layer_calls(kernels, layer: Layer, precision: str) -> list[tuple]:
    """Calls (kernel, arguments) for a layer of one image and its activation, with random numbers."""
    r = np.random.default_rng(layer.cout)
    positions = layer.out_hw[0] * layer.out_hw[1]
    if precision == "float32":
        return _float32_calls(kernels, layer, positions, r)
    return _int8_calls(kernels, layer, positions, r)


def _image(layer: Layer, r) -> np.ndarray:
    return r.integers(0, 256, (*layer.in_hw, layer.cin), dtype=np.uint8)


def _float32_calls(kernels, layer: Layer, positions: int, r) -> list[tuple]:
    y, b = np.empty((positions, layer.cout), np.float32), np.zeros(layer.cout, np.float32)
    w = r.standard_normal((layer.fan_in, layer.cout)).astype(np.float32)
    bounded = (kernels.add_bias_relu6, (y, b)) if layer.follows else (kernels.add_bias, (y, b))
    if layer.kind == "depthwise":
        x = r.standard_normal((1, *layer.in_hw, layer.cin)).astype(np.float32)
        out = y.reshape(1, *layer.out_hw, layer.cout)
        arguments = (out, x, w, b, layer.kernel, layer.stride, layer.pad, bool(layer.follows))
        return [(kernels.depthwise_forward, arguments)]
    x = r.standard_normal((positions, layer.fan_in)).astype(np.float32)
    calls = [(kernels.matmul, (y, x, w)), bounded]
    if layer.kind == "conv":
        patches = x.reshape(*layer.out_hw, layer.fan_in)
        one = np.ones(layer.kernel * layer.cin, np.float32)
        how = (layer.kernel, layer.stride, 0, False, one, one)
        calls.insert(0, (kernels.unfold, (patches, _image(layer, r), *how)))
    return calls


def _int8_calls(kernels, layer: Layer, positions: int, r) -> list[tuple]:
    y = np.empty((positions, layer.cout), np.int8)
    scaled = (
        np.zeros(layer.cout, np.int32),
        np.full(layer.cout, 2**30, np.int32),
        np.full(layer.cout, 42, np.int32),
    )
    if layer.kind == "depthwise":
        x = r.integers(-128, 128, (1, *layer.in_hw, layer.cin), dtype=np.int8)
        w = r.integers(-127, 128, (layer.fan_in, layer.cout), dtype=np.int8)
        out = y.reshape(1, *layer.out_hw, layer.cout)
        how = (layer.kernel, layer.stride, layer.pad, -128, -128)
        return [(kernels.depthwise_codes, (out, x, w, *scaled, *how))]
    w = r.integers(-127, 128, (layer.cout, layer.fan_in), dtype=np.int8)
    if layer.kind == "conv":
        patches = np.empty((*layer.out_hw, layer.fan_in), np.int16)
        table = r.integers(-255, 256, (256, layer.cin)).astype(np.int16)
        how = (layer.kernel, layer.stride, 0, False)
        unfolded = kernels.unfold_codes, (patches, _image(layer, r), table, *how)
        flat = patches.reshape(positions, layer.fan_in)
        return [unfolded, (kernels.product_wide, (y, flat, w, *scaled, 0))]
    x = r.integers(-128, 128, (positions, layer.fan_in), dtype=np.int8)
    return [(kernels.product_codes, (y, x, w, *scaled, 0))]


def forward_unit(kernels, network: Network, precision: str) -> QueryUnit:
    """What computes embeddings of one image after another by `network`, as adaptations compute them."""
    program = compile_training(network, FORWARD_ONLY.in_precision(precision), ONE_IMAGE, TaskShape(1, 2))
    return QueryUnit(Binder(program, Arena(program.nbytes), working_copy(program), kernels))


def case(kernels, network: Network, name: str, precision: str) -> Callable[[], object]:
    """What is measured under a `name` of `cases`."""
    if name == FORWARD:
        unit = forward_unit(kernels, network, precision)
        unit.show(np.random.default_rng(1).integers(0, 256, network.input.shape, dtype=np.uint8))
        return unit.embed
    calls = [direct(*call) for call in layer_calls(kernels, shapes(network)[name][0], precision)]
    calls = join_native(calls)
    return lambda: run(calls)


def cases(network: Network) -> dict[str, int]:
    """Names of all cases, and how often a forward pass has each."""
    return {name: count for name, (_, count) in shapes(network).items()} | {FORWARD: 1}


def timed(kernels, network: Network, name: str, seconds: float) -> tuple[float, ...]:
    """Shortest times of both precisions, in microseconds, taking turns for some `seconds`."""
    runs = [case(kernels, network, name, precision) for precision in PRECISIONS]
    shortest = [float("inf")] * len(runs)
    for one in runs:
        one()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, one in enumerate(runs):
            start = time.perf_counter()
            one()
            shortest[k] = min(shortest[k], time.perf_counter() - start)
    return tuple(1e6 * found for found in shortest)


def mark(kernels, network: Network, names) -> None:
    """Run every case REPEATS times between two marks, in both precisions."""
    for name in names:
        for precision in PRECISIONS:
            one = case(kernels, network, name, precision)
            one()  # compiles
            os.getpid()
            for _ in range(REPEATS):
                one()
            os.getpid()


def marks_of(command: str, script: str, options: list[str]) -> tuple[list[int], str]:
    """The marks that the script sets where `command` runs it, and what it prints.

    Whenever Python asks for its process number, `command` appends a mark, which is a number of instructions,
    to the file that the variable COUNT names with ".marks" behind it.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "count"
        run = [*shlex.split(command), "-m", f"tinytrain.meta.studies.{script}", *options]
        done = subprocess.run(
            run, check=True, env=os.environ | {"COUNT": str(file)}, stdout=subprocess.PIPE, text=True
        )
        return [int(line) for line in file.with_name("count.marks").read_text().split()], done.stdout


def counted(command: str, arguments: list[str], names) -> list[tuple[float, ...]]:
    """Thousands of instructions of both precisions of every case, as `command` counts them."""
    marks, _ = marks_of(command, "int8_kernels", [*arguments, "--mark"])
    ends = iter(marks[-4 * len(names) :])
    both = [(end - start) / REPEATS / 1e3 for start, end in zip(ends, ends, strict=True)]
    return list(zip(both[::2], both[1::2], strict=True))


def parser():
    return parser_of(
        "int8_kernels",
        __doc__,
        option("--backbone", "tinytrain-small-2", "model file, published checkpoint or name"),
        option("--only", None, "this row alone, as it is printed", metavar="NAME"),
        number("--milliseconds", 500, "for each row (default: %(default)s)"),
        option("--count", None, "count instructions by this command", metavar="COMMAND"),
        option("--mark", False, "what COMMAND runs", action="store_true"),
    )


def main(arguments: list[str] | None = None) -> int:
    return guarded(study, arguments)


def study(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    network, kernels = load_backbone(args.backbone), kernel_table.load()
    names = {name: n for name, n in cases(network).items() if args.only in (None, name)}
    if not names:
        raise UsageError("usage", f"no row {args.only!r}; rows are: {', '.join(cases(network))}")
    with one_thread():
        if args.mark:
            mark(kernels, network, names)
            return
        rows = (timed(kernels, network, name, args.milliseconds / 1e3) for name in names)
        if args.count:
            options = ["--backbone", args.backbone, *(["--only", args.only] if args.only else [])]
            rows = counted(args.count, options, names)
        print("| layer | in the network | float32 | int8 | float32 / int8 |\n|---|---|---|---|---|")
        for (name, count), (a, b) in zip(names.items(), rows, strict=True):
            print(f"| {name} | {count} | {a:,.1f} | {b:,.1f} | {a / b:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
