"""What a microcontroller runs: the programs of a plan, without what only a Python process needs.

Images stay where the caller has them, trained parameters stay in the arena and lie over the weights in flash,
and moments are read one by one, so that some buffers are not placed at all.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from tinytrain.base.errors import UsageError
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import macs_of
from tinytrain.plan.plan import Cost, Plan
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.compile import compile_fisher, compile_training
from tinytrain.program.memory_planner import Interval, place
from tinytrain.program.program import Program
from tinytrain.program.ticks import PREDICT

# Beginnings of the names of buffers that are not placed.
NOT_PLACED = (
    "image (",  # the caller's image is read where it lies
    "augmented image (queries)",  # what is recognised is not augmented
    "optimizer workspace",  # a moment becomes a float when it is used
    "result",  # the trained parameters themselves stay
    "beside the arena",  # what numpy and Python take
    "left out",  # evidence of the guard, which is not emitted
)
HEADS = {"lda": "head_lda.c", "mild-lda": "head_lda.c", "cosine": "head_cosine.c"}  # and their files
KEPT = "trained parameters"
MOST_WAYS = 250  # labels and counts of a class are bytes in tables


@dataclass(frozen=True, eq=False)
class Device:
    """The programs of a plan as a device runs them; `shots` images of each of `ways` classes.

    `probe` measures Fisher information, None if the plan names the channels itself.
    """

    network: Network
    recipe: Recipe
    ways: int
    shots: int
    probe: Program | None
    training: Program

    @cached_property
    def arena(self) -> int:
        """Bytes of the arena: of the larger program."""
        return max(self.training.nbytes, self.probe.nbytes if self.probe else 0)

    @property
    def support(self) -> int:
        return self.ways * self.shots


def for_one_core(plan: Plan, network: Network, programs) -> Plan:
    """`plan` with quotas in place of channels, for one worker that computes an image at a time.

    `programs` is a `planner.candidates.Programs` of the task, which says how many bytes that takes.
    """
    recipe = replace(plan.recipe, options=replace(plan.recipe.options, quotas=True))
    r = plan.resources
    resources = Resources(r.sets, 1, 1, r.step_support, r.step_queries, small_head=r.small_head)
    arena = programs.nbytes(recipe, resources)
    cost = Cost(arena, *macs_of(network, recipe, resources, plan.task))
    return replace(plan, recipe=recipe, resources=resources, cost=cost, row_tile=None)


def device_of(network: Network, plan: Plan) -> Device:
    """The programs of `plan` for `network`. Raises UsageError ``emit-...`` for what cannot be emitted."""
    task = TaskShape(plan.task.n_support, plan.task.n_way)
    _check(network, plan)
    recipe = plan.recipe
    training = _placed(compile_training(network, recipe, plan.resources, task))
    probe = None
    if recipe.measured:
        probe = _placed(compile_fisher(network, recipe.measured, task))
    for program in (training, probe):
        if program and program.purpose.start == 0:
            raise _refused("emit-plan", "it trains from the first layer on", "give it a smaller --macs")
    return Device(training.network, recipe, task.n_way, task.n_support // task.n_way, probe, training)


def _check(network: Network, plan: Plan) -> None:
    recipe, r, task = plan.recipe, plan.resources, plan.task
    least = task.n_support // task.n_way
    obstacles = (
        (recipe.precision != "float32", "it is computed in int8", "give --precision float32"),
        (task.n_support != least * task.n_way, "classes have different numbers of images", "give --shots"),
        (task.n_remembered or task.replay, "it has a replay memory", "leave out --replay"),
        (task.n_way > MOST_WAYS, f"it has more than {MOST_WAYS} classes", "give --way"),
        (not recipe.updates, "it trains nothing", "take policy tinytrain"),
        (r.step_support < task.n_support, "steps see a part of the images", "give fewer --shots"),
        ((r.micro, r.workers) != (1, 1), "it is for several workers", "make it with --quotas"),
        (recipe.options.entropy > 0, "it looks at images without labels", "take policy tinytrain"),
        (recipe.options.resample_channels, "it draws channels again", "take policy tinytrain"),
        (any(u.inputs for u in recipe.updates), "it trains input channels", "take policy tinytrain"),
        (bool(network.modules), "the network has lite residual modules", "take another backbone"),
        (recipe.head not in HEADS, f"its head is {recipe.head}", f"give --head {' or '.join(HEADS)}"),
    )
    for met, what, remedy in obstacles:
        if met:
            raise _refused("emit-plan", what, remedy)
    for i, layer in enumerate(network.layers):
        plain = layer.kind in ("conv", "pointwise", "depthwise") and layer.follows in (None, "relu6")
        if not plain or layer.shortcut or layer.max_pool or (layer.kind == "conv" and i):
            raise _refused(
                "emit-network", f"layer {layer.name} has no kernel in C", "take another backbone", "network"
            )
    for u in recipe.updates:
        layer = network.all_layers[u.layer]
        if u.channels and layer.kind != "pointwise":
            raise _refused(
                "emit-plan",
                f"it trains weights of the {layer.kind} layer {layer.name}",
                "take policy tinytrain",
            )


def _refused(code: str, what: str, remedy: str, whose: str = "plan") -> UsageError:
    return UsageError(code, f"the {whose} cannot become C: {what}; {remedy}")


def _placed(program: Program) -> Program:
    """`program` with the buffers that a device has, and their own layout."""
    intervals = []
    for name, buffer in program.buffers.items():
        if name.startswith(NOT_PLACED):
            continue
        first, last = program.life(name)
        intervals.append(Interval(name, buffer.nbytes, first, PREDICT if name == KEPT else last))
    buffers = {i.name: program.buffers[i.name] for i in intervals}
    return replace(program, buffers=buffers, layout=place(intervals))
