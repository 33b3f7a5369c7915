"""Text as a kind of input: the words of a file by their numbers in a vocabulary, as WordPiece counts them."""

import functools
import hashlib
import os
import unicodedata

import numpy as np

from tinytrain.base.cache_folder import cache_folder
from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import TABLES
from tinytrain.base.files import read_bytes
from tinytrain.episode.kind import Kind
from tinytrain.network.input_spec import InputSpec

START, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
LONGEST = 100  # letters of a word that may be known
MOST_BYTES = 2**22  # of a vocabulary
TABLE = (
    "is a table of texts, and one text is needed; give a .txt file, 'tinytrain watch DELTA -' a text a line,"
    " or 'tinytrain eval DELTA TABLE' texts with labels"
)
UNSEEN = ("Cc", "Cf", "Co", "Cs")  # categories of signs
# Scripts without spaces: each sign of these ranges is a word.
IDEOGRAPHS = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


class Text(Kind):
    """Texts of some words; what is behind the last word that a network takes is not read.

    An item is float32 (words, 1, 1): numbers of words, then zeros. The parameter `vocabulary` of the
    `InputSpec` is the sha256 of the list of words, a word a line.
    """

    name, suffixes, aside, verb = "text", (".txt",), True, "write"

    def read(
        self, source: str | os.PathLike | bytes, asked: InputSpec, name: str | None = None
    ) -> np.ndarray:
        self.check(source)
        return super().read(source, asked, name)

    def check(self, source: str | os.PathLike | bytes) -> None:
        super().check(source)
        if not isinstance(source, bytes) and os.path.splitext(os.fspath(source))[1].lower() in TABLES:
            raise InputError("file-kind", f"{os.fspath(source)!r} {TABLE}")

    def decode(self, content: bytes, spec: InputSpec) -> np.ndarray:
        count, *others = spec.shape
        digest = dict(spec.parameters).get("vocabulary")
        if spec.dtype != "float32" or others != [1, 1] or count < 3 or digest is None:
            raise InputError("unsupported", f"needs a network of text, not of {spec.words}")
        vocabulary = vocabulary_of(str(digest))
        try:
            words = split(content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            what = f"has a byte {error.object[error.start]:#x} that is no UTF-8; store it as UTF-8"
            raise InputError("image-unreadable", what) from error
        if not words:
            raise InputError("image-unreadable", "has 0 words; write some, or remove it")
        known = [number for word in words[:count] for number in pieces(word, vocabulary)]
        numbers = [vocabulary[START], *known[: count - 2], vocabulary[END]]
        return np.array(numbers + [0] * (count - len(numbers)), np.float32).reshape(spec.shape)


def vocabulary_file(digest: str) -> str:
    return os.fspath(cache_folder("backbones") / f"vocabulary-{digest[:16]}.txt")


def parsed(content: bytes) -> dict[str, int]:
    """The number of each word of a vocabulary file. Raises InputError ``file-damaged``."""
    words = {word: number for number, word in enumerate(content.decode("utf-8", "replace").split("\n"))}
    if missing := [word for word in (START, END, UNKNOWN) if not words.get(word)]:
        raise InputError("file-damaged", f"has no {missing[0]} among its {len(words)} words")
    return words


@functools.lru_cache(4)
def vocabulary_of(digest: str) -> dict[str, int]:
    """The vocabulary with this sha256, which came with an encoder.

    Raises InputError ``backbone-not-here``.
    """
    try:
        content = read_bytes(vocabulary_file(digest), MOST_BYTES)
    except InputError:
        content = b""
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(
            "backbone-not-here",
            f"cannot be read without the vocabulary {digest[:12]}; run: tinytrain backbones get minilm",
        )
    return parsed(content)


def split(text: str) -> list[str]:
    """Words and signs of `text` in small letters without accents."""
    spaced = "".join(f" {sign} " if _stands_alone(sign) else sign for sign in map(_plain, text))
    words = []
    for word in spaced.split():
        plain = unicodedata.normalize("NFD", word.lower())
        plain = "".join(sign for sign in plain if unicodedata.category(sign) != "Mn")
        words += "".join(f" {sign} " if _is_sign(sign) else sign for sign in plain).split()
    return words


def _plain(sign: str) -> str:
    """The sign itself, a space for every kind of space, nothing for what cannot be seen."""
    if sign in "\t\n\r" or unicodedata.category(sign) == "Zs":
        return " "
    return "" if sign in "\0\ufffd" or unicodedata.category(sign) in UNSEEN else sign


def _stands_alone(sign: str) -> bool:
    return bool(sign) and any(first <= ord(sign) <= last for first, last in IDEOGRAPHS)


def _is_sign(sign: str) -> bool:
    is_ascii = sign.isascii() and sign.isprintable() and not sign.isalnum() and sign != " "
    return is_ascii or unicodedata.category(sign).startswith("P")


def pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """Numbers of the longest parts that the vocabulary has, from the left; of all of it if it has them."""
    found, first = [], 0
    while first < len(word) <= LONGEST:
        last = len(word)
        while last > first and (piece := "##" * (first > 0) + word[first:last]) not in vocabulary:
            last -= 1
        if last == first:
            return [vocabulary[UNKNOWN]]
        found.append(vocabulary[piece])
        first = last
    return found or [vocabulary[UNKNOWN]]
