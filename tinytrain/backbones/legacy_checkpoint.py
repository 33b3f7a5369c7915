"""Checkpoints in the form that PyTorch wrote before it wrote zip files, without torch.

Five pickles one after another: a magic number, a version, facts of the machine, the object, and the keys of
its storages. Then, in the order of the keys, the numbers of each storage behind their count.
"""

from collections.abc import Mapping

from tinytrain.backbones.restricted_pickle import read_first_pickle
from tinytrain.base.errors import InputError

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
MAX_PICKLE = 2**20  # bytes of each of the five
COUNT = 8  # bytes of the count in front of a storage


def read_legacy(data: bytes, source: str = "file"):
    """Object stored in the file content `data` (see `read_pickle`), arrays of which are parts of `data`.

    Raises InputError ``pickle-*``, or ``checkpoint-layout`` if it is no such file.
    """
    at = 0
    for what, fits in (
        ("magic number", lambda value: value == MAGIC),
        ("version", lambda value: value == VERSION),
        ("byte order", lambda value: isinstance(value, dict) and value.get("little_endian") is True),
    ):
        value, length = read_first_pickle(data[at : at + MAX_PICKLE], source)
        if not fits(value):
            raise _wrong(source, f"its {what} is not that of PyTorch's first form")
        at += length

    def storages(sizes: Mapping[str, int], length: int) -> dict[str, memoryview]:
        return _storages(data, at + length, sizes, source)

    return read_first_pickle(data[at : at + MAX_PICKLE], source, storages)[0]


def _storages(data: bytes, at: int, sizes: Mapping[str, int], source: str) -> dict[str, memoryview]:
    """Bytes of the storages by key, whose list begins at `at`."""
    keys, length = read_first_pickle(data[at : at + MAX_PICKLE], source)
    if type(keys) is not list or not all(type(key) is str for key in keys) or set(keys) != sizes.keys():
        raise _wrong(source, "it does not list the arrays that it uses")
    at, found, content = at + length, {}, memoryview(data)
    for key in keys:
        at += COUNT
        found[key] = content[at : at + sizes[key]]
        at += sizes[key]
    # Counts are those of the object: if the file has others, or a key twice, it ends elsewhere.
    if at != len(data):
        raise _wrong(source, f"{len(data)} bytes, but its arrays end at {at}")
    return found


def _wrong(source: str, what: str) -> InputError:
    return InputError("checkpoint-layout", f"{source}: {what}; download the file again")
