import os

import pytest
from commandline import tt
from toyfiles import write_images, write_network
from watching import CLASSES, backbone


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A network, images of three classes and of a fourth one, and a delta of the three."""
    root = tmp_path_factory.mktemp("watch")
    write_network(root)
    write_images(root / "photos", CLASSES, count=5)
    write_images(root / "new", (*CLASSES, "dog"), count=4, seed=1)
    write_images(root / "more", CLASSES, count=4, seed=2)
    words = ("adapt", root / "photos", *backbone(root), "--policy", "none", "--budget", "400kB")
    assert tt(*words, "--out", root / "d.safetensors", "--force", "-q") == 0
    return root


@pytest.fixture
def place(made, tmp_path):
    """A folder of its own with the delta and the network."""
    for name in ("d.safetensors", "toy.safetensors"):
        os.link(made / name, tmp_path / name)
    return tmp_path
