"""Steps that compute only the images that they back-propagate, each of them once."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from oracle import Oracle, prototype_loss
from programcheck import check_program
from toynets import ROWS, calls_of, everything, items, random_updates, recipe, relative, toy, trainer
from toysteps import IMAGES, LABELS, assert_equals_oracle, augmentation, augmented

from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import single_pass
from tinytrain.plan.recipe import Resources, StepOptions
from tinytrain.program.backend import ProgramError
from tinytrain.program.compile import compile_training
from tinytrain.program.stages import Items, Repeat, Run
from tinytrain.runtime.trainer import mean_loss

N, WAY = len(LABELS), 3
TURNS = [0, 1, 2, 3, 4, 5, 6, 7, 8]  # LABELS take turns already
OPTIONS = StepOptions(hard_fraction=0.45, sampled_fraction=0.34, single_pass=True)
HARD, SAMPLED = 4, 3


def made_for(network, updates=None, options=OPTIONS, **how):
    plan = recipe(updates or everything(network), options=options)
    made = trainer(network, plan, IMAGES, LABELS, augmentation=augmentation, **how)
    made.run("cache")
    made.run("start")
    made.lists[Items.BATCHES] = items(N)
    made.run("first prototypes")
    return made


def step_of(made, view, sampled):
    return made.compute_gradients(items(N), items(N, view), sampled=sampled)


def losses_of(made):
    return made.bind.array("latest losses")


@each("name", list(ROWS))
@each("micro", [1, 3])
def test_the_gradient_is_that_of_the_oracle_for_the_images_that_it_computes(name, micro):
    """In the first step prototypes are those of all images, and images come in turn of classes."""
    network, sampled = toy(name), [1, 3, 5]
    made = made_for(network, random_updates(network, name), micro=micro)
    loss = step_of(made, 1, sampled)
    oracle, hard = Oracle(network), TURNS[:HARD]
    run = oracle.forward(np.concatenate([IMAGES, augmented(1)[hard]]))
    exact = prototype_loss(run.embeddings[:N], LABELS, run.embeddings[N:], LABELS[hard])
    taken, weight = LABELS[sampled], np.zeros(N)
    for i in sampled:
        same = (LABELS[i] == LABELS).sum() / (LABELS[i] == taken).sum()
        weight[i] = same * WAY / len(set(taken.tolist()))
    grad = np.concatenate([exact.grad_support * weight[:, None], exact.grad_queries])
    assert_equals_oracle(made, oracle.backward(run, grad))
    assert abs(loss - exact.mean) < 1e-5


def test_a_step_runs_each_of_its_images_once_and_no_other():
    network = toy("blocks")
    table, calls = calls_of()
    made = made_for(network, table=table)
    calls.clear()
    step_of(made, 1, [0, 1, 2])
    assert sum(kernel == "pool" for kernel, _ in calls) == HARD + SAMPLED
    assert sum(kernel == "pool_grad" for kernel, _ in calls) == HARD + SAMPLED


def test_the_images_with_the_highest_latest_losses_come_next_those_without_one_first():
    made = made_for(toy("blocks"))
    for number, chosen in enumerate(([0, 1, 2, 3], [4, 5, 6, 7]), 1):
        before = losses_of(made).copy()
        step_of(made, number, [0, 1, 2])
        assert np.flatnonzero(losses_of(made) != before).tolist() == chosen
    losses_of(made)[:] = [3, 9, 1, 2, np.inf, 8, 8, 0, 8]
    before = losses_of(made).copy()
    step_of(made, 3, [0, 1, 2])
    assert np.flatnonzero(losses_of(made) != before).tolist() == [1, 4, 5, 6]  # 8 has the loss of 5 and 6


def test_the_loss_is_the_mean_of_the_latest_losses_that_are_known():
    assert mean_loss(np.array([1, np.inf, 4, np.inf], np.float32)) == 2.5
    assert np.isnan(mean_loss(np.array([1, np.inf, np.nan], np.float32)))


def test_sampled_images_move_the_prototypes_by_their_part_of_the_class():
    network, sampled = toy("blocks"), [0, 3, 4]
    made = made_for(network)
    embeddings = Oracle(network).forward(IMAGES).embeddings
    means = np.stack([embeddings[k == LABELS].mean(axis=0) for k in range(WAY)])
    assert relative(made.prototypes, means) < 1e-5
    made.prototypes[:] = old = np.random.default_rng(0).standard_normal(means.shape).astype("f")
    step_of(made, 1, sampled)
    for k in range(WAY):
        members = [i for i in sampled if LABELS[i] == k]
        rest = 1 - len(members) / (k == LABELS).sum()
        want = rest * old[k] + embeddings[members].sum(axis=0) / (k == LABELS).sum()
        assert relative(made.prototypes[k], want) < 1e-5


@each("sets", [0, 1, 2])
@each("how", [{"micro": 2}, {"workers": 2}, {"micro": 4, "workers": 2}])
def test_gradients_do_not_depend_on_workers_and_batches(how, sets):
    """Without a cache, with one of clean images, and with one of all views."""
    network = toy("blocks")
    updates = tuple(u for u in everything(network) if u.layer >= 9)
    want, got = made_for(network, updates, sets=sets), made_for(network, updates, sets=sets, **how)
    for made in (want, got):
        step_of(made, 1, [0, 1, 2])
    assert relative(got.gradients, want.gradients) < 1e-5


@each(
    ("changes", "applies"),
    [
        ({}, True),
        ({"sampled_fraction": 0.05}, False),
        ({"entropy": 0.1}, False),
        ({"single_pass": False}, False),
    ],
)
def test_without_sampled_images_or_with_unlabelled_ones_steps_are_made_in_two_passes(changes, applies):
    """Nothing would bring prototypes up to date, and images without labels are looked at as a whole."""
    network = toy("blocks")
    plan = recipe(everything(network), options=replace(OPTIONS, **changes))
    resources, task = Resources(0, 1, N, N), TaskShape(N, WAY, 4)
    assert single_pass(plan, resources) == applies
    assert not single_pass(replace(plan, step="constant"), resources)
    names = {stage.name for stage in compile_training(network, plan, resources, task).stages}
    assert ("loss" in names) != applies


def test_a_backward_pass_without_the_forward_pass_before_it_is_refused():
    network = toy("blocks")
    plan = recipe(everything(network), options=OPTIONS)
    made = compile_training(network, plan, Resources(0, 1, N, N), TaskShape(N, WAY))
    check_program(made)

    def without(body):
        nodes = (replace(n, body=without(n.body)) if isinstance(n, Repeat) else n for n in body)
        return tuple(n for n in nodes if not (isinstance(n, Run) and n.kind == "forward"))

    with pytest.raises(ProgramError, match="no forward pass"):
        check_program(replace(made, stages=tuple(replace(s, body=without(s.body)) for s in made.stages)))
