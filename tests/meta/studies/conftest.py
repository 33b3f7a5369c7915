"""Networks and options that small runs of studies share."""

from pathlib import Path

import pytest
from int8nets import toy8
from toyfiles import write_network

from tinytrain.meta.studies.study import read_study
from tinytrain.network.file import save_network


@pytest.fixture(scope="session")
def toy_file(tmp_path_factory) -> str:
    return str(write_network(tmp_path_factory.mktemp("toy")))


@pytest.fixture(scope="session")
def toy8_file(tmp_path_factory) -> str:
    """A network with codes for int8."""
    path = tmp_path_factory.mktemp("toy8") / "net.safetensors"
    save_network(toy8("headed"), path)
    return str(path)


@pytest.fixture
def log(tmp_path) -> Path:
    """The log of the run."""
    return tmp_path / "log.jsonl"


@pytest.fixture
def rows(log):
    """A function that returns the rows of the log."""
    return lambda: read_study(log)


@pytest.fixture
def logged(toy_file, log) -> list[str]:
    """Options of a study of the toy network."""
    return ["--backbone", toy_file, "--out", str(log)]
