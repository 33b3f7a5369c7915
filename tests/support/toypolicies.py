"""Every registered policy as it can run on the toy network; other sizes of the same policy are left out."""

from tinytrain.policies import registry, sparse_update
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
    for name, policy in registry.POLICIES.items()
    if not name.startswith("sparse_update_")
}
