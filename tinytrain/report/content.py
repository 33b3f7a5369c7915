"""The parts of a report as JSON values, also valid before training."""

import math
import platform
from dataclasses import asdict

import numpy as np

from tinytrain import __version__
from tinytrain.backbones.catalogue import EARLIER, SHIPPED
from tinytrain.base.answer import with_old_keys
from tinytrain.base.statistics import paired_difference
from tinytrain.base.units import finite_or_none
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Episode
from tinytrain.guard.estimate import Estimate, cross_validated, held_out
from tinytrain.guard.guard import Verdict
from tinytrain.kernels.compile_cache.facts import library_version
from tinytrain.network.committee import Committee, members_of
from tinytrain.network.input_spec import IMAGE, InputSpec
from tinytrain.network.network import Network, frozen_bytes
from tinytrain.plan.costs import n_trained, single_pass
from tinytrain.plan.plan import Plan
from tinytrain.plan.published_costs import full_backward_macs, paper_memory
from tinytrain.plan.recipe import Recipe
from tinytrain.plan.scores import Scores
from tinytrain.program.calls import Role
from tinytrain.program.mac_counts import macs_by_part
from tinytrain.program.program import Program
from tinytrain.runtime.adaptation import RunFacts
from tinytrain.runtime.answers import Answers
from tinytrain.runtime.schedule import reach


def accuracy(labels: np.ndarray, answers: Answers, left_out: float | None) -> dict:
    """Fractions of the queries that each answer got right; None without queries."""
    return {
        "before": share_right(labels, answers.before),
        "before_cosine": share_right(labels, answers.before_cosine),
        "after": share_right(labels, answers.after),
        "difference": paired_difference(answers.before == labels, answers.after == labels),
        "n_query": len(labels),
        "left_out": left_out,
        "withheld": share_right(labels, answers.withheld),
        "named": named(labels, answers),
    }


def named(labels: np.ndarray, answers: Answers) -> dict[str, float] | None:
    """What `predict` says of the queries, as fractions: named rightly or wrongly, or left open."""
    if not len(labels):
        return None
    right, named = answers.after == labels, answers.named
    shares = {"right": right & named, "open": ~named, "wrong": ~right & named}
    return {name: float(chosen.mean()) for name, chosen in shares.items()}


def estimate(labels: np.ndarray, answers: Answers, delta: Delta, guard: Verdict) -> Estimate:
    """How often `delta` is expected to be right on new images; `labels` are those of the queries."""
    if len(delta.class_names) == 1:
        why = "one class cannot be mistaken for another"
        return Estimate(None, None, None, "unknown", "unadapted", 0, None, why)
    if not len(labels):
        return cross_validated(guard.left_out)
    return held_out(int((answers.after == labels).sum()), len(labels), delta.is_trained, guard.left_out)


def normal(delta: Delta) -> dict:
    """Of a delta of one class: the fraction of images, each left out once, that are taken for normal.

    Scores above the threshold are unknown; a `typical` one is the mean of left-out images. Empty if there
    are several classes.
    """
    found = delta.head.normal()
    return {"normal": {"accepted": delta.head.left_out, **found._asdict()}} if found else {}


def time_given(plan: Plan, used: float | None) -> dict:
    """The seconds that an adaptation was given, and those that it `used`; empty if there was no limit."""
    return {} if used is None else {"time": {"asked": plan.budget.seconds, "used": used}}


def share_right(labels: np.ndarray, predicted: np.ndarray | None) -> float | None:
    """Share of the queries that were got right; None without queries or predictions."""
    return float((predicted == labels).mean()) if predicted is not None and len(labels) else None


def queries(episode: Episode, answers: Answers) -> list[dict]:
    """One row per query image: its class, the answers before and after, and the confidence in the last."""
    names, query = episode.class_names, episode.query
    rows = zip(query.names, query.labels, answers.before, answers.after, answers.confidence, strict=True)
    return [
        {"name": name, "class": names[label], "before": names[b], "after": names[a], "confidence": float(c)}
        for name, label, b, a, c in rows
    ]


def layers(network: Network | Committee) -> list[dict]:
    """One row per layer of the network, trained or not, in order; of a committee one member after another."""
    rows, first = [], 0
    for member in members_of(network):
        rows += [
            {"name": layer.name, "kind": layer.op, "block": first + layer.block, "channels": layer.cout}
            for layer in member.layers
        ]
        first = rows[-1]["block"] + 1
    return rows


def versions() -> dict[str, str | None]:
    """Of this package, of Python and of the libraries that compute; None for one that is not installed."""
    numba = library_version("numba")
    return {
        "tinytrain": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": None if numba == "none" else numba,
    }


def describe_episode(episode: Episode) -> dict:
    return {
        "source": episode.source,
        "digest": episode.digest,
        "classes": list(episode.class_names),
        "shots": episode.shots.tolist(),
        "n_support": len(episode.support),
        "n_query": len(episode.query),
        "may_flip": episode.may_flip,
        **({} if episode.support.kind == IMAGE else {"kind": episode.support.kind}),
    }


def is_unseen(network: Network, episode: Episode) -> bool:
    """True for images of a generated domain that no stage of a shipped backbone's training saw."""
    domain = episode.source.partition(":")[0]
    unseen = {row.digest: row.unseen for row in (SHIPPED, *EARLIER)}
    return episode.generated and domain in unseen.get(network.digest, ())


