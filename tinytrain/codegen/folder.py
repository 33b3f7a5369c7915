"""The folder that ``tinytrain emit`` writes."""

import os
from pathlib import Path

import numpy as np

from tinytrain import __version__
from tinytrain.base.errors import UsageError
from tinytrain.base.files import write_bytes, write_failed
from tinytrain.codegen.adapt import c_adapt
from tinytrain.codegen.delta import c_delta_table
from tinytrain.codegen.device import HEADS, Device
from tinytrain.codegen.draws import Draws
from tinytrain.codegen.inputs import FILES, MADE, SOURCES, files_of_input
from tinytrain.codegen.int8_tables import c_int8_network
from tinytrain.codegen.tables import c_draws, c_network, c_plan
from tinytrain.codegen.text import array, comment, name_of, rows
from tinytrain.episode.episode import Episode
from tinytrain.program.backends.registry import FLOAT32, INT8

EXAMPLES = "examples/demo/examples.c"
QUERIES = 10  # with one of each of two classes, one mistake would look like chance
# Files for plans in one precision.
ONLY = {
    FLOAT32.name: (
        "kernels_float32.h", "kernels_dense.c", "kernels_depthwise.c", "kernels_features.c",
    ),
    INT8.name: (
        "kernels_int8.h", "kernels_int8_arithmetic.h", "kernels_int8_back.c", "kernels_int8_channels.c",
        "kernels_int8_cmsis.c", "kernels_int8_columns.c", "kernels_int8_depthwise.c",
        "kernels_int8_gradients.c", "kernels_int8_layers.c", "kernels_int8_products.c",
        "kernels_int8_updates.c",
    ),
}  # fmt: skip
PROJECT = Path(__file__).parent / "project"  # all around it: CMake, Arduino, Zephyr, emulators, the example
SENTENCE = "Learns new classes of images on the board itself, from a few images of each."
PROPERTIES = """\
name=tinytrain
version={version}
author=The tinytrain contributors
maintainer=The tinytrain contributors
sentence={sentence}
paragraph={paragraph}
category=Data Processing
url=https://arxiv.org/abs/2307.09988
architectures=*
includes=tinytrain.h
"""

END = '\n#include "end.h"\n'  # of every C file of a library
# What a program of C or C++ includes: read once, with functions of C.
INTERFACE = ("plan.h", "tinytrain.h", "flash.h")
HEADER = """\
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{text}
#ifdef __cplusplus
}}
#endif

#endif
"""


def files_of(device: Device, draws: Draws, class_names: tuple[str, ...]) -> dict[str, str]:
    """All files by their names in the folder but for `EXAMPLES`, which `c_examples` gives."""
    made = {
        "delta_table.c": c_delta_table(device, class_names),
        "draws.c": c_draws(device, draws),
        "network.c": c_int8_network(device) if device.int8 else c_network(device.network),
        "plan.h": c_plan(device, draws, class_names),
    }
    own = ONLY[device.recipe.precision]
    others = {*HEADS.values(), *MADE, *(name for files in FILES.values() for name in files)}
    others |= {name for files in ONLY.values() for name in files if name not in own}
    library = {p.name: p.read_text() for p in sorted(SOURCES.iterdir()) if p.name not in others}
    library |= {name: "\n".join(lines) for name, lines in made.items()}
    library |= files_of_input(device.network.input)
    library |= {
        "adapt.c": c_adapt(device),
        "head_result.c": (SOURCES / HEADS[device.recipe.head]).read_text(),
    }
    paragraph = (
        f"{device.network.name}, {device.ways} classes of {device.shots} images, {device.arena} bytes of RAM."
    )
    return around(library, SENTENCE, f"{paragraph} Written by tinytrain emit.")


def around(library: dict[str, str], sentence: str, paragraph: str) -> dict[str, str]:
    """The files of a `library` under ``src/``, and the project around them."""
    files = {str(p.relative_to(PROJECT)): p.read_text() for p in sorted(PROJECT.rglob("*")) if p.is_file()}
    files["library.properties"] = PROPERTIES.format(
        version=__version__, sentence=sentence, paragraph=paragraph
    )
    library = library | {"end.h": (SOURCES / "end.h").read_text()}
    return files | {f"src/{name}": _whole(name, text) for name, text in library.items()}


def _whole(name: str, text: str) -> str:
    """A file of the library with the lines that all of its kind have."""
    if name in INTERFACE:
        return HEADER.format(guard=f"TT_{name_of(name)}", text=text)
    return text + END * name.endswith(".c")


def c_examples(device: Device, episode: Episode) -> str:
    """`EXAMPLES`: the support images of `episode` and at most `QUERIES` others, of all classes alike."""
    spec, support, query = device.network.input, episode.support, episode.query
    order = np.argsort(support.labels, kind="stable")
    each = max(1, QUERIES // device.ways)
    asked = [int(i) for k in range(device.ways) for i in np.flatnonzero(query.labels == k)[:each]]
    names = ", ".join(f'"{_plain(name)}"' for name in episode.class_names)
    size = len(asked)
    parts = [
        comment(f"Images of {episode.source}, in flash. Written by tinytrain emit."),
        '#include "examples.h"\n',
        f"const char *const tt_example_names[TT_WAYS] = {{{names}}};\n",
        _images("tt_example_support", "TT_SUPPORT", [support.image(int(i), spec) for i in order]),
        f"const uint32_t tt_example_queries = {size}u;\n",
        _images("tt_example_query", str(max(1, size)), [query.image(i, spec) for i in asked]),
        array("const uint8_t tt_example_label", query.labels[asked] if size else np.zeros(1, int)),
    ]
    return "\n".join(parts)


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\?' else "_" for c in name)


def _images(name: str, count: str, images: list[np.ndarray]) -> str:
    size = "TT_HEIGHT * TT_ROW_BYTES"
    lines = [f"const uint8_t {name}[{count}][{size}] = {{"]
    for image in images or [np.zeros(1, np.uint8)]:
        lines += ["    {", rows(map(str, image.reshape(-1).view(np.uint8).tolist()), " " * 8), "    },"]
    return "\n".join([*lines, "};", ""])


def check_folder(folder: str | os.PathLike) -> None:
    """Raise UsageError ``usage`` for a file in place of the folder that will be written, or no name."""
    if not os.path.isdir(folder) and (os.path.exists(folder) or not os.fspath(folder)):
        raise UsageError("usage", f"{os.fspath(folder) or repr('')} is no folder; name another")


def write_folder(folder: str | os.PathLike, files: dict[str, str]) -> None:
    """Write the files, each whole or not at all. Raises StorageError.

    C of another library that was written here before is removed: builds take all of ``src/``, and the linker
    the first function of a name, such as that which changes images in place of recordings.
    """
    for path in sorted(Path(folder).glob("src/*.c")):
        try:
            if f"src/{path.name}" not in files and path.read_bytes().endswith(END.encode()):
                path.unlink()
        except OSError as error:
            raise write_failed(path, error) from error
    for name, text in files.items():
        path = Path(folder) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_failed(path.parent, error) from error
        write_bytes(path, text.encode())
