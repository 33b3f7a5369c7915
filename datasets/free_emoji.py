"""Emoji as classes: a thing drawn flat, shaded, in space and as a line drawing, by four packages of npm.

``tinytrain data pack free_emoji.npz free_emoji:DIR`` makes a pack of the files that ``npm pack`` left in DIR.
What the benchmarks have, and what means its form (signs, letters, flags, gestures), is left out.
"""

import hashlib
import io
import json
import re
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.datasets.dataset import Dataset, Provenance
from tinytrain.episode.decode import fit, load_image

NAME = "free_emoji"


@dataclass(frozen=True)
class Package:
    """A package of npm, the sha256 of its file, and a pattern for the members that are read."""

    name: str
    version: str
    sha256: str
    licence: str
    author: str
    members: str

    @property
    def file(self) -> str:
        """What ``npm pack`` calls it."""
        return f"{self.name.lstrip('@').replace('/', '-')}-{self.version}.tgz"

    @property
    def command(self) -> str:
        return f"npm pack {self.name}@{self.version}"


PACKAGES = {
    "fluent": Package(
        "@lobehub/fluent-emoji-3d", "1.1.0",
        "c1bb7eee7de090205a232518a9ab4adb3df458bfbe8a1f78232991194c8b2e58",
        "MIT", "Microsoft, Fluent Emoji",
        r"package/assets/(.+)\.webp",
    ),
    "google": Package(
        "emoji-datasource-google", "16.0.0",
        "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
        "Apache-2.0", "Google, Noto Emoji",
        r"package/(?:img/google/64/(.+)\.png|emoji\.json)",
    ),
    "openmoji": Package(
        "openmoji", "13.1.0",
        "49e28f8f2a8909132aefda81f9dc7aa487ad930b0e056076d575cd607fa99f8d",
        "CC BY-SA 4.0", "OpenMoji", r"package/font/OpenMoji-Black\.ttf"
    ),
    "twitter": Package(
        "emoji-datasource-twitter", "16.0.0",
        "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
        "CC BY 4.0", "Twitter, Twemoji",
        r"package/img/twitter/64/(.+)\.png",
    ),
}  # fmt: skip
LICENCES = ", ".join(package.licence for package in PACKAGES.values())
CITATIONS = "; ".join(package.author for package in PACKAGES.values())

LIST, FONT = "package/emoji.json", "package/font/OpenMoji-Black.ttf"
DROPPED_CATEGORIES = {"People & Body", "Flags", "Component"}
DROPPED_KINDS = {
    "keycap", "alphanum", "transport-sign", "warning", "plant-flower", "gender", "religion", "zodiac", "math",
    "punctuation", "currency", "skin-tone", "time", "arrow", "av-symbol", "geometric",
}  # fmt: skip
DROPPED = {
    "dog", "dog2", "guide_dog", "service_dog", "poodle", "wolf", "elephant", "mammoth", "giraffe_face",
    "guitar", "horse", "racehorse", "zebra_face", "house", "house_with_garden", "derelict_house_building",
    "house_buildings", "octagonal_sign", "vertical_traffic_light", "traffic_light", "construction",
    "carousel_horse", "chess_pawn",
}  # fmt: skip
SELECTOR = "FE0F"  # asks for the coloured form of a character
HEIGHT, CANVAS = 400, 460  # pixels of a character of the font, and of the sheet around it


def open_free_emoji(folder: Path) -> Dataset:
    """All classes of two styles or more, by name; the images of a class are its styles.

    Raises InputError ``file-missing`` for packages that are not there, with the commands that get them, and
    ``file-damaged`` for a file that is not the one that was listed.
    """
    held = _opened(folder)
    glyphs = _Glyphs(held["openmoji"][FONT])
    entries = sorted(_wanted(json.loads(held["google"][LIST])), key=lambda entry: entry["short_name"])
    names, labels, class_names, read = [], [], [], []
    for entry in entries:
        styles = _styles(entry, held, glyphs)
        if len(styles) < 2:
            continue
        class_name = entry["short_name"].replace("/", "_")
        for style in sorted(styles):
            labels.append(len(class_names))
            names.append(f"{class_name}/{style}")
            read.append(styles[style])
        class_names.append(class_name)
    return Dataset(
        name=NAME,
        labels=np.array(labels, dtype=np.int32),
        class_names=tuple(class_names),
        names=tuple(names),
        read=lambda i, size: read[i](size),
        may_flip=True,
        provenance=Provenance(licence=LICENCES, citation=CITATIONS),
    )


class _Glyphs:
    """The characters of a font, black on white."""

    def __init__(self, content: bytes):
        from PIL import ImageFont

        self.small = ImageFont.truetype(io.BytesIO(content), 24)
        self.large = ImageFont.truetype(io.BytesIO(content), HEIGHT)
        self.unknown = bytes(self.small.getmask(chr(0x10FFFD)))

    def has(self, character: str) -> bool:
        return bytes(self.small.getmask(character)) != self.unknown

    @cache  # noqa: B019  a font lives as long as the dataset that reads from it
    def drawn(self, character: str) -> np.ndarray:
        """uint8 (CANVAS, CANVAS)."""
        from PIL import Image, ImageDraw

        sheet = Image.new("L", (CANVAS, CANVAS), 255)
        middle = (CANVAS / 2, CANVAS / 2)
        ImageDraw.Draw(sheet).text(middle, character, font=self.large, fill=0, anchor="mm")
        return np.asarray(sheet)


def _wanted(entries: list[dict]):
    for entry in entries:
        kinds = entry["category"] in DROPPED_CATEGORIES or entry["subcategory"] in DROPPED_KINDS
        if not kinds and entry["short_name"] not in DROPPED:
            yield entry


def _styles(entry: dict, held: dict, glyphs: _Glyphs) -> dict:
    """How to read each style that there is of an emoji, by the name of the package."""
    plain = [code for code in entry["unified"].split("-") if code != SELECTOR]
    stem, short = entry["image"].removesuffix(".png"), "-".join(plain).lower()
    files = {
        "fluent": [f"package/assets/{name}.webp" for name in (entry["unified"].lower(), short)],
        "google": [f"package/img/google/64/{stem}.png"],
        "twitter": [f"package/img/twitter/64/{stem}.png"],
    }
    styles = {}
    for style, wanted in files.items():
        found = [held[style][file] for file in wanted if file in held[style]]
        if found:
            styles[style] = lambda size, content=found[0], file=wanted[0]: load_image(content, size, file)
    character = chr(int(plain[0], 16))
    if len(plain) == 1 and glyphs.has(character):
        styles["openmoji"] = lambda size: fit(glyphs.drawn(character), size)
    return styles


def _opened(folder: Path) -> dict[str, dict[str, bytes]]:
    """The members that are read of every package, by name."""
    if missing := [p for p in PACKAGES.values() if not (folder / p.file).is_file()]:
        commands = "; ".join(package.command for package in missing)
        raise InputError(
            "file-missing", f"{str(folder)!r} lacks {len(missing)} packages; run there: {commands}"
        )
    return {style: _members(folder / package.file, package) for style, package in PACKAGES.items()}


def _members(path: Path, package: Package) -> dict[str, bytes]:
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != package.sha256:
            raise InputError(
                "file-damaged",
                f"{str(path)!r} is not the file that was listed; run {package.command} again",
            )
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r:gz") as archive:
            return {
                m.name: archive.extractfile(m).read()
                for m in archive
                if re.fullmatch(package.members, m.name)
            }
