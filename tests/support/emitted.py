"""Emitted C: made, compiled, run, and compared with a Python adaptation in portable mode, bit for bit."""

import ctypes
import os
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import toynets
import toyplans

from tinytrain.emit.device import device_of, for_one_core
from tinytrain.emit.draws import draws_of
from tinytrain.emit.folder import files_of, write_folder
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.planner.candidates import Programs
from tinytrain.planner.planner import Planner
from tinytrain.policies.registry import find_policy

# Adapts and writes down what C traces, by the names that it uses.
PYTHON = """
import pickle, sys
from dataclasses import replace
import numpy as np
from tinytrain.emit.device import for_one_core
from tinytrain.episode.episode import Episode, Images
from tinytrain.guard.guard import Evidence, judge
from tinytrain.guard.suspects import margins
from tinytrain.heads.leave_one_out import CHANCE
from tinytrain.plan.budget import TaskShape
from tinytrain.planner.candidates import Programs
from tinytrain.planner.planner import Planner
from tinytrain.runtime.device import Device
from tinytrain.runtime import session

network, plan, seed, support, query, file = pickle.loads(open(sys.argv[1], "rb").read())
ways, sides = plan.task.n_way, []
for images in (support, query):
    labels = np.repeat(np.arange(ways, dtype=np.int32), len(images) // ways)
    names = tuple(map(str, range(len(images))))
    sides.append(Images(labels, names, lambda i, size, images=images: images[i]))
episode = Episode(*sides, tuple(f"class {k}" for k in range(ways)))
task = TaskShape.of(episode)
quotas = plan.recipe.options.quotas
plan = for_one_core(replace(plan, task=task), network, Programs(network, task, plan.recipe.precision), quotas)
found = {}
measured = session.Session._embed

def embed(self, view, chosen):
    out = measured(self, view, chosen)
    if view == 0:
        found.setdefault("embeddings", []).append(out.copy())
    return out

session.Session._embed = embed
planner = Planner(network, TaskShape.of(episode), plan)
with Device(threads=1).open(network, episode, seed) as run:
    assert run.kernels.backend == "portable", run.kernels.backend
    scores = run.measure_fisher(planner.probe())
    chosen = planner.plan(scores)
    for layer, fisher in (scores.fisher if scores else {}).items():
        found[f"fisher {layer}"] = fisher.copy()
    for update in chosen.recipe.updates:
        if update.channels:
            found[f"channels {update.layer}"] = np.array(sorted(update.channels), np.int32)
    run.load(planner.program(chosen))
    run.cache_features()
    run.fit_heads()
    found["weights before"] = run._before[0].weights.copy()
    found["losses"] = np.array(run.train(), np.float32)
    delta = run.result()
    found["weights after"] = delta.head.weights.copy()
    found["offsets after"] = delta.head.offsets.copy()
    found["facts"] = delta.head.temperature, delta.head.left_out
    found["head"] = {name: array.tobytes() for name, array in delta.head.tensors().items()}
    ordered = sorted(delta.slices, key=lambda s: (-s.values.itemsize, f"{s.layer}.{s.part}"))
    found["trained"] = [s.values.tobytes() for s in ordered]  # as the parts of the file lie
    found["slices"] = [(s.layer, s.part, s.channels.tolist(), s.values.tobytes()) for s in delta.slices]
    rows = run.leave_one_out()
    found["left out"] = [(margins(r), r[:, CHANCE].copy()) for r in rows[:2] if r is not None]
    evidence = Evidence(run.losses, plan.recipe.steps, run.is_finite, *rows)
    found["reasons"] = [r.code for r in judge(evidence, episode.support, episode.class_names).reasons]
    run.predict(delta)
    found["answers"] = run._answers.copy()
open(file, "wb").write(pickle.dumps(found))
"""
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "internal.h"

static FILE *traced;

void tt_trace(const char *name, const void *values, uint32_t nbytes)
{
    fprintf(traced, "%s\\n%u\\n", name, (unsigned)nbytes);
    fwrite(values, 1, nbytes, traced);
}

