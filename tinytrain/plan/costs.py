"""MACs of a recipe, by the formulas of the budget."""

import math

from tinytrain.network.lite_residual import with_branches
from tinytrain.network.network import Network
from tinytrain.network.node import reached, sources_of
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources, Update, trained_modules


def cut_layer(network: Network, updates: tuple[Update, ...]) -> int:
    """Index of the shallowest layer that is trained; the number of layers if none is.

    A module stands where its result is added: at the last layer of its block.
    """
    layers = [u.layer for u in updates if u.layer < len(network.layers)]
    modules = [module.last for module in trained_modules(network, updates)]
    return min([*layers, *modules], default=len(network.layers))


def image_macs(network: Network, updates: tuple[Update, ...]) -> int:
    """Backward MACs of one back-propagated image: dX of what lies behind something trained, dW of that."""
    if not updates:
        return 0
    modules = {*trained_modules(network, updates), *network.modules}
    nodes = with_branches(network.nodes, {network.layers[m.last].name: m for m in modules})
    sources, at = sources_of(nodes), {node.name: i for i, node in enumerate(nodes)}
    cut = network.layers[cut_layer(network, updates)].name
    found = reached(sources, at[cut], (at[network.all_layers[u.layer].name] for u in updates))
    grad_input = sum(nodes[i].passed_macs(tuple(k in found for k in sources[i])) for i in found)
    return grad_input + sum(weight_macs(network, u) for u in updates)


def weight_macs(network: Network, update: Update) -> int:
    """MACs of the gradient of an update's weights, for one image: one per weight and use of it."""
    return network.all_layers[update.layer].uses * update.n_weights(network)


def n_hard(share: float, n_images: int, looked_at: int | None = None) -> int:
    """Pseudo-queries that are back-propagated in a step of `n_images` that looks at so many (None: all).

    Never more than the share allows.
    """
    return max(1, min(looked_at or n_images, math.floor(share * n_images + 1e-9)))


def n_sampled(recipe: Recipe, n_images: int, looked_at: int | None = None) -> int:
    """Support images through which the gradient goes, in a step of `n_images` that looks at `looked_at`."""
    if recipe.step != "both":
        return 0
    return min(looked_at or n_images, math.floor(recipe.options.sampled_fraction * n_images + 1e-9))


def single_pass(recipe: Recipe, resources: Resources) -> bool:
    """Whether steps compute only what they back-propagate.

    Not without images that bring the prototypes up to date, and not if images without labels are looked at.
    """
    sampled = n_sampled(recipe, resources.step_support, resources.step_queries)
    return recipe.options.single_pass and sampled > 0 and not recipe.options.entropy


def n_unlabelled(recipe: Recipe, resources: Resources, task: TaskShape) -> int:
    """Query images that one step looks at without their labels."""
    return min(task.n_query, resources.step_queries) if recipe.options.entropy and recipe.updates else 0


def backward_macs_per_query(
    network: Network, recipe: Recipe, n_images: int, looked_at: int | None = None, unlabelled: int = 0
) -> float:
    """Backward MACs of one step divided by its images, each of which is a pseudo-query or stood for by one.

    Back-propagation through other images adds to the numerator, never to the denominator.
    """
    hard = n_hard(recipe.options.hard_fraction, n_images, looked_at)
    images = hard + unlabelled + n_sampled(recipe, n_images, looked_at)
    return image_macs(network, recipe.updates) * images / n_images


def macs_of(network: Network, recipe: Recipe, resources: Resources, task: TaskShape) -> tuple[float, int]:
    """Backward MACs of a recipe with these resources: per pseudo-query, and of the dearest image."""
    if not recipe.updates:
        return 0, 0
    others, images = n_unlabelled(recipe, resources, task), (resources.step_support, resources.step_queries)
    per_query = backward_macs_per_query(network, recipe, *images, others)
    return per_query, image_macs(network, recipe.updates)


def full_backward_macs(network: Network) -> int:
    """Backward MACs per image when everything is trained: 2 x forward."""
    return 2 * network.macs


def n_trained(network: Network, updates: tuple[Update, ...]) -> int:
    """Trained numbers, weights and biases."""
    return sum(u.n_weights(network) + u.n_biases(network) for u in updates)
