"""The file of a compiled kernel: facts in a line of JSON, then object code of the kernel and of its stub."""

import json
import struct

ELF, SYMBOL_TABLE, UNDEFINED = b"\x7fELF\x02\x01", 2, 0
OF_THE_LINKER = {"_GLOBAL_OFFSET_TABLE_"}


def packed(facts: dict, kernel: bytes, stub: bytes) -> bytes:
    """The content of the file."""
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