#define PIXELS (TT_HEIGHT * TT_WIDTH * TT_CHANNELS)
static unsigned char support[TT_SUPPORT][PIXELS], query[PIXELS];

static unsigned char file[1 << 20];
static uint32_t place, size;

static int put(void *context, const void *bytes, uint32_t n)
{
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        file[place++] = ((const unsigned char *)bytes)[i];
    return 0;
}

static int get(void *context, void *bytes, uint32_t n)
{
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] = file[place++];
    return place > size;
}

static int32_t load(void)
{
    place = 0;
    return tt_load(get, NULL);
}

/* What was learnt is written, refused if a byte is damaged or missing, read into memory that is empty, and
 * written once more. */
static void save_and_load(void)
{
    int32_t results[3];
    if (tt_save(put, NULL) != TT_OK)
        return;
    size = place;
    tt_trace("delta", file, size);
    for (uint32_t i = 0; i < size; i += i < tt_delta_header_bytes ? 1 : 997) {
        int32_t damaged;
        file[i] ^= 1;
        damaged = load();
        file[i] ^= 1;
        tt_trace("damaged", &damaged, sizeof damaged);
    }
    size--;
    results[0] = load();
    size++;
    for (uint32_t i = 0; i < TT_ARENA_BYTES; i++)
        tt_arena.bytes[i] = 0xA5;
    results[1] = load();
    place = 0;
    results[2] = tt_save(put, NULL);
    tt_trace("loading", results, sizeof results);
    tt_trace("saved again", file, place);
}

int main(int count, char **files)
{
    FILE *images = fopen(files[1], "rb");
    int result;
    traced = fopen(files[2], "wb");
    if (count != 3 || !images || !traced || fread(support, sizeof support, 1, images) != 1)
        return 99;
    tt_init();
    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        if (tt_add_image(i / TT_SHOTS, support[i]) != TT_OK)
            return 98;
    result = tt_adapt(NULL);
    tt_trace("result", &result, sizeof result);
    TRAINED
    save_and_load();
    while (fread(query, sizeof query, 1, images) == 1) {
        int32_t label = tt_predict(query, NULL);
        tt_trace("label", &label, sizeof label);
    }
    return fclose(traced) || fclose(images);
}
"""
# The same on a microcontroller: images in flash, and a hash (FNV-1a) of all that is traced, by the emulator.
MAIN_OF_BOARD = """
#include "../examples.h"
#include "../internal.h"
#include "../say.h"

