"""The folder of a kit: wheels, compiled kernels, networks, units of systemd, a script that installs them."""

import contextlib
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tinytrain.backbones.catalogue import parts_of
from tinytrain.backbones.load import load_backbone
from tinytrain.base.errors import InputError, UsageError, one_line
from tinytrain.base.files import write_failed
from tinytrain.base.units import format_bytes
from tinytrain.kit.units import COMMANDS, unit
from tinytrain.network.file import save_network

DISTRIBUTION = "tinytrain-adapt"
PINNED = ("numba", "llvmlite", "numpy")  # kernels fit one version of these
VERSION = ".".join(platform.python_version_tuple()[:2])
MACHINE = "aarch64"
# pip takes exactly the tags that it is given.
PLATFORMS = [f"manylinux{tag}_{MACHINE}" for tag in ("2014", "_2_17", "_2_27", "_2_28")]
NOT_IN_A_WHEEL = (".*", "build", "dist", "docs", "results", "site", "tests", "*.egg-info", "__pycache__")
SECONDS = 1800
NAME = re.compile(r"\w[\w.-]*", re.ASCII)
MEMORY = 0.65  # of the board's for a service; the rest is for Linux


@dataclass(frozen=True)
class Device:
    """What a kit is for: `processor` is a name of `PROCESSORS`, `memory` is in bytes."""

    title: str
    processor: str
    memory: int


def make_kit(out: Path, device: Device, networks: Sequence[str], wheel: Path | None = None) -> dict:
    """Write the kit to the new folder `out` and return its facts; after an error nothing is left.

    It is for the minor version of this Python. `networks` are names or files. `wheel` is of this project, by
    default built from where it was installed from. Raises InputError ``download-failed``, UsageError,
    StorageError, and what `load_backbone` raises.
    """
    with _new_folder(out) as kit:
        for name in ("wheels", "kernels", "networks", "units"):
            (kit / name).mkdir()
        brought: dict[str, str] = {}
        for name in itertools.chain.from_iterable(map(parts_of, networks)):
            network = load_backbone(name)
            if not NAME.fullmatch(network.name):  # it becomes a part of the script
                raise InputError(
                    "bad-value", f"{name}: a network in a kit has a name of letters and digits alone"
                )
            if brought.setdefault(network.name, network.digest) != network.digest:
                why = f"another network of the kit is called {network.name}, too; leave one out"
                raise InputError("bad-value", f"{name}: {why}")
            save_network(network, kit / "networks" / f"{network.name}.safetensors")
        for name in COMMANDS:
            (kit / "units" / f"tinytrain-{name}.service").write_text(unit(name, int(device.memory * MEMORY)))
        _fetch_wheels(kit / "wheels", wheel)
        _compile_kernels(device.processor, kit / "kernels")
        files = _listed(kit)
        (kit / "SHA256SUMS").write_text("".join(f"{row['sha256']}  {row['file']}\n" for row in files))
        facts = _facts(device, kit, files)
        (kit / "install.sh").write_text(_script(facts))
        (kit / "install.sh").chmod(0o755)
    return facts


@contextlib.contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A folder that becomes `out` at the end. Raises UsageError if something is there."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError("usage", f"{out} is there and not empty; name a new folder")
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.absolute().parent) as folder:
            made = Path(folder) / "kit"
            made.mkdir()
            yield made
            os.replace(made, out)
    except OSError as error:
        raise write_failed(out, error) from error


def _fetch_wheels(folder: Path, wheel: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="tinytrain-") as work:
        project = str(wheel) if wheel else _own_wheel(Path(work))
        pinned = [f"{name}=={metadata.version(name)}" for name in PINNED]
        abi = f"cp{VERSION.replace('.', '')}"
        platforms = [word for tag in PLATFORMS for word in ("--platform", tag)]
        options = ["--only-binary=:all:", "--implementation", "cp", "--python-version", VERSION, "--abi", abi]
        options += ["--abi", "abi3", "--abi", "none", *platforms, "--dest", str(folder)]
        _pip("download", *options, f"{project}[web]", *pinned)


def _own_wheel(work: Path) -> str:
    """This project for pip: a wheel, built in `work` from the folder it was installed from, or its name."""
    said = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    url = urlsplit(json.loads(said)["url"] if said else "")
    source = Path(unquote(url.path))
    if url.scheme != "file" or not source.exists():
        return f"{DISTRIBUTION}=={metadata.version(DISTRIBUTION)}"
    if source.is_file():
        return str(source)
    # A copy, because building leaves its traces in the folder, and takes in those of earlier ones.
    copy = shutil.copytree(source, work / "source", ignore=shutil.ignore_patterns(*NOT_IN_A_WHEEL))
    _pip("wheel", "--no-deps", "--wheel-dir", str(work), str(copy))
    return str(next(work.glob("*.whl")))


def _compile_kernels(processor: str, folder: Path) -> None:
    """In a process of its own, which can compile for nothing else afterwards."""
    _run([sys.executable, "-m", "tinytrain.kit.kernels", processor, str(folder)], "the compiler", folder)


def _pip(*words: str) -> None:
    options = ["--quiet", "--no-input", "--disable-pip-version-check"]
    _run([sys.executable, "-m", "pip", words[0], *options, *words[1:]], "pip")


def _run(command: Sequence[str], who: str, folder: Path | None = None) -> None:
    """Raises InputError ``download-failed`` with what it said."""
    # Kernels that the device gets do not depend on settings of this machine.
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=clean, cwd=folder)
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        failed = done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        said, failed = [str(error)], True
    if failed:
        reason = next((line for line in said if line.startswith("ERROR")), said[-1])
        raise InputError("download-failed", f"{who} says: {one_line(reason, 250)}; no kit was written")


def _listed(kit: Path) -> list[dict]:
    paths = sorted(path for path in kit.rglob("*") if path.is_file())
    return [
        {
            "file": str(path.relative_to(kit)),
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in paths
    ]


def _facts(device: Device, kit: Path, files: list[dict]) -> dict:
    unpacked = 0
    for path in kit.glob("wheels/*.whl"):
        with zipfile.ZipFile(path) as archive:
            unpacked += sum(entry.file_size for entry in archive.infolist())
    return {
        "board": device.title,
        "processor": device.processor,
        "version": metadata.version(DISTRIBUTION),
        "python": VERSION,
        "unpacked": unpacked,
        "files": files,
    }


def names(files: Sequence[dict], folder: str) -> list[str]:
    """Of the files of a kit, those in one of its folders."""
    return [row["file"].partition("/")[2] for row in files if row["file"].startswith(f"{folder}/")]


def _script(facts: dict) -> str:
    units = names(facts["files"], "units")
    words = {
        "VERSION": facts["version"],
        "TITLE": re.sub(r"[`$\\]", r"\\\g<0>", facts["board"]),  # of a board file, perhaps of a stranger
        "PYTHON": facts["python"],
        "MACHINE": MACHINE,
        "WHEELS": str(len(names(facts["files"], "wheels"))),
        "UNPACKED": format_bytes(facts["unpacked"]),
        "NETWORKS": ", ".join(names(facts["files"], "networks")) or "none beside the one in the package",
        "UNITS": ", ".join(units),
        "UNIT": units[0],
    }
    text = Path(__file__).with_name("install.sh").read_text()
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
