"""The checker accepts every program that is compiled, and names what is wrong with a broken one."""

from dataclasses import replace

import pytest
import toynets
from cases import each
from programcheck import check_program
from segmentcheck import check_call, check_segment
from toysegments import backward_segment

from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Resources, StepOptions
from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import Call
from tinytrain.program.compile import compile_fisher, compile_training
from tinytrain.program.memory_planner import Layout
from tinytrain.program.stages import Of, Repeat, Run

TASK = TaskShape(9, 3, 4)
NETWORK = toynets.toy("blocks")
RESOURCES = (Resources(0, 1, 9, 9), Resources(4, 2, 9, 9, workers=2), Resources(1, 2, 5, 5))


def program(key=1, resources=RESOURCES[1], **changes):
    recipe = toynets.recipe(toynets.random_updates(NETWORK, key), **changes)
    return compile_training(NETWORK, recipe, resources, TASK)


@each("resources", RESOURCES)
@each("step", ["both", "constant"])
@each("optimizer", ["sgd", "momentum", "adam"])
@each("head", ["cosine", "lda"])
def test_programs_of_every_arrangement_hold(resources, step, optimizer, head):
    how = {"options": StepOptions(hard_fraction=0.5, sampled_fraction=0.5, entropy=0.1)}
    for key, name in enumerate((*toynets.ROWS, toynets.WIDE)):
        network = toynets.toy(name)
        updates = toynets.random_updates(network, key)
        recipe = toynets.recipe(updates, step=step, optimizer=optimizer, head=head, **how)
        check_program(compile_training(network, recipe, resources, TASK))


def test_programs_of_fisher_scoring_hold():
    for name in (*toynets.ROWS, toynets.WIDE):
        network = toynets.toy(name)
        for first in range(len(network.layers)):
            check_program(compile_fisher(network, tuple(range(first, len(network.layers))), TASK))


def without_call(number):
    segment = backward_segment(NETWORK, toynets.everything(NETWORK))[0]
    del segment.calls[number]
    return segment


def test_a_segment_without_one_of_its_first_writes_is_refused():
    """Whatever call is left out of a pass wrote something that a later one reads, or was not needed."""
    calls = backward_segment(NETWORK, toynets.everything(NETWORK))[0].calls
    refused = []
    for number in range(len(calls)):
        try:
            check_segment(without_call(number))
        except ProgramError as error:
            refused.append(number)
            assert "before it is written" in str(error)
    writers = {"matmul", "depthwise_forward", "depthwise_grad_input", "pool_grad", "enter", "pack_mask"}
    alone = {k for k, call in enumerate(calls) if call.kernel in writers}
    assert alone - set(refused) <= {len(calls) - 1, *(k for k in alone if calls[k].kernel == "matmul")}
    assert len(refused) > len(calls) // 4


def test_an_array_of_another_size_or_dtype_is_refused():
    segment = backward_segment(NETWORK, toynets.everything(NETWORK))[0]
    product = next(c for c in segment.calls if c.kernel == "matmul")
    y, x, w = product.args
    with pytest.raises(ProgramError, match="k="):
        check_call(Call("matmul", (y, x, replace(w, transposed=True))), "here")
    with pytest.raises(ProgramError, match="uint8, not float32"):
        check_call(Call("matmul", (y, replace(x, buffer=replace(x.buffer, dtype="uint8")), w)), "here")
    with pytest.raises(ProgramError, match="takes 3 arrays, has 2"):
        check_call(Call("matmul", (y, x)), "here")


def test_an_output_over_its_input_is_refused():
    segment = backward_segment(NETWORK, toynets.everything(NETWORK))[0]
    k = next(k for k, c in enumerate(segment.calls) if c.kernel == "depthwise_forward")
    call = segment.calls[k]
    x = call.args[1]
    segment.calls[k] = Call("depthwise_forward", (replace(x, shape=call.args[0].shape), *call.args[1:]))
    with pytest.raises(ProgramError, match="while it reads it"):
        check_segment(segment)


def changed(made, name, change):
    """The program with one interval of its layout changed."""
    intervals = tuple(change(i) if i.name == name else i for i in made.layout.intervals)
    return replace(made, layout=Layout(intervals, made.layout.offsets, made.layout.nbytes))