void tt_trace(const char *name, const void *values, uint32_t nbytes)
{
    const uint8_t *bytes = values;
    uint32_t hash = 2166136261u;
    char text[10];
    for (uint32_t i = 0; i < nbytes; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    for (int i = 0; i < 8; i++)
        text[i] = "0123456789abcdef"[hash >> (28 - 4 * i) & 15u];
    text[8] = 10; /* a new line */
    text[9] = 0;
    say(name);
    say("=");
    say(text);
}

int main(void)
{
    tt_init();
    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        tt_add_image(i / TT_SHOTS, tt_example_support[i]);
    if (tt_adapt(NULL) < 0)
        return 1;
    TRAINED
    return 0;
}
"""
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compilers() -> list[str]:
    """Those of gcc and clang that are here."""
    return [name for name in ("gcc", "clang") if shutil.which(name)]


def sanitizers(compiler: str) -> tuple[str, ...]:
    """Options for the address and undefined-behaviour sanitizers; none if their libraries are not here."""
    command = [compiler, *SANITIZERS, "-x", "c", "-", "-o", os.devnull]
    tried = subprocess.run(command, input="int main(void) { return 0; }", text=True, capture_output=True)
    return SANITIZERS if tried.returncode == 0 else ()


def looking_at(policy, shown):
    """`policy` with steps that look at this fraction of the images."""

    def recipe(*arguments):
        found = policy.recipe(*arguments)
        return replace(found, options=replace(found.options, shown_fraction=shown))

    return replace(policy, recipe=recipe)


def plan_of(
    network, ways, shots, head, budget, macs=0.15, shown=1.0, quotas=True, precision="float32", **recipe
):
    """A plan whose steps look at the fraction `shown` of the images, with `quotas` or channels of its own.

    `recipe` replaces parts of the policy's.
    """
    task = TaskShape(ways * shots, ways)
    policy = looking_at(find_policy("tinytrain").with_head(head), shown)
    planner = Planner(network, task, policy, Budget(budget, macs, precision=precision))
    plan = planner.plan(toyplans.scores(network, planner.probe().inspected))
    plan = replace(plan, recipe=replace(plan.recipe, **recipe))
    return for_one_core(plan, network, Programs(network, task, precision), quotas)


def classes_of(network, ways: int, shots: int, seed: int) -> np.ndarray:
    """Random images, class by class; every class is darker than the one before."""
    images = toynets.images_of(network.input.shape, ways * shots, seed)
    for k in range(ways):
        images[k * shots : (k + 1) * shots] //= k * k + 1
    return images


def emit(folder, network, plan, seed=0):
    device = device_of(network, plan)
    names = tuple(f"class {k}" for k in range(device.ways))
    write_folder(folder, files_of(device, draws_of(device, seed, False), names))
    return device


def in_python(folder: Path, network, plan, support, query, seed: int = 0) -> dict[str, np.ndarray]:
    """What Python computes in portable mode, in a process of its own.

    `support` and `query` are images (n, height, width, channels), class by class.
    """
    task, result = folder / "task.pickle", folder / "python.pickle"
    task.write_bytes(pickle.dumps((network, plan, seed, support, query, str(result))))
    environment = os.environ | {"TINYTRAIN_PORTABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PYTHON, str(task)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads(result.read_bytes())


def tracing(folder: Path, main: str) -> str:
    """`main` with a line for each array of the delta that training changed."""
    parts = re.findall(
        r"{(.+), (\d+), 0, (\d)}, /. \d+[.]\w+[.]values", (folder / "delta_table.c").read_text()
    )
    lines = (f'tt_trace("trained", {part}, {int(n) * int(size)});' for part, n, size in parts)
    return main.replace("TRAINED\n", "\n    ".join([*lines, ""]))


def compiled(folder: Path, compiler: str, options=(), main: str = MAIN) -> Path:
    """The program of an emitted `folder` that traces an adaptation."""
    (folder / "traced.c").write_text(tracing(folder, main))
    program = folder / f"traced-{compiler}"
    sources = [str(p) for p in sorted(folder.glob("*.c")) if p.name != "main.c"]
    command = [compiler, *STRICT, "-DTT_TRACE", "-O2", *options, *sources, "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


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


class Library:
    """An emitted folder as a library in this process; its functions are attributes.

    `constants` are the macros of plan.h that are whole numbers.
    """

    def __init__(self, folder: Path):
        text = (folder / "plan.h").read_text()
        self.constants = {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)u?\b", text)}
        self.c = shared([*folder.glob("*.c")], folder / "library.so")
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
    """A library of C `sources`, without the example."""
    names = [str(p) for p in sorted(sources) if p.name not in ("main.c", "examples.c", "say_stdio.c")]
    command = [compilers()[0], *STRICT, "-O1", "-shared", "-fPIC", *names, "-o", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(file))


def fnv(data: bytes) -> str:
    """The hash of MAIN_OF_BOARD."""
    found = 2166136261
    for byte in data:
        found = (found ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{found:08x}"


def on_board(folder: Path, machine: str, **sizes) -> tuple[dict[str, list[str]], str]:
    """Hashes by name that an emulated `machine` ("m7" or "m4") traces, and all of its output."""
    (folder / "qemu" / "board.c").write_text(tracing(folder, MAIN_OF_BOARD))
    words = [f"{name}={value}" for name, value in sizes.items()]
    command = [
        "make",
        "-s",
        "-C",
        str(folder / "qemu"),
        "run",
        f"M={machine}",
        "DEFINES=-DTT_TRACE",
        "MAIN=board.c",
    ]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for name, _, value in (line.partition("=") for line in done.stdout.splitlines() if "=" in line):
        found.setdefault(name, []).append(value)
    return found, done.stdout
