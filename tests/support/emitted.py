"""Emitted C: made, compiled, run, and compared with an adaptation in Python, bit for bit."""

import ctypes
import math
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import toynets
import toyplans
from adapted_in_python import adapted

from tinytrain.codegen.device import device_of, for_one_core
from tinytrain.codegen.draws import draws_of
from tinytrain.codegen.folder import EXAMPLES, c_examples, files_of, write_folder
from tinytrain.episode.episode import Episode, Images
from tinytrain.firmware_sim.emulated.count import missing
from tinytrain.meta.studies.study import with_recipes
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.planner import Planner
from tinytrain.policies.registry import find_policy

HERE = Path(__file__).parent
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


OBJECTS: dict[tuple, bytes] = {}  # what compiling gave, by all that it was made of; see `build`


def need(board: str) -> None:
    """Skip the test, for everybody to see, if a tool is missing."""
    if absent := missing(board):
        pytest.skip(f"not installed: {', '.join(absent)}")


def compilers() -> list[str]:
    """Those of gcc and clang that are here."""
    return [name for name in ("gcc", "clang") if shutil.which(name)]


def sanitizers(compiler: str) -> tuple[str, ...]:
    """Options for the address and undefined-behaviour sanitizers; none if their libraries are not here."""
    command = [compiler, *SANITIZERS, "-x", "c", "-", "-o", os.devnull]
    tried = subprocess.run(command, input="int main(void) { return 0; }", text=True, capture_output=True)
    return SANITIZERS if tried.returncode == 0 else ()


def plan_of(
    network, ways, shots, head, budget, macs=0.15, shown=1.0, quotas=True, precision="float32",
    policy="tinytrain", **recipe,
):  # fmt: skip
    """A plan whose steps look at the fraction `shown` of the images, with `quotas` or channels of its own.

    `recipe` replaces parts of the policy's, and `decay` says whether views may be cached. See also
    `in_two_passes`.
    """
    task = TaskShape(ways * shots, ways)
    decay = {"decay": recipe.pop("decay", (1.0, 0.5))}
    policy = with_recipes(find_policy(policy).with_head(head), lambda found: replace(found, **decay))
    planner = Planner(network, task, policy, Budget(budget, macs, precision=precision))
    probe = planner.probe()
    plan = planner.plan(probe and toyplans.scores(network, probe.inspected))
    looked_at = max(ways, math.ceil(shown * plan.resources.step_queries))
    plan = replace(
        plan, recipe=replace(plan.recipe, **recipe), resources=replace(plan.resources, step_queries=looked_at)
    )
    return for_one_core(plan, network, quotas)


def faster(plan, factor: float):
    """`plan` with learning rates of `factor` times its own."""
    rates = tuple((factor * weight, factor * bias) for weight, bias in plan.recipe.rates)
    return replace(plan, recipe=replace(plan.recipe, rates=rates))


def in_two_passes(plan, network):
    """`plan` with steps that compute all their images before they choose those that they back-propagate."""
    recipe = replace(plan.recipe, options=replace(plan.recipe.options, single_pass=False))
    plan = replace(plan, recipe=recipe)
    return for_one_core(plan, network, recipe.options.quotas)


def classes_of(network, ways: int, shots: int, seed: int) -> np.ndarray:
    """Random images, class by class; every class is darker than the one before. Values have other means."""
    if network.input.dtype == "float32":
        means = np.random.default_rng(0).normal(0, 1, (ways, *network.input.shape))
        noise = np.random.default_rng(seed).normal(0, 0.5, (ways * shots, *network.input.shape))
        return (np.repeat(means, shots, axis=0) + noise).astype(np.float32)
    images = toynets.images_of(network.input.shape, ways * shots, seed)
    for k in range(ways):
        images[k * shots : (k + 1) * shots] //= k * k + 1
    return images


def with_strangers(images: np.ndarray) -> np.ndarray:
    """The images, and as many of no class: black ones, white ones, and those with light and dark changed."""
    others = 255 - images
    others[::4], others[1::4] = 0, 255
    return np.concatenate([images, others])