def test_two_live_buffers_in_the_same_bytes_are_refused():
    made = program()
    offsets = (0,) * len(made.layout.offsets)
    with pytest.raises(AssertionError, match="overlap"):
        check_program(replace(made, layout=replace(made.layout, offsets=offsets)))


@each("name", ["prototypes", "labels", "trained parameters", "embeddings of queries"])
def test_a_buffer_that_dies_too_early_is_refused(name):
    made = program()
    with pytest.raises(ProgramError, match=f"{name} (outside of its lifetime|before it is written)"):
        check_program(changed(made, name, lambda i: replace(i, first=i.first, last=i.first)))


def test_a_workspace_too_small_for_its_segment_is_refused():
    made = program()
    workspace = made.units["backward"][0].workspace
    buffers = made.buffers | {workspace.name: replace(workspace, shape=(64,))}
    intervals = tuple(replace(i, nbytes=64) if i.name == workspace.name else i for i in made.layout.intervals)
    with pytest.raises(ProgramError, match="leaves workspace"):
        check_program(replace(made, buffers=buffers, layout=replace(made.layout, intervals=intervals)))


@each("name", ["cache", "start", "loss", "gradients"])
def test_a_program_without_one_of_its_stages_is_refused(name):
    made = program(resources=Resources(4, 2, 9, 9, workers=2))
    stages = tuple(stage for stage in made.stages if stage.name != name)
    with pytest.raises(ProgramError, match="before it is written"):
        check_program(replace(made, stages=stages))


def with_nodes(made, change):
    """The program with every node of its stages replaced by what `change` makes of it; None leaves it out."""

    def changed_body(body):
        found = [change(replace(n, body=changed_body(n.body)) if isinstance(n, Repeat) else n) for n in body]
        return tuple(node for node in found if node is not None)

    return replace(made, stages=tuple(replace(s, body=changed_body(s.body)) for s in made.stages))


def swapped_view(call, old, new):
    """A call that has buffer `new` where it had `old`."""
    args = tuple(new.whole if getattr(a, "buffer", None) is old else a for a in call.args)
    return Call(call.kernel, args, call.part)


BREAKAGES = {
    "no segment": (
        lambda made: replace(made, segments={k: s for k, s in made.segments.items() if k[0] != "backward"}),
        "there is no backward",
    ),
    "an interval that is smaller than its buffer": (
        lambda made: changed(made, "labels", lambda i: replace(i, nbytes=4)), "was placed with 4 bytes",
    ),
    "a view behind its buffer": (
        lambda made: with_nodes(
            made,
            lambda n: Call(n.kernel, (replace(n.args[0], start=10**6), *n.args[1:]))
            if isinstance(n, Call) and n.kernel == "take_step" else n,
        ),
        "elements of trained parameters that it does not have",
    ),
    "moments in one array": (
        lambda made: with_nodes(
            made,
            lambda n: swapped_view(n, made.buffers["optimizer state 1"], made.buffers["optimizer state 0"])
            if isinstance(n, Call) and n.kernel == "adam_step" else n,
        ),
        "while it reads it",
    ),
    "more images than rows": (
        lambda made: with_nodes(made, lambda n: replace(n, count=50) if isinstance(n, Repeat) else n),
        "too few rows",
    ),
    "larger micro-batches than room": (
        lambda made: with_nodes(made, lambda n: replace(n, micro=7) if isinstance(n, Repeat) else n),
        "7 images do not fit",
    ),
    "two workers in the same bytes": (
        lambda made: with_nodes(
            made,
            lambda n: replace(n, units=n.units[:1] * 2) if isinstance(n, Repeat) and n.units else n,
        ),
        "two workers have the same bytes",
    ),
    "answers without an embedding": (
        lambda made: with_nodes(
            made, lambda n: None if isinstance(n, Run) and n.kind == "embed" and n.to is Of.OUTPUT else n,
        ),
        "reads an output that no segment left",
    ),
}  # fmt: skip


@each("name", BREAKAGES)
def test_a_broken_program_is_refused_for_what_is_wrong_with_it(name):
    breaking, said = BREAKAGES[name]
    made = program(optimizer="adam")
    with pytest.raises(ProgramError, match=said):
        check_program(breaking(made))
