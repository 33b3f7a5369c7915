"""A kind of input, such as images: how its files become arrays, and how these are changed and shown.

Whatever reads, checks, shows or watches inputs asks their kind. `tinytrain.episode.kinds` has all by name.
"""

import os
import re
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.episode.augment import USUAL, Ranges
from tinytrain.episode.decode import named_errors, regular_file
from tinytrain.network.input_spec import InputSpec

MOST_BYTES = 2**26  # of a file, unless a kind has limits of its own
HEAD = 2**13  # bytes by which a kind may be known
EMPTY = "has 0 bytes; copy or download it again"
# Not a part of a path or a name: those stand in quotes, or have a slash or a dot.
WORDS = re.compile(r"(?<![\w/.'\"-])(?:(an )?image(s?)|(photograph))(?![\w/'\"-]|\.\w)(  +)?", re.IGNORECASE)


class UnknownEndError(Exception):
    """Bytes do not say whether more of them are to come."""


class Change(Protocol):
    """How an item is changed, as training looks at it more than once."""

    def apply(self, y: np.ndarray, x: np.ndarray, kernels) -> None:
        """y = x, changed; both have shape and dtype of an item, and `kernels` may be used."""


class Kind(ABC):
    """A kind of input: a subclass says its `name`, its `suffixes`, and how `decode` makes an item of a file.

    An item is an array of the shape and dtype of an `InputSpec`, which also has the `parameters` that it is
    made with. `name` is what `InputSpec.kind` says; people read `noun` and `plural`, by default made of it,
    and `verb`, how one is taken.
    `suffixes` are those of its files, lower case, the first for an item that came without a name. `given`
    says what a program may give for one. If it is `aside`, its files are nothing but remarks where files of
    other kinds are.
    """

    name: str
    suffixes: tuple[str, ...]
    aside = False
    verb = "record"
    given = "a path, the bytes of a file, or an array of the shape and dtype that the network takes"

    @property
    def noun(self) -> str:
        return self.name

    @property
    def plural(self) -> str:
        return f"{self.noun}s"

    @abstractmethod
    def decode(self, content: bytes, spec: InputSpec) -> np.ndarray:
        """The item in a file with this `content`.

        Any error means that there is none: an InputError, whose message has no subject ("has 0 values"), or
        another one, whose text is shown.
        """

    def owns(self, path: str | os.PathLike) -> bool:
        """Whether a file is of this kind, by its name; a kind may look into it as well."""
        return os.path.splitext(os.fspath(path))[1].lower() in self.suffixes

    def begins(self, head: bytes) -> bool:
        """Whether bytes without a name, of which these are the first HEAD, may be a file of this kind."""
        return False

    def suffix(self, content: bytes) -> str:
        """How the name of a file with this content ends."""
        return self.suffixes[0]

    def why_not(self, path: str | os.PathLike) -> str:
        """What to say of a file that is not of this kind: without a subject."""
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        return f"is no {self.noun} by its name ({suffix or 'no suffix'})"

    def read(
        self, source: str | os.PathLike | bytes, asked: InputSpec, name: str | None = None
    ) -> np.ndarray:
        """The item in a file, or in the bytes of one; `name` is that in messages. Raises InputError."""
        with named_errors(source, name, self.noun):
            content = source if isinstance(source, bytes) else content_of(source)
            if not content:
                raise InputError("image-unreadable", EMPTY)
            item = np.asarray(self.decode(content, asked))
            if wrong := _wrong(item, asked):
                raise InputError("image-unreadable", wrong)
            return item

    def check(self, source: str | os.PathLike | bytes) -> None:
        """Raise InputError for a file that clearly cannot be read. What passes may fail in `read`."""
        with named_errors(source, None, self.noun):
            if not (source if isinstance(source, bytes) else content_of(source, 1)):
                raise InputError("image-unreadable", EMPTY)

    def item(self, value, asked: InputSpec, name: str) -> np.ndarray:
        """What a program gave, see `given`, as an item; `name` is that in messages. Raises InputError."""
        if isinstance(value, np.ndarray):
            return self.checked(value, asked, name)
        return self.read(bytes(value) if isinstance(value, bytearray) else value, asked, name)

    def is_single(self, value: np.ndarray) -> bool:
        """Whether an array is one item, not a list of items. Raises InputError if it could be either."""
        return value.ndim == 3

    def takes(self, value) -> bool:
        """Whether a program may give this for an item; arrays are looked at more closely by `item`."""
        return isinstance(value, bytes | bytearray | np.ndarray)

    def asked(self, spec: InputSpec) -> InputSpec:
        """What `Images.read`, `read` and `item` are asked for."""
        return spec

    def checked(self, item: np.ndarray, spec: InputSpec, name: str) -> np.ndarray:
        """`item` if it is what `spec` describes. Raises InputError."""
        item = np.asarray(item)
        if wrong := _wrong(item, spec):
            who = name if name.startswith(f"{self.noun} ") else f"{self.noun} {name}"
            raise InputError("bad-value", f"{who} {wrong}")
        return item

    def augment(
        self, rng: "np.random.Generator", spec: InputSpec, may_flip: bool, ranges: Ranges = USUAL
    ) -> Change | None:
        """A random change of an item that leaves its class; None: by default there are none."""
        return None

    def picture(self, item: np.ndarray) -> np.ndarray:
        """The item for people to see: uint8 (rows, columns, 1 or 3). By default its first channel, grey."""
        values = item[..., :1].astype(np.float64)
        span = float(np.ptp(values)) or 1.0
        return ((values - values.min()) * (255 / span)).astype(np.uint8)

    def chart(self, content: bytes) -> np.ndarray:
        """A whole file for people to see, without a network: as `picture`. By default it is blank."""
        return np.full((1, 1, 1), 235, np.uint8)

    def thumbnail(self, source: str | os.PathLike | bytes, side: int, name: str | None = None) -> np.ndarray:
        """The chart of a file, or of the bytes of one, as uint8 (side, side, 3); raises as `read` does."""
        from PIL import Image

        with named_errors(source, name, self.noun):
            chart = self.chart(source if isinstance(source, bytes) else content_of(source))
            image = Image.fromarray(chart[..., 0] if chart.shape[2] == 1 else chart)
            return np.array(image.convert("RGB").resize((side, side)))

    def whole_end(self, data: bytes) -> int | None:
        """The place behind the item that the bytes of a growing file begin with; None if more will come.

        Raises UnknownEndError if that cannot be known: then a file is whole if it stays as it is.
        """
        raise UnknownEndError

    def words(self, text: str) -> str:
        """`text`, which speaks of images, with the words for this kind."""
        return WORDS.sub(self._word, text)

    def _word(self, match: re.Match) -> str:
        article, many, verb, room = match.groups()
        noun = self.verb if verb else self.plural if many else self.noun
        word = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}" if article else noun
        if match[0][0].isupper():
            word = word.upper() if match[0].isupper() else word.capitalize()
        return f"{word:<{len(match[0]) - 2}}  " if room else word  # a column stays as wide as it was


def _wrong(item: np.ndarray, spec: InputSpec) -> str | None:
    """Why an array is not what `spec` describes: without a subject. None if it is."""
    if item.dtype != spec.dtype or item.shape != tuple(spec.shape):
        given, needed = (" x ".join(map(str, shape)) for shape in (item.shape, spec.shape))
        return f"is {given} {item.dtype}; it must be {needed} {spec.dtype}"
    if item.dtype.kind == "f" and (bad := int(item.size - np.isfinite(item).sum())):
        return f"has {bad} values that are NaN or infinite; remove it"
    return None


def content_of(path: str | os.PathLike, most: int = MOST_BYTES) -> bytes:
    """The bytes of a file, or the first of them. Raises InputError without naming it."""
    with regular_file(path) as file:
        content = file.read(most + 1)
    if most == MOST_BYTES < len(content):
        raise InputError("image-too-large", f"has more than {MOST_BYTES:,} bytes; make it shorter")
    return content
