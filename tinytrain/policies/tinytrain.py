"""The default policy: middle expand convolutions with their biases, hardest pseudo-queries, cut by search."""

from tinytrain.network import Network
from tinytrain.plan import Budget, Recipe, TaskShape, Update, full_backward_macs
from tinytrain.policies.common import Policy, rates_by_size, scaled
from tinytrain.probe import Scores

HARD_SHARE = 0.6


def expand_layers(network: Network) -> tuple[int, ...]:
    """Pointwise convolutions that open a block."""
    return tuple(
        i
        for i, layer in enumerate(network.layers)
        if layer.kind == "pointwise" and layer.relu6 and network.block_start(i) == i
    )


def inspected(network: Network) -> tuple[int, ...]:
    first = network.layers[-1].block - 7
    return tuple(i for i in expand_layers(network) if network.layers[i].block >= first)


def static(network, budget, cut, layers, hard):
    """Whole layers from the cut on, in order, the last one partly, all biases."""
    limit = budget.macs * full_backward_macs(network) / hard
    left = limit - sum(layer.macs for layer in network.layers[cut + 1 :])
    chosen = {}
    for i in layers:
        layer = network.layers[i]
        k = min(layer.cout, int(left / layer.macs * layer.cout))
        if k < 8:
            continue
        chosen[i] = k
        left -= layer.macs * k / layer.cout
    return chosen


PARAMS = {
    "layers": (21, 24, 30),
    "hard": 0.6,
    "optimizer": "adam",
    "rate": 0.02,
    "rule": "l2",
    "head": "lda",
    "views": 8,
}


def recipe(network: Network, scores: Scores, budget: Budget, task: TaskShape, share: float) -> Recipe:
    P = PARAMS
    cut = P["layers"][0]
    chosen = static(network, budget, cut, P["layers"], P["hard"])
    updates = []
    for i in range(cut, len(network.layers)):
        channels = ()
        if i in chosen:
            w = network.float_weight(i)
            key = -(w * w).sum(0) if P["rule"] == "l2" else -scores.fisher[i]
            channels = tuple(int(c) for c in key.argsort(kind="stable")[: chosen[i]])
            if len(channels) == network.layers[i].cout:
                channels = tuple(sorted(channels))
        updates.append(Update(i, channels, True))
    updates = scaled(network, tuple(updates), share)
    rates = (
        ((P["abs"], P["abs"]),) * len(updates) if "abs" in P else rates_by_size(network, updates, P["rate"])
    )
    return Recipe(
        "tinytrain", updates, rates, P["optimizer"], "constant", P["hard"],
        P.get("steps", 40), 10.0, P["head"], P["views"],
    )  # fmt: skip


POLICY = Policy("tinytrain", recipe, "this project", inspects=inspected)
