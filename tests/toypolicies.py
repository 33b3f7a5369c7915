"""Every registered policy as it can run on the toy network; other sizes of the same policy are left out."""

import os
from pathlib import Path

import pytest

from tinytrain import policies
from tinytrain.importer import import_checkpoint
from tinytrain.policies import sparse_update
from tinytrain.policies.sparse_update import Configuration


def configurations(network):
    """Two sizes of SparseUpdate for a network for which none was published."""
    last = len(network.layers) - 1
    return (
        Configuration(3, {last: 0.5}),
        Configuration(6, {last - 5: 1, last - 4: 0.5, last - 2: 0.25, last: 1}),
    )


POLICIES = {
    name: sparse_update.policy(name, configurations) if name == "sparse_update" else policy
    for name, policy in policies.POLICIES.items()
    if not name.startswith("sparse_update_")
}


def published_network(name):
    """A published network, if its file is at hand."""
    if "TINYTRAIN_SHARED" not in os.environ:
        pytest.skip("set TINYTRAIN_SHARED to the folder with backbones/upstream/*.pkl")
    return import_checkpoint(Path(os.environ["TINYTRAIN_SHARED"]) / f"backbones/upstream/{name}.pkl")
