"""Compiles all kernels for a processor, on whichever machine.

    python -m tinytrain.kit.kernels PROCESSOR [FOLDER]

They are for the Python, numba, llvmlite and numpy that this runs with: another minor version of Python has
other bytecode, of which numba makes other machine code for some kernels. FOLDER is by default that of the
package, where a wheel that is built afterwards takes them from.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tinytrain import kernels
from tinytrain.base.console import Parser, guarded
from tinytrain.kernels.compile_cache.cache import PACKAGED, Cache, packaged_for
from tinytrain.kernels.dispatch.code import described
from tinytrain.kernels.dispatch.target import PROCESSORS, Target, compile_for
from tinytrain.kernels.kernel import Kernel, file_name
from tinytrain.pipeline.warmup import warm_up

Calls = dict[tuple[Kernel, str], Sequence]  # arguments by kernel and kinds of arguments


def calls_of_all_kernels() -> Calls:
    """One call of every kernel, with the kinds of arguments that programs have. Numpy runs in their place."""
    found: Calls = {}
    references, before = kernels.load("numpy"), Kernel.code

    def code(kernel: Kernel, arguments: Sequence) -> Callable:
        found.setdefault((kernel, described(arguments, kernel.strided)), arguments)
        return getattr(references, kernel.name.rpartition(".")[2])

    Kernel.code = code
    try:
        warm_up()
    finally:
        Kernel.code = before
    return found


def compile_kernels(calls: Calls, processor: Target, base: Path) -> Path:
    """Write the kernels of `calls`, for `processor`, to a folder below `base`, which is returned.

    Afterwards this process can run none. Raises StorageError, and what numba and LLVM raise.
    """
    compile_for(processor)
    from tinytrain.kernels.dispatch.call_tools import tools
    from tinytrain.kit.cross import Codegen, cross_compile

    cross_compile(Codegen(processor))
    folder = packaged_for(processor, base)
    folder.mkdir(parents=True, exist_ok=True)
    cache = Cache(folder, kept=True, warning=None, verified={})
    cache.write(file_name("tools", ""), tools())
    for (kernel, _), arguments in calls.items():
        cache.write(kernel.file(arguments), kernel.machine_code(arguments))
    return folder


def main(arguments: Sequence[str]) -> int:
    parser = Parser(prog="python -m tinytrain.kit.kernels", description=__doc__)
    parser.add_argument("processor", choices=PROCESSORS)
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGED)
    given = parser.parse_args(arguments)
    print(compile_kernels(calls_of_all_kernels(), PROCESSORS[given.processor], given.folder))
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
