"""A benchmark that takes a second: a toy network, generated signs, small episodes."""

import json
from types import SimpleNamespace

import toynets
import yaml

from tinytrain.modelfile import save_network

CELL = {
    "backbones": ["toy"],
    "packs": ["signs", "leaves"],
    "policies": ["none", "last_layer", "tinytrain"],
    "episodes": 3,
    "sampler": {"way": 3, "shots": 2, "queries": 3},
}


def content(folder, **changes) -> dict:
    """A matrix whose backbone `toy` lies in `folder`."""
    file = folder / "toy.safetensors"
    if not file.exists():
        save_network(toynets.toy("blocks"), file)
    backbones = {"toy": {"file": str(file)}}
    tuning = {
        "backbone": "toy",
        "packs": ["glyphs"],
        "episodes": 2,
        "grid": [0.5, 1, 2, 4],
        "sampler": CELL["sampler"],
    }
    return {"name": "toy", "backbones": backbones, "cells": [CELL], "tuning": tuning, **changes}


def write(folder, **changes):
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(content(folder, **changes)))
    return path


def options(matrix, log, **changes) -> SimpleNamespace:
    """What the command line gives to a session."""
    given = {
        "matrix": str(matrix), "out": str(log), "jobs": 1, "parallel": "loky", "scheduler": None,
        "backbone": [], "data": None, "policies": None, "packs": None, "backbones": None,
        "episodes": None, "rates": None,
        "any_code": False, "grid": None,
    }  # fmt: skip
    return SimpleNamespace(**(given | changes))


def lines(log) -> list[str]:
    """The records of a log without the seconds, sorted: what must not depend on how they were made."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return sorted(
        json.dumps({k: v for k, v in record.items() if k != "seconds"}, sort_keys=True) for record in records
    )