def describe_resources(plan: Plan) -> dict:
    """How the plan spends its bytes, beside the optimizer and the head that it ended up with."""
    recipe, r = plan.recipe, plan.resources
    facts = {
        "cached_sets": r.sets,
        "micro_batch": r.micro,
        "workers": r.workers,
        "step_support": r.step_support,
        "step_queries": r.step_queries,
        "steps": recipe.n_steps if recipe.updates else 0,
        "step": recipe.step,
        "single_pass": single_pass(recipe, r),
        "hard_fraction": recipe.options.hard_fraction,
        "sampled_fraction": recipe.options.sampled_fraction if recipe.step == "both" else 0.0,
        "optimizer": recipe.optimizer,
        "augmentation": asdict(reach(plan)),
        "resample_channels": recipe.options.resample_channels,
        "rates": [[finite_or_none(rate) for rate in pair] for pair in recipe.rates],
        "head": recipe.head,
    }
    return with_old_keys(facts)


def _item_bytes(spec: InputSpec) -> int:
    return math.prod(spec.shape) * np.dtype(spec.dtype).itemsize


def memory(network: Network, plan: Plan, program: Program, result: int | None = None) -> dict:
    """Bytes: the limit, the arena that was placed, the published formula, and what no budget limits.

    `result` is what the delta keeps of the arena, None before there is one.
    """
    updates = plan.recipe.updates if plan.recipe.n_steps else ()
    updated = sum(u.n_weights(network) for u in updates)
    added = program.network.added.values()
    outside = {
        "frozen_weights": frozen_bytes(network),
        "working_copy": _copy_bytes(program) + 4 * sum(a.size for pair in added for a in pair),
        "support_images": _item_bytes(network.input) * plan.task.n_support,
    }
    facts = {
        "budget": plan.budget.memory,
        "arena": plan.cost.arena,
        **({} if result is None else {"delta": result}),
        **replay_bytes(program),
        "paper": paper_memory(network.layers, updated),
        "trained_parameters": n_trained(network, updates),
        "precision": plan.recipe.precision,
        "outside": with_old_keys(outside),
    }
    return with_old_keys(facts)


def _copy_bytes(program: Program) -> int:
    """Of weights and biases as the kernels read them."""
    layers = program.network.layers
    weights, channels = sum(layer.n_weights for layer in layers), sum(layer.cout for layer in layers)
    return program.backend.copy_bytes(weights, channels)


def replay_bytes(program: Program) -> dict:
    """Of these bytes those of the features that are kept for later, if any are."""
    kept = sum(b.nbytes for b in program.buffers.values() if b.role is Role.KEPT_FEATURES)
    return {"replay": kept} if kept else {}


def planned_macs(network: Network, plan: Plan) -> dict:
    """Backward MACs per pseudo-query on average, of the dearest image, and of training everything.

    `limits` names the one that the budget's `limit` holds for; both are None for a policy without a limit.
    """
    full = full_backward_macs(network.layers)
    limits = {None: None, "query": "backward_per_query", "image": "dearest_image"}
    facts = {
        "limit": None if plan.macs_limit is None else plan.budget.macs * full,
        "limits": limits[plan.macs_limit],
        "backward_per_query": plan.cost.macs_per_query,
        "dearest_image": plan.cost.macs_per_image,
        "full_backward": full,
    }
    return with_old_keys(facts)


def executed_macs(program: Program, scores: Scores | None, ran: RunFacts) -> dict[str, int]:
    """MACs by stage: probe, features (the frozen part, cached), heads and training.

    If all but the training was repeated, this counts twice; without a step there was no training.

    Forward, recomputed and backward alike. Predicting the queries is no part of an adaptation; fitting the
    head by which the unadapted network predicts them is.
    """
    counted = macs_by_part(program)
    parts = ("features", "heads", "training")
    times = {part: bool(ran.losses) if part == "training" else 1 + ran.repeated for part in parts}
    return {"probe": scores.macs if scores else 0} | {p: n * counted.get(p, 0) for p, n in times.items()}


def similarity(scores: Scores | None) -> float | None:
    """How alike images of different classes are to the backbone, None where nothing was measured."""
    return finite_or_none(scores.similarity) if scores else None


def selection(network: Network, recipe: Recipe, scores: Scores | None) -> list[dict]:
    """One row per updated layer: which output channels, and their fraction of the layer's Fisher information.

    `inputs` names the input channels to which their weights are limited, None for all.
    """
    rows = []
    for u in recipe.updates if recipe.n_steps else ():
        layer, channels = network.all_layers[u.layer], sorted(u.channels)
        fisher = scores.fisher.get(u.layer) if scores else None
        fraction = None
        if fisher is not None and channels and fisher.sum() > 0:
            fraction = float(fisher[channels].sum() / fisher.sum())
        row = {
            "layer": u.layer,
            "name": layer.name,
            "kind": layer.op,
            "channels": channels,
            "n_channels": len(channels),
            "of": layer.cout,
            "inputs": None if u.inputs is None else sorted(u.inputs),
            "bias": u.bias,
            "fisher_fraction": fraction,
        }
        rows.append(with_old_keys(row))
    return rows
