"""Plans: with random scores, without an image being read, and as `adapt` makes them."""

import numpy as np

from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.scores import Scores
from tinytrain.planner.planner import Planner
from tinytrain.runtime.device import Device


def scores(network, inspected) -> Scores:
    rng = np.random.default_rng(0)
    return Scores({i: rng.random(network.layers[i].cout).astype("f") for i in inspected}, 1.0, 0, 0)


def plan_in(network, policy, memory, task):
    """(bytes of the probe, program of the plan), as `adapt` makes them, with made-up scores."""
    planner = Planner(network, task, policy, Budget(memory))
    program = planner.probe()
    found = program and scores(network, program.inspected)
    return program.nbytes if program else 0, planner.program(planner.plan(found))


def planned(network, episode, budget=None, policy="tinytrain", seed=0, device=None):
    """(scores, plan) of `adapt` with these arguments, without training."""
    planner = Planner(network, TaskShape.of(episode), policy, budget)
    with (device or Device()).open(network, episode, seed) as run:
        scores = run.measure_fisher(planner.probe())
        return scores, planner.plan(scores)
