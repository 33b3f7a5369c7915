"""What a microcontroller runs: the programs of a plan, without what only a Python process needs.

Images come row by row from where the caller has them, trained parameters stay in the arena and lie over the
weights in flash, and moments are read one by one, so that some buffers are not placed at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tinytrain.base.errors import UsageError
from tinytrain.codegen.inputs import obstacle as obstacle_of_input
from tinytrain.codegen.placed import Placed, placed
from tinytrain.codegen.places import Places
from tinytrain.heads.registry import find_head
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import macs_of
from tinytrain.plan.plan import Cost, Plan
from tinytrain.plan.recipe import Recipe, Resources, trained_modules
from tinytrain.planner.candidates import STEP_IMAGES
from tinytrain.program.backend import Backend
from tinytrain.program.backends.registry import FLOAT32, INT8, find_backend
from tinytrain.program.calls import Buffer, Role
from tinytrain.program.compile import compile_fisher, compile_training, training_bytes
from tinytrain.program.head_buffers import head_views
from tinytrain.program.segments import SegmentBank
from tinytrain.program.stages import FitHead, KeepHead, nodes
from tinytrain.program.trained_arrays import Slot, slots

HEADS = {"lda": "head_lda.c", "mild-lda": "head_lda.c", "cosine": "head_cosine.c"}  # become head_result.c
# What can follow a layer, by the backends that have a form in C.
ACTIVATIONS = {FLOAT32.name: (None, "relu6"), INT8.name: (None, "relu", "relu6")}
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
    probe: Placed | None
    training: Placed

    @cached_property
    def arena(self) -> int:
        """Bytes of the arena: of the larger program."""
        return max(self.training.nbytes, self.probe.nbytes if self.probe else 0)

    @property
    def int8(self) -> bool:
        """Whether weights and values between layers are int8."""
        return find_backend(self.recipe.precision).in_codes

    @property
    def support(self) -> int:
        return self.ways * self.shots

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Slices of the trained parameters."""
        return slots(self.network, self.recipe)

    def values(self, slot: Slot) -> str:
        """Where the values of a slot lie, in C. Biases lie apart from weights that are int8."""
        role, start = Role.PARAMETERS, slot.start
        if self.int8 and slot.part == "bias":
            before = (s.size for s in self.slots if s.part == "bias" and s.start < start)
            role, start = Role.BIASES, sum(before)
        return f"{Places(self.training).whole(self.training.of(role))} + {start}"

    @cached_property
    def head_arrays(self) -> dict[str, Buffer]:
        """Buffers of the head that is kept, by the names that its method declares."""
        every = (node for stage in self.training.stages for node in nodes(stage.body))
        kept = (n.arrays for n in every if isinstance(n, KeepHead) or (isinstance(n, FitHead) and n.kept))
        return {name: buffer for arrays in kept for name, buffer in arrays.items()}

    @cached_property
    def head_views(self) -> range:
        """Views of every image that the head is fitted to, the clean one last."""
        method, size = find_head(self.recipe.head), self.network.embedding_size
        return head_views(self.recipe, self.training.resources, method, self.support, size)


def for_one_core(plan: Plan, network: Network, quotas: bool = True) -> Plan:
    """`plan` for one worker that computes an image at a time, with `quotas` or the channels that it names.

    Its arena is that of a Python process, to which a smaller budget is raised, so that Python may obey it.
    """
    recipe = replace(plan.recipe, options=replace(plan.recipe.options, quotas=quotas))
    r = plan.resources
    resources = Resources(r.sets, 1, r.step_support, r.step_queries, small_head=r.small_head)
    arena = training_bytes(SegmentBank(network, recipe), resources, plan.task)
    cost = Cost(arena, *macs_of(network, recipe, resources, plan.task))
    budget = replace(plan.budget, memory=max(plan.budget.memory, arena))
    return replace(plan, budget=budget, recipe=recipe, resources=resources, cost=cost, row_tile=None)


