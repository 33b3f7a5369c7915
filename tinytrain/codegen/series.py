"""The folder that ``tinytrain forecast --emit`` writes: C that learns on the device how a series goes on."""

import os

import numpy as np

from tinytrain.codegen.folder import EXAMPLES, around, write_folder
from tinytrain.codegen.inputs import SOURCES, c_reservoir, reservoir_settings
from tinytrain.codegen.text import braces, comment, defined, table
from tinytrain.episode.motion_features import Reservoir

SERIES = SOURCES.parent / "series"
SHARED = ("kernels.h", "kernels_math.c", "kernels_packed.c")
SENTENCE = "Learns on the board itself how a series of numbers goes on."
LEAST = 40  # rows to fit to
SHOWN = 4000  # of the example, which lies in flash; more if it is to foretell far
LEAST_RIDGE = 1e-2  # of sums in float32
EXAMPLE = """\
/* The series, in flash. Written by tinytrain forecast --emit. */
#include "tinytrain.h"
"""
PLAN = comment("Sizes, units and settings. Written by tinytrain forecast --emit.")


def emit_series(
    folder: str | os.PathLike, values: np.ndarray, target: int, ahead: int, ridge: float, reservoir: Reservoir
) -> int:
    """Write a library that foretells all columns of a series `ahead` rows on, and an example that learns it.

    `values` (rows, columns) are the series, whose end is that of the example. Their means and deviations,
    `ridge` and the washout of `reservoir` are those of the device; `target` is what the example is judged by.
    Returns the bytes of RAM that the library takes. Raises StorageError.
    """
    axes = values.shape[1]
    size = reservoir.neurons + axes
    sums = 4 * ((size + 1) * (size + 2) // 2 + (size + 1) * axes)
    # What stands still deviates by rounding, and what it changes by is 10^13 of that.
    deviation = np.where(np.ptp(values, axis=0) > 0, values.std(axis=0), 1)
    settings = {
        "AHEAD": ahead, "TARGET": target, "LEAST": LEAST, "SUMS_BYTES": sums,
        "RIDGE": float(max(ridge, LEAST_RIDGE)), "MEANS": braces(values.mean(axis=0)),
        "DEVIATIONS": braces(deviation), **reservoir_settings(reservoir, axes),
    }  # fmt: skip
    library = {name: (SOURCES / name).read_text() for name in SHARED}
    library |= {name: (SERIES / name).read_text() for name in ("tinytrain.h", "series.c")}
    library |= {
        "reservoir.c": c_reservoir(reservoir, axes),
        "plan.h": "\n".join([PLAN, *defined(settings), ""]),
    }
    paragraph = f"{axes} columns, {ahead} rows ahead. Written by tinytrain forecast --emit."
    files = around(library, SENTENCE, paragraph)
    for name in ("cycles.h", "examples.h"):  # of the other example
        del files[f"examples/demo/{name}"]
    for name, place in (("README.md", ""), ("demo.c", "examples/demo/")):
        files[place + name] = (SERIES / name).read_text()
    shown = values[-max(SHOWN, 8 * ahead) :]
    rows = table("const float tt_example_row[][TT_AXES]", map(braces, shown))
    files[EXAMPLES] = "\n".join([EXAMPLE, f"const uint32_t tt_example_rows = {len(shown)}u;", *rows])
    write_folder(folder, files)
    return sums + 4 * (2 * size + ahead * axes) + 8
