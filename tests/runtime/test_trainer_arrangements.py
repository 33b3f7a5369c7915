"""Workers, threads, micro-batches, caches and backends change the time of training, not its result."""

from dataclasses import replace

import numpy as np
import pytest
from toydevices import ONE
from toynets import ROWS, everything, items, random_updates, recipe, relative, toy, trainer
from toysteps import IMAGES, LABELS, augmentation, bits, step_gradients

from tinytrain import kernels
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.pipeline.warmup import warm_up
from tinytrain.plan import costs
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Resources, StepOptions, Update
from tinytrain.policies.common import Policy
from tinytrain.runtime.trainer import Trainer

NETWORKS = pytest.mark.parametrize("name", list(ROWS))


def test_a_cache_of_images_is_exact():
    network = toy("blocks")
    plan = recipe(everything(network))
    assert bits(step_gradients(network, plan, sets=2)[0]) == bits(step_gradients(network, plan, sets=0)[0])


@NETWORKS
@pytest.mark.parametrize("micro", [2, 4, 9])
def test_micro_batches_of_any_size_agree(name, micro):
    network = toy(name)
    plan = recipe(everything(network))
    one, many = (step_gradients(network, plan, micro=m)[0] for m in (1, micro))
    assert relative(many.gradients, one.gradients) < 1e-5


def three_steps(network, plan, view, sets, micro, **how):
    """What three steps on one view of each image train, their gradients and embeddings, as bytes."""
    made = trainer(network, plan, IMAGES, LABELS, sets, micro, augmentation=augmentation, **how)
    made.run("cache")
    made.run("start")
    made.prototypes[:] = 1 + np.arange(made.prototypes.size).reshape(made.prototypes.shape) % 5
    if made.single_pass:
        made.bind.array("latest losses").fill(np.inf)
    for number in range(1, 4):
        made.step(number, items(len(LABELS)), items(len(LABELS), view), sampled=[0, 1, 3])
    made.close()
    embedded = made.support[: 3 if made.single_pass else None]
    return made.trained.tobytes(), bits(made), embedded.tobytes()


@NETWORKS
@pytest.mark.parametrize("cut, sets", [(0, 0), (5, 0), (5, 1), (5, 3)])
@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("single_pass", [False, True])
def test_any_number_of_workers_and_of_threads_trains_the_same_bits(name, cut, sets, micro, single_pass):
    network = toy(name)
    options = StepOptions(hard_fraction=0.5, sampled_fraction=0.4, single_pass=single_pass)
    plan = recipe((u for u in everything(network) if u.layer >= cut), optimizer="adam", options=options)
    assert single_pass == costs.single_pass(plan, Resources(sets, micro, len(LABELS), len(LABELS)))
    trained = {
        three_steps(network, plan, max(sets - 1, 0), sets, micro, workers=workers, threads=threads)
        for workers, threads in ((1, 1), (2, 2), (5, 3))
    }
    assert len(trained) == 1


def test_batches_that_may_have_other_turns_than_the_one_before_wait_until_it_is_done():
    made = trainer(toy("blocks"), recipe(everything(toy("blocks"))), IMAGES, LABELS, micro=4, workers=2)
    seen = []
    body = [lambda work: seen.append(([i for _, i in work.items], work.unit.hand.last))]
    lists = [(body, items(10), 4), (body, items(18)[10:], 4)]
    made.spread(lists, made.bound_of(made.program.units["backward"]))
    made.close()
    waits = [((0, 4), True), ((4, 8), False), ((8, 10), True), ((10, 14), True), ((14, 18), False)]
    assert sorted(seen) == [([*range(*some)], last) for some, last in waits]


