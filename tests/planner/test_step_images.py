"""How many images a step computes, and what that costs."""

import pytest

from tinytrain.pipeline.toy import toy_network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.planner.candidates import Programs
from tinytrain.planner.planner import Planner
from tinytrain.policies.common import Policy
from tinytrain.program.mac_counts import macs_by_part

NETWORK = toy_network()
TASKS = (TaskShape(12, 3, 15), TaskShape(120, 8, 40))


@pytest.mark.parametrize("task", TASKS)
def test_a_step_of_a_single_pass_propagates_as_many_images_back_and_executes_less(task):
    def plan(single: bool):
        def made(*_):
            options = StepOptions(0.3, 0.2, single)
            return Recipe("test", (Update(3, (0, 1)),), ((0.1, 0.1),), step="both", options=options)

        return Planner(NETWORK, task, Policy("test", made, "")).plan(None)

    single, double = plan(True), plan(False)
    assert single.cost.macs_per_query == double.cost.macs_per_query > 0
    assert single.cost.arena <= double.cost.arena
    executed = [
        macs_by_part(Programs(NETWORK, task).training(p.recipe, p.resources))["training"]
        for p in (single, double)
    ]
    assert executed[0] < 0.6 * executed[1]
