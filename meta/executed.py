"""MACs that a run executes, counted on the Program for this engine and by formula for PyTorch."""

from tinytrain.compile import Program, cached_whole, partition
from tinytrain.network import Network
from tinytrain.plan import Recipe, n_hard


def _segment(program: Program, name: str) -> int:
    return sum(call.macs for call in program.segments[name].calls) if name in program.segments else 0


def passes(program: Program, kind: str, count: int) -> int:
    """MACs of "embed" or "backward" over `count` pictures, split as the engine splits them."""
    r = program.detail["resources"]
    shares = partition(count, r.partitions, r.micro)
    return sum(_segment(program, f"{kind} {last - first}") for share in shares for first, last in share)


def filling(program: Program) -> int:
    """The frozen part for every view that is cached."""
    r, task = program.detail["resources"], program.detail["task"]
    return r.sets * task.n_support * _segment(program, "prefix")


def training(program: Program) -> int:
    """All steps of a program's recipe."""
    recipe, r = program.detail["recipe"], program.detail["resources"]
    hard = n_hard(recipe.hard_share, r.step_queries)
    step = passes(program, "embed", r.step_support) + passes(program, "embed", r.step_queries)
    step += passes(program, "backward", hard)
    computed = 0 if cached_whole(r) else r.step_queries + hard + (0 if r.sets else r.step_support)
    if recipe.step == "both":
        step += passes(program, "backward", r.step_support)
        computed += 0 if r.sets else r.step_support
    return recipe.steps * (step + computed * _segment(program, "prefix"))


def heads(program: Program) -> int:
    """Fitting the head before and after training: every cached view once, the clean pictures once more."""
    r, task = program.detail["resources"], program.detail["task"]
    return 2 * (r.sets + 1) * passes(program, "embed", task.n_support)


def torch_backward(network: Network, trained: dict[int, bool], cut: int) -> int:
    """One picture: gradients of the inputs behind `cut`, and of whole weights where `trained` is true."""
    inputs = sum(layer.macs for layer in network.layers[cut + 1 :])
    return inputs + sum(network.layers[i].macs for i, weight in trained.items() if weight)


def torch_plain(network: Network, recipe: Recipe, n_support: int) -> int:
    """Every step: all layers for support and pseudo-queries, gradient through both."""
    trained = {u.layer: bool(u.channels) for u in recipe.updates}
    one = network.macs + torch_backward(network, trained, min(trained))
    return recipe.steps * 2 * n_support * one


def torch_cached(network: Network, recipe: Recipe, n_support: int, start: int) -> int:
    """Every step: the layers from `start` on for all, once more and backward for the hardest."""
    trained = {u.layer: bool(u.channels) for u in recipe.updates}
    suffix = sum(layer.macs for layer in network.layers[start:])
    hard = n_hard(recipe.hard_share, n_support) * (suffix + torch_backward(network, trained, min(trained)))
    return recipe.steps * (2 * n_support * suffix + hard)
