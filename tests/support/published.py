"""Networks that were published, where their files are at hand."""

import os
from pathlib import Path

import pytest

from tinytrain.backbones.torch_checkpoint import import_checkpoint


def published_file(name: str) -> Path:
    if "TINYTRAIN_SHARED" not in os.environ:
        pytest.skip("set TINYTRAIN_SHARED to the folder with backbones/upstream/*.pkl")
    return Path(os.environ["TINYTRAIN_SHARED"]) / "backbones" / "upstream" / f"{name}.pkl"


def published_network(name: str):
    return import_checkpoint(published_file(name))
