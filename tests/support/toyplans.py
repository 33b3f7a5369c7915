"""Plans made with random scores, without an image being read."""

import numpy as np

from tinytrain.plan.budget import Budget
from tinytrain.plan.scores import Scores
from tinytrain.planner.feasible import probe_inside
from tinytrain.planner.fit import fit


def scores(network, inspected) -> Scores:
    rng = np.random.default_rng(0)
    return Scores({i: rng.random(network.layers[i].cout).astype("f") for i in inspected}, 1.0, 0, 0)


def plan_in(network, policy, memory, task):
    """(bytes of the probe, fitted plan), as `adapt` makes them before it trains, with made-up scores."""
    budget = Budget(memory)
    program = probe_inside(network, policy, budget, task)
    found = program and scores(network, program.inspected)
    return program.nbytes if program else 0, fit(network, policy, found, budget, task)
