"""A benchmark that takes a second: a toy network, generated signs, small episodes."""

import json
from types import SimpleNamespace

import toynets
import yaml

from tinytrain.network.file import save_network

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


def written(path, *records, torn=""):
    """`path`, to which a log of these records is written, and behind them what a kill may leave."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + torn)
    return path


def lines(log) -> list[str]:
    """The records of a log without the seconds, sorted: what must not depend on how they were made."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return sorted(
        json.dumps({k: v for k, v in record.items() if k != "seconds"}, sort_keys=True) for record in records
    )


def record(label="none", pack="gtsrb", episode=0, after=0.8, **changes) -> dict:
    """A line of a log."""
    costs = {"arena": 1000, "paper": 2000, "batch_1": 3000, "batch_100": 4000, "trained_parameters": 5}
    macs = {"backward_per_sample": 30.0, "backward_per_query": 20.0, "full_backward": 100, "total": 500}
    made = {
        "backbone": "mcunet-5fps",
        "backbone_digest": "d",
        "pack": pack,
        "sampler": "5-way 5-shot, 10 queries",
        "episode": episode,
        "seed": 100 + episode,
        "label": label,
        "policy": label,
        "rate_scale": 1.0,
        "budget": 10**6,
        "macs_share": 0.15,
        "code": "abc",
        "head": "cosine",
        "accuracy": {"before_cosine": 0.5, "before": 0.6, "after": after},
        "memory": costs,
        "macs": macs,
        "seconds": {"probe": 0.5, "training": 1.5, "total": 2.0, "wall": 2.1},
    }
    return made | changes
