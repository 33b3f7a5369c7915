"""Every registered policy as it can run on the toy network, one size of each; a plain one; and some."""

from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies import registry, sparse_update
from tinytrain.policies.common import Policy, at_one_rate
from tinytrain.policies.sparse_update import Configuration
from tinytrain.policies.tinytl import modules_from


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


DENSE = 6  # layers of a block of a transformer


def part(name: str, updates_of) -> Policy:
    """A policy that trains what ``updates_of(network)`` gives, at one rate, or nothing."""
    return Policy(name, lambda network, *_: at_one_rate(name, updates_of(network), 1e-3), "none",
                  shrinks=False, macs_limited=False)  # fmt: skip


def pairs(blocks: int) -> Policy:
    """Pairs of low rank beside all dense layers of the last blocks."""
    return part(f"LoRA{blocks}", lambda net: modules_from(net, net.possible_modules[-DENSE * blocks].first))


def some_rows(network) -> tuple[Update, ...]:
    """40 % of the rows of the dense layers of the last block, and all of their biases."""
    dense = [i for i, x in enumerate(network.layers) if x.row.by_input and x.cout > 1][-DENSE:]
    return tuple(Update(i, tuple(range(2 * network.layers[i].cout // 5)), bias=True) for i in dense)


LORA1, LORA2, FT1 = pairs(1), pairs(2), part("FT1", some_rows)