def emit(folder, network, plan, seed=0):
    device = device_of(network, plan)
    names = tuple(f"class {k}" for k in range(device.ways))
    write_folder(folder, files_of(device, draws_of(device, seed, False), names))
    return device


def add_examples(folder: Path, device) -> np.ndarray:
    """Random images in examples.c, the first one of each class also as a query. Returns all of them."""
    ways, shots = device.ways, device.shots
    images = classes_of(device.network, ways, shots, 1)
    labels = np.repeat(np.arange(ways, dtype=np.int32), shots)
    kind = device.network.input.kind
    support = Images(labels, tuple(map(str, labels)), lambda i, size: images[i], kind)
    query = Images(labels[::shots], tuple(map(str, range(ways))), lambda i, size: images[i * shots], kind)
    names = tuple(f"class {k}" for k in range(ways))
    (folder / EXAMPLES).write_text(c_examples(device, Episode(support, query, names)))
    return images


def in_python(network, plan, support, query, seed: int) -> dict:
    """What Python computes."""
    with pytest.MonkeyPatch.context() as patch:
        return adapted(network, plan, support, query, seed, patch)


def tracing(folder: Path, main: str) -> str:
    """The program `main` beside this file, with a line for each array of the delta that training changed."""
    parts = re.findall(
        r"{(.+), (\d+), 0, (\d)}, /. \d+[.]\w+[.]values", (folder / "src" / "delta_table.c").read_text()
    )
    lines = (f'tt_trace("trained", {part}, {int(n) * int(size)});' for part, n, size in parts)
    return (HERE / main).read_text().replace("    TRAINED\n", "".join(f"    {line}\n" for line in lines))


def library_of(folder: Path) -> list[str]:
    """The C files of the library in an emitted folder."""
    return [str(p) for p in sorted((folder / "src").glob("*.c"))]


def demo_of(folder: Path) -> list[str]:
    """What a C compiler is given for the example on a PC."""
    example = folder / "examples" / "demo"
    own = (example / "demo.c", example / "examples.c", folder / "pc" / "main.c")
    return [f"-I{folder / 'src'}", f"-I{example}", *library_of(folder), *map(str, own)]


def text_of(source: Path, folders: list[Path]) -> str:
    """A C file and all that it includes from its own folder and from `folders`."""
    text = source.read_text()
    for name in re.findall(r'^#include "(.+)"', text, re.MULTILINE):
        found = [folder / name for folder in (source.parent, *folders) if (folder / name).exists()]
        text += text_of(found[0], folders) if found else ""
    return text


def build(compiler: str, *words, out: Path) -> Path:
    """What `compiler` makes of options and C files; files that all emitted folders have are compiled once."""
    options = [str(word) for word in words if not str(word).endswith(".c")]
    folders = [Path(word[2:]) for word in options if word.startswith("-I")]
    fixed, objects = (compiler, *STRICT, *(word for word in options if not word.startswith("-I"))), []
    (made := out.with_name(f"{out.name}.objects")).mkdir(exist_ok=True)
    for source in (Path(word) for word in words if str(word).endswith(".c")):
        objects.append(made / f"{len(objects)}.o")
        key = (*fixed, text_of(source, folders))
        if key not in OBJECTS:
            done(compiler, *STRICT, *options, "-c", source, "-o", objects[-1])
            OBJECTS[key] = objects[-1].read_bytes()
        objects[-1].write_bytes(OBJECTS[key])
    done(compiler, *options, *objects, "-o", out)
    return out


def done(*command) -> None:
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def compiled(folder: Path, compiler: str, options=()) -> Path:
    """The program of an emitted `folder` that traces an adaptation."""
    (folder / "traced.c").write_text(tracing(folder, "traced.c"))
    given = (f"-I{folder / 'src'}", "-DTT_TRACE", "-O2", *options)
    return build(
        compiler, *given, *library_of(folder), folder / "traced.c", out=folder / f"traced-{compiler}"
    )


