"""Toy networks and images as the files a user would have."""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from tinytrain.delta.file import encode_delta
from tinytrain.network.file import save_network
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import SIZE, toy_episode, toy_images, toy_network
from tinytrain.plan.budget import Budget


def write_network(folder: Path, seed: int = 0, name: str = "toy") -> Path:
    path = folder / f"{name}.safetensors"
    save_network(toy_network(seed, name), path)
    return path


def write_images(folder: Path, classes=("ant", "bee", "cat"), count: int = 6, seed: int = 0) -> Path:
    """A folder per class with `count` PNG files each; a class looks the same under every seed."""
    for label, name in enumerate(classes):
        looks = toy_images(np.full(count, label + ord(name[0]), np.int32), seed)
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            Image.fromarray(looks.read(i, SIZE)).save(folder / name / f"{seed}-{i}.png")
    return folder


def bare(report) -> bytes:
    """Every byte of a delta but its report."""
    return encode_delta(replace(report.delta, report={}))


def write_wheel(monkeypatch, folder: Path, package: str, files: dict[str, bytes]) -> Path:
    """A wheel of `package`, NAME==VERSION, with these files in it; pip looks in its new `folder` alone."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    name, version = package.replace("-", "_").split("==")
    folder.mkdir()
    path, meta = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member, data in files.items():
            file.writestr(f"{name}/{member}", data)
        file.writestr(f"{meta}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{meta}/RECORD", "")
    return path


def two_deltas(network):
    """Deltas of a network that was adapted to two toy episodes."""
    runs = [adapt(network, toy_episode(seed=seed), Budget(2**22), "last_layer", seed) for seed in (1, 2)]
    return [run.delta for run in runs]
