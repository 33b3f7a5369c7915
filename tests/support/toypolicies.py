"""Every registered policy as it can run on the toy network, one size of each; and a plain one."""

from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies import registry, sparse_update
from tinytrain.policies.common import Policy
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


def whole_layers(rate: float = 0.1, head: str = "lda") -> Policy:
    """A policy that trains all of the toy network from its middle on."""

    def recipe(network, *_):
        layers = range(6, len(network.layers))
        updates = tuple(Update(i, tuple(range(network.layers[i].cout)), bias=True) for i in layers)
        rates = ((rate, rate),) * len(updates)
        return Recipe("test", updates, rates, "sgd", "constant", steps=12, head=head, views=3)

    return Policy("test", recipe, "none", macs_limited=False)
