"""Multiply-accumulates that one adaptation executes, counted from the calls of its compiled segments."""

from tinytrain.plan.costs import n_hard, n_through, n_unlabelled
from tinytrain.plan.scores import Scores
from tinytrain.program.compile import own_before
from tinytrain.program.program import Program
from tinytrain.runtime.session import head_views


def executed(program: Program, scores: Scores | None, n_support: int) -> dict[str, int]:
    """MACs by stage: probe, features (the frozen part, cached), heads and training.

    Forward, recomputed and backward alike. Predicting the queries is no part of an adaptation; fitting the
    head by which the unadapted network predicts them is.
    """
    cost, trains = _Cost(program), bool(program.recipe.updates)
    own = own_before(program.recipe, program.task)
    return {
        "probe": scores.macs if scores else 0,
        "features": program.resources.sets * n_support * cost.prefix,
        "heads": _heads(cost, n_support, own) + (_heads(cost, n_support, True) if trains else 0),
        "training": _training(cost, n_support) if trains else 0,
    }


class _Cost:
    """MACs of one image: `prefix` of the frozen part, `embed` behind it, `backward` with its forward."""

    def __init__(self, program: Program):
        self.program, segments = program, program.segments
        self.prefix = _macs(segments["prefix"]) if "prefix" in segments else 0
        self.embed = _macs(segments["embed 1"])
        backward = [s for name, s in segments.items() if name.startswith("backward")]
        self.backward = _macs(backward[0]) // backward[0].n if backward else 0

    def load(self, view: int) -> int:
        """Getting the features of a view: from the cache, or by the frozen part."""
        return 0 if 0 <= view < self.program.resources.sets else self.prefix


def _macs(segment) -> int:
    return sum(call.macs for call in segment.calls)


def _heads(cost: _Cost, n: int, own: bool) -> int:
    """Cosine prototypes for the guard and, if `own`, the policy's head: every view of every image.

    Where a step has no room for all of them, each head looks at the clean ones again, to leave each out.
    """
    kind = cost.program.recipe.head if own else "cosine"
    looks = 1 if n <= cost.program.resources.step_support else 2 if kind == "cosine" else 4
    shown = [*head_views(cost.program, kind, n), *[0] * (looks - 1)]
    return n * sum(cost.embed + cost.load(view) for view in shown)


def _training(cost: _Cost, n: int) -> int:
    recipe, r = cost.program.recipe, cost.program.resources
    # Without two cached sets every step draws views of its own, and their features are computed.
    fresh = cost.load(1) if r.sets < 2 else 0
    step = r.step_support * (cost.embed + cost.load(0)) + r.step_queries * (cost.embed + fresh)
    step += n_hard(recipe.options.hard_fraction, r.step_queries) * (cost.backward + fresh)
    step += n_unlabelled(recipe, r, cost.program.task) * (cost.embed + cost.backward + 2 * cost.prefix)
    step += n_through(recipe, r.step_support) * (cost.backward + cost.load(0))
    first_prototypes = n * (cost.embed + cost.load(0)) if r.step_support < n else 0
    return recipe.steps * step + first_prototypes