@pytest.mark.parametrize("sets, drawn", [(0, [1, 2]), (1, [1, 2]), (3, [])])
def test_workers_find_changes_drawn_but_for_those_of_cached_views(sets, drawn):
    network, seen = toy("blocks"), []

    def noted(view, i):
        if view:
            seen.append(view)
        return augmentation(view, i)

    plan = recipe(u for u in everything(network) if u.layer >= 5)
    made = trainer(network, plan, IMAGES, LABELS, sets, workers=2, augmentation=noted)
    made.source = replace(made.source, read=lambda i: seen.append("read") or IMAGES[i])
    made.run("cache")
    seen.clear()
    made.embed([(0, 3), (1, 3), (2, 5)], np.empty((3, network.embedding_size), np.float32))
    made.close()
    assert seen[: len(drawn)] == drawn and seen[len(drawn) :] == ["read"] * (len(drawn) + (not sets))


@NETWORKS
def test_how_many_embeddings_are_held_at_once_changes_no_bit_of_steps_that_look_at_as_many_images(name):
    network, found, few = toy(name), [], [0, 1, 2, 3, 4, 8]
    plan = recipe(everything(network), step="both")
    for size in (len(few), len(LABELS)):
        made = trainer(network, plan, IMAGES, LABELS, step=size, shown=len(few), augmentation=augmentation)
        made.run("start")
        made.prototypes[:] = 1 + np.arange(made.prototypes.size).reshape(made.prototypes.shape) % 5
        for number in (1, 2):
            made.step(number, [(0, i) for i in few], [(number, i) for i in few])
        found.append((made.trained.tobytes(), made.prototypes.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("views, factors", [(3, [1, 0.75, 0.5, 0.25]), (0, [1, 1, 1, 0.5])])
def test_rates_fall_as_the_recipe_says_for_cached_and_for_fresh_views(monkeypatch, views, factors):
    def made(*_):
        updates = (Update(6, tuple(range(12)), bias=True),)
        return Recipe("test", updates, ((1e-2, 1e-2),), steps=4, decay=(1.0, 0.5), views=views)

    found, original = [], Trainer.scale_rates
    monkeypatch.setattr(Trainer, "scale_rates", lambda self, f: (found.append(f), original(self, f)))
    adapt(toy_network(), toy_episode(), Budget(2**22), Policy("test", made, "none", macs_limited=False))
    assert found == factors


def test_both_backends_train_the_same():
    network = toy("blocks")
    plan = recipe(everything(network), optimizer="adam")
    numbers = []
    for backend in ("numba", "numpy"):
        made = trainer(network, plan, IMAGES, LABELS, table=kernels.load(backend))
        made.run("start")
        for number in (1, 2, 3):
            made.step(number, items(len(LABELS)), items(len(LABELS)))
        numbers.append(made.trained.copy())
    assert relative(numbers[0], numbers[1]) < 1e-3


def test_no_arrangement_makes_a_kernel_compile_a_second_time():
    """Compiled code is never freed, and what `warmup` does not know costs seconds on a small board."""
    compiled = {n: k for n, k in vars(kernels.load("numba")).items() if hasattr(k, "signatures")}
    warm_up()
    before = {name: len(kernel.signatures) for name, kernel in compiled.items()}
    assert min(before.values()) >= 1
    for name in ROWS:
        for micro, workers, sets in ((1, 1, 0), (2, 2, 1), (3, 1, 2)):
            for updates in (everything(toy(name)), random_updates(toy(name), micro)):
                plan = recipe(updates, optimizer="adam", step=("both", "constant")[micro % 2])
                step_gradients(toy(name), plan, micro=micro, workers=workers, sets=sets)
    assert {name: len(kernel.signatures) for name, kernel in compiled.items()} == before


@pytest.mark.parametrize("shots", [17, 18, 21])
def test_a_support_that_is_no_multiple_of_a_step_is_embedded_to_its_last_image(shots):
    """Steps of 50 images, five at a time: the rest of 51, 54 or 63 images is another size of call."""
    report = adapt(toy_network(), toy_episode(shots=shots), Budget(10**8), "last_layer", device=ONE)
    resources = report.plan.resources
    assert (resources.step_support, resources.micro) == (50, 5)
    assert sum(report.delta.head.counts.tolist()) == 3 * shots