def in_c(program: Path, support: np.ndarray, query: np.ndarray) -> dict[str, list[bytes]]:
    """What the program traces, by name in order."""
    images, trace = program.with_suffix(".images"), program.with_suffix(".trace")
    images.write_bytes(support.tobytes() + query.tobytes())
    done = subprocess.run([str(program), str(images), str(trace)], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)
    found, data = {}, trace.read_bytes()
    while data:
        name, _, data = data.partition(b"\n")
        size, _, data = data.partition(b"\n")
        found.setdefault(name.decode(), []).append(data[: int(size)])
        data = data[int(size) :]
    return found


PROGRESS = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_float)
READ = WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)


class Verdict(ctypes.Structure):
    """`tt_verdict`."""

    _fields_ = (("label", ctypes.c_uint32), ("confidence", ctypes.c_float), ("state", ctypes.c_int))


class Library:
    """An emitted folder as a library in this process; its functions are attributes.

    `constants` are the macros of plan.h that are whole numbers.
    """

    def __init__(self, folder: Path):
        text = (folder / "src" / "plan.h").read_text()
        self.constants = {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)u?\b", text)}
        self.c = shared(library_of(folder), folder / "library.so")
        self.kept = []  # images that the library reads where they lie

    def __getattr__(self, name: str):
        return getattr(self.c, name)

    def add(self, label: int, image: np.ndarray) -> int:
        self.kept.append(np.ascontiguousarray(image))
        return self.c.tt_add_image(label, self.kept[-1].ctypes.data_as(ctypes.c_void_p))

    def learn(self, images: np.ndarray, progress=None) -> int:
        """Begin anew, and adapt to images class by class."""
        self.c.tt_init()
        for i, image in enumerate(images):
            assert self.add(i // self.constants["TT_SHOTS"], image) == 0
        return self.c.tt_adapt(progress)

    def predict(self, image: np.ndarray) -> int:
        return self.c.tt_predict(image.ctypes.data_as(ctypes.c_void_p), None)

    def verdict(self, logits: np.ndarray) -> tuple[int, float, int] | int:
        """Label, confidence and state, or the code of the failure."""
        found, given = Verdict(), np.ascontiguousarray(logits)
        code = self.c.tt_verdict_of(given.ctypes.data_as(ctypes.c_void_p), ctypes.byref(found))
        return code or (found.label, found.confidence, found.state)

    def load(self, delta: bytes) -> int:
        place = 0

        def get(_, into, n):
            nonlocal place
            ctypes.memmove(into, delta[place : place + n], n)
            place += n
            return place > len(delta)

        return self.c.tt_load(READ(get), None)

    def save(self) -> bytes | int:
        """The delta, or the code of the failure."""
        found = bytearray()

        def put(_, data, n):
            found.extend(ctypes.string_at(data, n))
            return 0

        return self.c.tt_save(WRITE(put), None) or bytes(found)


def shared(sources, file: Path) -> ctypes.CDLL:
    """A library of C `sources` in this process."""
    return ctypes.CDLL(str(build(compilers()[0], "-O1", "-shared", "-fPIC", *sources, out=file)))


def fnv(data: bytes) -> str:
    """The hash of board.c."""
    found = 2166136261
    for byte in data:
        found = (found ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{found:08x}"


def make(folder: Path, board: str, target: str, **settings) -> subprocess.CompletedProcess:
    """Build the program for an emulated `board` ("m7", "m4", "m55", "rv32") anew; `target` "run" runs it."""
    words = [f"{name}={value}" for name, value in {"M": board, **settings}.items()]
    command = ["make", "-s", "-B", "-C", str(folder / "qemu"), *filter(None, [target]), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=3600)


def on_board(folder: Path, board: str, **sizes) -> tuple[dict[str, list[str]], str]:
    """Hashes by name that an emulated `board` traces, and all of its output."""
    (folder / "qemu" / "board.c").write_text(tracing(folder, "board.c"))
    done = make(folder, board, "run", DEFINES="-DTT_TRACE", MAIN="board.c", **sizes)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for name, _, value in (line.partition("=") for line in done.stdout.splitlines() if "=" in line):
        found.setdefault(name, []).append(value)
    return found, done.stdout
