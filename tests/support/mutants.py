"""Structure-aware damage to model files, deltas and pickles; every mutant follows from its seed."""

import json
import random
import re
import struct

import numpy as np

from tinytrain.base.safetensors import CHECKSUM, decode, encode

EVIL_NUMBERS = [-1, 0, 1, 3, 7, 4096, 1.5, 2**31, 2**32 - 1, 2**63, 2**64, 10**400]
EVIL_WORDS = ["F32", "I8", "U8", "F64", "BOOL", "dtype", "shape", "__metadata__", "\ud800", "\0", ""]
EVIL_TOKENS = [
    *(json.dumps(value) for value in [*EVIL_NUMBERS, *EVIL_WORDS, True, False, None, [], {}, [1, 2]]),
    *["-0", "1e3", "1e999", "NaN", "Infinity", "-Infinity"],
    *["[" * 2000, "{", "}", "]", ",", ":", '"', "\\", " ", "\t", "\x00", "\ufeff", "\u2028"],
]
EVIL_BYTES = [
    *(bytes([code]) for code in b"\x00\xff\x7f()]}.RbQtuseaN\x85\x86\x87\x94\x93"),
    *(b"h\x00", b"h\x01", b"q\x00", b"K\x00", b"J\xff\xff\xff\xff", b"X\xff\xff\xff\xff", b"\x8c\x01O"),
    *(b"cos\nsystem\n", b"cnumpy\ndtype\n", b"c_codecs\nencode\n", b"cnumpy\nndarray\n"),
    *(b"cnumpy.core.multiarray\n_reconstruct\n", b"ccollections\nOrderedDict\n"),
    *(b"ctorch\nCharStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n"),
    *(b"\x8a\x09" + b"\xff" * 8 + b"\x00", b"PK\x01\x02", b"PK\x05\x06"),
]


def without_checksum(data: bytes) -> bytes:
    """A model file as it was written before files had one: else no reader would get to see a mutant."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    del header["__metadata__"][CHECKSUM]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One change of bytes: flipped, set, cut, doubled, inserted, exchanged with `other`, or cut off."""
    at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 4, 8, 50])
    head, middle, tail = data[:at], data[at : at + length], data[at + length :]
    change = rng.randrange(7)
    if change == 0:
        return head + bytes(byte ^ (1 << rng.randrange(8)) for byte in middle[:1]) + middle[1:] + tail
    if change == 1:
        return head + rng.randbytes(len(middle)) + tail
    if change == 2:
        return head + tail
    if change == 3:
        return head + middle * rng.choice([2, 3, 30]) + tail
    if change == 4:
        return head + rng.choice(EVIL_BYTES) + (middle if rng.random() < 0.5 else b"") + tail
    if change == 5:
        start = rng.randrange(len(other) + 1)
        return head + other[start : start + rng.choice([1, 8, 100])] + tail
    return head


def mutate_tokens(rng: random.Random, text: str) -> str:
    """`text` (JSON) with one token replaced, dropped, doubled or exchanged with another."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|-?[0-9.]+|[a-z]+|.', text, re.S)
    at = rng.randrange(len(tokens))
    change = rng.randrange(5)
    if change == 0:
        tokens[at] = rng.choice(EVIL_TOKENS)
    elif change == 1:
        del tokens[at]
    elif change == 2:
        tokens.insert(at, tokens[at])
    elif change == 3:
        tokens[at] = rng.choice(tokens)
    elif tokens[at].isdigit():
        tokens[at] = str(max(0, int(tokens[at]) + rng.choice([-4, -1, 1, 4, 8])))
    return "".join(tokens)


def mutate_file(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """A model file with its header length, header text, payload or any bytes changed."""
    length = int.from_bytes(data[:8], "little")
    text, payload = data[8 : 8 + length], data[8 + length :]
    change = rng.randrange(6)
    if change == 0:
        claimed = rng.choice(
            [0, 1, length - 1, length + 1, length + 8, len(data), 10**6, 2**31, 2**63, 2**64 - 1]
        )
        return struct.pack("<Q", max(claimed, 0)) + data[8:]
    if change == 1:
        return mutate_bytes(rng, data, other)
    if change == 2:
        payload = mutate_bytes(rng, payload or b"\0", other)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        text = mutate_tokens(rng, text.decode() or " ").encode() if change >= 3 else text
    return struct.pack("<Q", len(text)) + text + payload


def mutate_content(rng: random.Random, data: bytes, favourite: str) -> bytes:
    """A well-formed file whose metadata, JSON inside it or tensors make no sense.

    `favourite` is the metadata key that matters most.
    """
    tensors, metadata = decode(data)
    if rng.random() < 0.7:
        key = rng.choice([favourite, rng.choice(list(metadata))])
        metadata[key] = mutate_tokens(rng, metadata[key] or " ")
    if rng.random() < 0.2:
        tensors = {name: array for name, array in tensors.items() if rng.random() < 0.8}
    if rng.random() < 0.4 and tensors:
        name = rng.choice(list(tensors))
        tensors[name] = mutate_array(rng, tensors[name])
    return encode(tensors, metadata)


def mutate_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """Another shape, another type, or one element that is another number."""
    change = rng.randrange(4)
    if change == 0:
        return array.reshape(-1)[: rng.randrange(array.size + 1)]
    if change == 1:
        return array.astype(rng.choice([np.float32, np.int32, np.int8, np.uint8]), casting="unsafe")
    if change == 2:
        return array.reshape(rng.choice([(1, -1), (-1, 1), array.shape[::-1], (*array.shape, 1)]))
    array = array.copy()
    if array.size:
        floats = array.dtype.kind == "f"
        numbers = [np.nan, np.inf, -1, 0, 1e38, 1e-42] if floats else [0, 1, 2, 100, 127]
        array.flat[rng.randrange(array.size)] = rng.choice(numbers)
    return array
