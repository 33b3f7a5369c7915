"""Machine code in this process: object files, loaded by LLVM's own linker without its compiler or numba.

Code is never freed. What an object file needs from elsewhere is looked for beforehand, because LLVM ends the
process where it misses a symbol.
"""

import ctypes
import functools
import json
import os
import struct
from collections.abc import Sequence

import numpy as np
from llvmlite import binding

from tinytrain.base.errors import StorageError
from tinytrain.base.locks import held_over_forks
from tinytrain.kernels.dispatch.target import target

# What all kernels share: the loop over calls, turns between workers, and what their code asks numba for.
RUNNER, BEGIN_TURN, END_TURN = "tinytrain_runner", "tinytrain_begin_turn", "tinytrain_end_turn"
FREE, RESHAPE = "NRT_MemInfo_call_dtor", "numba_attempt_nocopy_reshape"
TOOLS = RUNNER, BEGIN_TURN, END_TURN, FREE, RESHAPE
ELF, SYMBOL_TABLE, UNDEFINED = b"\x7fELF\x02\x01", 2, 0
OF_THE_LINKER = {"_GLOBAL_OFFSET_TABLE_"}
LOCK = held_over_forks()  # LLVM has locks of its own, which a fork would copy locked
_loaded: dict[str, int] = {}  # address by symbol


class MissingSymbol(Exception):  # noqa: N818 - it is what is missing
    """An object file needs a function that this process does not have."""


def check_executable() -> None:
    """Raise StorageError ``numba-unusable`` unless this process may make memory executable.

    LLVM does not look whether it could: code in memory that is not executable ends the process by a signal.
    """
    try:
        with LOCK:
            binding.check_jit_execution()
    except OSError as error:
        raise StorageError(
            "numba-unusable",
            f"this process may not make memory executable ({os.strerror(error.errno)}); set"
            " MemoryDenyWriteExecute=no in its systemd service, or allow execmem in SELinux",
        ) from error


def load(code: bytes, symbols: Sequence[str], needs: Sequence[str] = ()) -> list[int]:
    """Addresses of `symbols`, after the object file `code` was loaded if they are not known.

    Raises MissingSymbol if something of `needs` is nowhere, and what LLVM raises.
    """
    with LOCK:
        if not _loaded.keys() >= set(symbols):
            for name in needs:
                if name not in _loaded and not binding.address_of_symbol(name):
                    raise MissingSymbol(f"it needs {name}")
            engine = _engine()
            engine.add_object_file(binding.ObjectFileRef.from_data(code))
            engine.finalize_object()
            _loaded.update((name, engine.get_function_address(name)) for name in symbols)
        return [_loaded[name] for name in symbols]


@functools.cache
def _engine():
    return binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())


def target_machine():
    """LLVM's description of the oldest processor of the kind that is compiled for."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_triple(target().triple).create_target_machine()


@functools.cache
def arrays_as_expected() -> bool:
    """Whether numpy's array objects are laid out as stubs read them."""
    probe = np.zeros((3, 5), np.float32)[:, 1:3]
    words = (ctypes.c_size_t * 4).from_address(id(probe) + object.__basicsize__)
    if words[0] != probe.__array_interface__["data"][0] or words[1] & 0xFFFFFFFF != probe.ndim:
        return False
    axes = [tuple((ctypes.c_ssize_t * probe.ndim).from_address(words[k])) for k in (2, 3)]
    return axes == [probe.shape, probe.strides]


def packed(facts: dict, kernel: bytes, stub: bytes) -> bytes:
    """The file of a compiled kernel: facts in a line of JSON, object code of the kernel and of its stub."""
    return json.dumps(facts | {"bytes": len(kernel)}).encode() + b"\n" + kernel + stub


def unpacked(content: bytes) -> tuple[dict, bytes, bytes]:
    """(facts, kernel, stub): the inverse of `packed`."""
    head, _, code = content.partition(b"\n")
    facts = json.loads(head)
    return facts, code[: facts["bytes"]], code[facts["bytes"] :]


def needed(code: bytes) -> list[str]:
    """Symbols that the object file `code` (ELF, 64 bits, little endian) needs from elsewhere.

    Raises ValueError for another kind of file.
    """
    if not code.startswith(ELF):
        raise ValueError("no object file of 64 bits, little endian")
    (start,), (size, count) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + k * size) for k in range(count)]
    names: set[str] = set()
    for _, kind, _, _, at, length, strings, _, _, row in sections:
        for symbol in range(at, at + length, row) if kind == SYMBOL_TABLE else ():
            name, _, _, section = struct.unpack_from("<IBBH", code, symbol)
            if name and section == UNDEFINED:
                begin = sections[strings][4] + name
                names.add(code[begin : code.index(b"\0", begin)].decode())
    return sorted(names - OF_THE_LINKER)
