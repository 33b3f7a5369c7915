"""What keeps an adaptation from being computed in int8."""

from tinytrain.network.network import Network
from tinytrain.plan.recipe import Recipe


def recipe_obstacle(network: Network, recipe: Recipe) -> str | None:
    """Why what `recipe` trains cannot be trained in int8; None if it can."""
    if any(u.layer >= len(network.layers) for u in recipe.updates):
        return "lite residual modules are to be trained, which int8 programs do not have"
    return None
