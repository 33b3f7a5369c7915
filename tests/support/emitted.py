"""Emitted C: made, compiled, run, and compared with a Python adaptation in portable mode, bit for bit."""

import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
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
plan = for_one_core(replace(plan, task=task), network, Programs(network, task))
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
    found["trained"] = run.session.trainer.trained.copy()
    delta = run.result()
    found["weights after"] = delta.head.weights.copy()
    found["offsets after"] = delta.head.offsets.copy()
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
    tt_trace("trained", F(tt_arena.bytes, AT_TRAINED_PARAMETERS), 4 * TT_TRAINED);
    while (fread(query, sizeof query, 1, images) == 1) {
        int32_t label = tt_predict(query, NULL);
        tt_trace("label", &label, sizeof label);
    }
    return fclose(traced) || fclose(images);
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


def plan_of(network, ways, shots, head, budget, macs=0.15, **recipe):
    """A plan with quotas; `recipe` replaces parts of the policy's."""
    task = TaskShape(ways * shots, ways)
    policy = find_policy("tinytrain").with_head(head)
    planner = Planner(network, task, policy, Budget(budget, macs, precision="float32"))
    plan = planner.plan(toyplans.scores(network, planner.probe().inspected))
    plan = replace(plan, recipe=replace(plan.recipe, **recipe))
    return for_one_core(plan, network, Programs(network, task))


def emit(folder, network, plan, seed=0):
    device = device_of(network, plan)
    write_folder(folder, files_of(device, draws_of(device, seed, False)))
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


def compiled(folder: Path, compiler: str, options=(), main: str = MAIN) -> Path:
    """The program of an emitted `folder` that traces an adaptation."""
    (folder / "traced.c").write_text(main)
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
