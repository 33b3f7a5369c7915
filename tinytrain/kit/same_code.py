"""Whether kernels that a machine compiled itself are those that were compiled for it beforehand.

    python -m tinytrain.kit.same_code COMPILED BEFOREHAND

Both are folders, such as the folder jit of a cache and the folder kernels of a kit. Compared are instructions
and their constants. Names depend on the process, and texts of errors, which no kernel raises, on where the
sources lie.
The exit code is 1 if any kernel differs or none is in both.
"""

import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from tinytrain.base.console import Parser, guarded
from tinytrain.kernels.compile_cache.cache import DIGEST_BYTES
from tinytrain.kernels.dispatch.machine_code import unpacked

CONTENT = 1  # type of a section of an object file
MERGED, EXECUTED = 0x10, 0x4  # flags of one: constants that may be shared; instructions


def running(code: bytes) -> bytes:
    """Instructions of an object file, and their constants."""
    (start,), (size, count) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQ", code, start + k * size) for k in range(count)]
    return b"".join(
        code[at : at + length]
        for _, kind, flags, _, at, length in sections
        if kind == CONTENT and flags & (MERGED | EXECUTED)
    )


def kernels_in(folder: Path) -> dict[str, bytes]:
    """Kernels below `folder`, by name and kinds of arguments."""
    files = (path for path in folder.rglob("*.kernel") if not path.name.startswith("tools-"))
    return {path.name: running(unpacked(path.read_bytes()[DIGEST_BYTES:])[1]) for path in files}


def main(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m tinytrain.kit.same_code", description=__doc__)
    parser.add_argument("compiled", type=Path)
    parser.add_argument("beforehand", type=Path)
    given = parser.parse_args(arguments)
    here, before = kernels_in(given.compiled), kernels_in(given.beforehand)
    both = here.keys() & before.keys()
    other = sorted(name.partition("-")[0] for name in both if here[name] != before[name])
    print(f"{len(both)} kernels are in both; {len(other)} differ: {', '.join(other) or 'none'}")
    return 0 if both and not other else 1


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
