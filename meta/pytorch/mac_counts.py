"""MACs that each side of the benchmark executes: counted on the Program, and by formula for PyTorch."""

from tinytrain.network.network import Network
from tinytrain.plan.costs import n_hard, n_sampled
from tinytrain.plan.recipe import Recipe
from tinytrain.program.compile import split_batches
from tinytrain.program.program import Program


def passes(program: Program, kind: str, count: int) -> int:
    """MACs of "embed" or "backward" over `count` images, split as the engine splits them."""
    r = program.resources
    shares = split_batches(count, r.accumulators, r.micro)
    sizes = (min(r.micro, count - first) for starts in shares for first in starts)
    return sum(program.segments[kind, n].all_macs for n in sizes)


def torch_backward(network: Network, trained: dict[int, bool], cut: int) -> int:
    """One image: gradients of the inputs behind `cut`, and of whole weights where `trained` is true."""
    inputs = sum(layer.macs for layer in network.layers[cut + 1 :])
    return inputs + sum(network.layers[i].macs for i, weight in trained.items() if weight)


def torch_plain(network: Network, recipe: Recipe, n_support: int) -> int:
    """Every step: all layers for support and pseudo-queries, gradient through both."""
    trained = {u.layer: bool(u.channels) for u in recipe.updates}
    one = network.macs + torch_backward(network, trained, min(trained))
    return recipe.steps * 2 * n_support * one


def torch_cached(network: Network, recipe: Recipe, n_support: int, start: int) -> int:
    """The layers from `start` on: once for the first prototypes, then forward and backward for each step."""
    trained = {u.layer: bool(u.channels) for u in recipe.updates}
    suffix = sum(layer.macs for layer in network.layers[start:])
    chosen = n_hard(recipe.options.hard_fraction, n_support) + n_sampled(recipe, n_support)
    step = chosen * (suffix + torch_backward(network, trained, min(trained)))
    return n_support * suffix + recipe.steps * step