def device_of(network: Network, plan: Plan) -> Device:
    """The programs of `plan` for `network`.

    Raises UsageError ``unsupported`` for what has no form in C.
    """
    if plan.recipe.precision not in ACTIVATIONS:
        what, remedy = f"computes in {plan.recipe.precision}", f"give --precision {' or '.join(ACTIVATIONS)}"
        raise UsageError("unsupported", f"the plan {what}, which has no form in C; {remedy}")
    backend = find_backend(plan.recipe.precision)
    for i, layer in enumerate(network.graph):
        if not _has_kernels(network, i, backend):
            what = f"layer {layer.name} of {network.name} has no kernel in C"
            raise UsageError("unsupported", f"{what}; take another backbone, such as small")
    if obstacle := next(_obstacles(network, plan), None):
        what, remedy = obstacle
        raise UsageError("unsupported", f"the plan cannot become C: {what}; {remedy}")
    task = TaskShape(plan.task.n_support, plan.task.n_way)
    recipe = plan.recipe
    program = compile_training(network, recipe, plan.resources, task)
    measured = recipe.measured and compile_fisher(network, recipe.measured, task, precision=recipe.precision)
    probe = placed(measured) if measured else None
    return Device(program.network, recipe, task.n_way, task.n_support // task.n_way, probe, placed(program))


def _has_kernels(network: Network, i: int, backend: Backend) -> bool:
    node, chained = network.graph[i], network.sources[i][0] == i - 1
    dense = node.op == "conv" and i > 0 and not backend.in_codes
    known = node.row.in_c and node.is_usual and node.activation in ACTIVATIONS[backend.name]
    return known and chained and not dense


def _obstacles(network: Network, plan: Plan) -> Iterator[tuple[str, str]]:
    """Reasons why a plan cannot be emitted as C, each with a remedy."""
    recipe, r, task, layers = plan.recipe, plan.resources, plan.task, network.all_layers
    other = "take policy tinytrain"
    weights = [layers[u.layer] for u in recipe.updates if u.channels]
    modules = trained_modules(network, recipe.updates)
    cut = network.block_start(recipe.updates[0].layer) if recipe.updates and not modules else 0
    backend = find_backend(recipe.precision)
    unread, values = obstacle_of_input(network.input), network.input.dtype == "float32"
    obstacle, in_codes = backend.obstacle(network, recipe), backend.in_codes
    some_inputs = not in_codes and any(u.inputs is not None for u in recipe.updates)
    filters = not in_codes and any(x.row.same_channels for x in weights)
    fewer, many = f"give --shots {max(1, STEP_IMAGES // task.n_way)}", task.n_support > STEP_IMAGES
    part = "a step sees a part of the images", fewer if many else "give a larger --budget"
    for met, what, remedy in (
        (obstacle, f"it is computed in {backend.name}, but {obstacle}", "give --precision float32"),
        (unread, unread, "take another backbone"),
        (task.n_support % task.n_way, "classes have different numbers of images", "give --shots"),
        (task.n_remembered or task.replay, "it has a replay memory", "leave out --replay"),
        (task.n_way > MOST_WAYS, f"it has more than {MOST_WAYS} classes", f"give --way {MOST_WAYS}"),
        (not recipe.updates, "it trains nothing", other),
        (r.step_support < task.n_support, *part),
        ((r.micro, r.workers) != (1, 1), "it is for several workers", "let 'tinytrain emit' make it"),
        (recipe.options.entropy > 0, "it looks at images without labels", other),
        (recipe.options.resample_channels, "it draws channels again", other),
        (some_inputs, "it trains some input channels in float32", "give --precision int8"),
        (filters, "it trains weights of depthwise layers in float32", "give --precision int8"),
        (bool(modules), "it trains lite residual modules", other),
        (cut == 0 and not values, "it trains from the first layer on", "give a smaller --macs"),
        (recipe.head not in HEADS, f"its head is {recipe.head}", f"give --head {' or '.join(HEADS)}"),
    ):
        if met:
            yield what, remedy
