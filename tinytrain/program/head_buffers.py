"""What heads take: the views that they are fitted to, and the names of their arrays."""

from tinytrain.heads.head import ANSWERING, FITTING, UPDATING, HeadBuffer, HeadMethod
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources

# Of a small head, as a fraction of the values of one: so many take fewer bytes than half of their sums.
FEW_EMBEDDINGS = 1 / 4
HEAD_IMAGES = 125  # embeddings a head is fitted to, if they must be computed for it alone
SHARED_BY_HEADS = {"means": "class sums", "class counts": "class counts"}


def head_views(recipe: Recipe, resources: Resources, method: HeadMethod, n_support: int, size: int) -> range:
    """Views of every support image that a head of this method is fitted to, the clean one last.

    Cached ones, or usual ones made for it. `size` is that of an embedding.
    """
    if not method.sees_every_view:
        return range(1)
    fewer = max(1, int(FEW_EMBEDDINGS * size) // n_support) if resources.small_head else HEAD_IMAGES
    if fewer == 1:
        return range(1)
    if resources.sets >= 2:
        return range(min(fewer, resources.sets) - 1, -1, -1)
    return range(-max(1, min(recipe.views, HEAD_IMAGES // n_support, fewer - 1)), 1)


def head_buffer(b: HeadBuffer, head: str, tick: int, kept: bool) -> str:
    """Name of the program's buffer for `b` of `head`, fitted at `tick` to be `kept` or only to answer.

    Class sums and counts are there in any case: a head that needs its means no more computes them there. So
    are means of what is kept, as that may be cosine prototypes.
    """
    if passes(b, kept) and not (kept and b.name == "means"):
        return SHARED_BY_HEADS.get(b.name, f"{b.name} ({tick})")
    return f"{head if b.lifetime == ANSWERING else 'head result'}: {b.name}"


def passes(b: HeadBuffer, kept: bool) -> bool:
    """True if `b` can be freed after fitting or, for a `kept` head, after saving."""
    return b.lifetime == FITTING or (b.lifetime == UPDATING and not kept)


def own_before(recipe: Recipe, task: TaskShape) -> bool:
    """Whether the recipe's head is fitted to the network as it is: to predict queries by, or to be kept."""
    return not recipe.updates or task.n_query > 0
