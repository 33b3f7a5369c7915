"""How many of its images a step looks at, and what that costs."""

import math

import pytest

from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.planner.candidates import Programs, candidates
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.program.mac_counts import macs_by_part

NETWORK = toy_network()
TASKS = (TaskShape(12, 3, 15), TaskShape(120, 8, 40))


def test_a_step_that_looks_at_fewer_images_propagates_as_many_back_and_executes_less():
    def plan(shown: float):
        def made(*_):
            options = StepOptions(0.3, 0.2, shown)
            return Recipe("test", (Update(3, (0, 1)),), ((0.1, 0.1),), step="both", options=options)

        return Planner(NETWORK, TASKS[0], Policy("test", made, "")).plan(None)

    all_of_them, half = plan(1.0), plan(0.5)
    n = TASKS[0].n_support
    assert (all_of_them.resources.step_support, all_of_them.resources.step_queries) == (n, n)
    assert (half.resources.step_support, half.resources.step_queries) == (n, math.ceil(n / 2))
    assert half.cost.macs_per_query == all_of_them.cost.macs_per_query > 0
    executed = [
        macs_by_part(Programs(NETWORK, TASKS[0]).training(p.recipe, p.resources))["training"]
        for p in (half, all_of_them)
    ]
    assert executed[0] < 0.8 * executed[1]


@pytest.mark.parametrize("task", [TaskShape(60, 30), TaskShape(500, 43), TASKS[0]])
def test_a_step_looks_at_an_image_of_every_class_at_least(task):
    recipe = Recipe("test", (), (), step="both", options=StepOptions(shown_fraction=0.01))
    assert next(candidates(recipe, task)).step_queries == task.n_way
