"""One step of one image in four modes of the compiler: the same gradients and values in fewer bytes."""

import numpy as np
import pytest
import toynets
from int8nets import gradients8, toy8, walk
from oracle import Oracle, prototype_loss

from tinytrain.meta.studies.step_modes import (
    ALL,
    IN_PLACE,
    MODES,
    PRUNED,
    REORDERED,
    WAY,
    Bound,
    apart,
    programs,
    recipe_of,
)
from tinytrain.plan.costs import image_macs
from tinytrain.plan.recipe import ROUNDINGS, Update
from tinytrain.program import checker, step
from tinytrain.program.backend import ProgramError
from tinytrain.program.calls import View, Weight
from tinytrain.program.step import compile_step, everything
from tinytrain.program.trained_arrays import slots

PRECISIONS = pytest.mark.parametrize("precision", ["float32", "int8"])
IN_MODES = pytest.mark.parametrize("mode", MODES)
KEEPING_GRADIENTS = pytest.mark.parametrize("mode", [mode for mode in MODES if mode != IN_PLACE])


def network_of(precision, name="blocks"):
    return toy8(name) if precision == "int8" else toynets.toy(name)


def scheme(network):
    """The last layer, expanding ones of two blocks, of one some input channels; and the last biases."""
    last = len(network.layers)
    chosen = {last - 1: None, last - 3: None, last - 6: (4, 1, 6)}
    return tuple(
        Update(i, tuple(range(network.layers[i].cout)) if i in chosen else (), True, chosen.get(i))
        for i in range(last - 6, last)
    )


def prototypes_of(network):
    return np.random.default_rng(5).random((WAY, network.embedding_size), np.float32)


def stepped(program, image):
    return Bound(program, prototypes_of(program.network), label=1).step(image)


def made_of(precision, rounding="nearest"):
    network = network_of(precision)
    recipe = recipe_of(scheme(network), precision, rounding)
    return network, recipe, programs(network, recipe)


@PRECISIONS
@KEEPING_GRADIENTS
def test_gradients_equal_the_oracle_in_every_mode(precision, mode):
    network, _, made = made_of(precision)
    image = toynets.images(1)
    prototypes, label = prototypes_of(network).astype(float), np.array([1])
    gradients = stepped(made[mode], image[0])[0]
    if precision == "float32":
        run = Oracle(network).forward(image)
        embeddings = run.embeddings
    else:
        seen = walk(network, image)
        embeddings = seen.output.mean(axis=(1, 2))
    g = prototype_loss(prototypes, np.arange(WAY), embeddings, label).grad_queries
    if precision == "float32":
        exact = Oracle(network).backward(run, g)
        weights, biases = exact.weights, exact.biases
    else:
        weights, biases = gradients8(network, seen, g)
    assert abs(g).max() > 1e-3
    for slot in slots(network, made[mode].recipe):
        wanted = toynets.selected({"weight": weights, "bias": biases}[slot.part][slot.layer], slot)
        assert toynets.relative(gradients[slot.layer, slot.part], wanted) < 2e-5


@PRECISIONS
@pytest.mark.parametrize("name", ["blocks", "headed"])
@pytest.mark.parametrize("key", range(3))
def test_modes_train_the_same_by_the_same_gradients(precision, name, key):
    network = network_of(precision, name)
    recipe = recipe_of(toynets.random_updates(network, key), precision)
    steps = {m: stepped(p, toynets.images(1)[0]) for m, p in programs(network, recipe).items()}
    for mode in (ALL, PRUNED):
        assert apart(network, recipe, steps[mode], steps[REORDERED]) < 1e-6
    assert apart(network, recipe, steps[REORDERED], steps[IN_PLACE]) == 0


@pytest.mark.parametrize(
    ("precision", "rounding"), [("float32", "nearest"), *(("int8", r) for r in ROUNDINGS)]
)
def test_weights_that_take_their_gradients_in_place_have_the_bits_of_those_that_take_them_later(
    precision, rounding
):
    """By every way to round. Gradients of weights are not there at all, those of biases are the same."""
    _, _, made = made_of(precision, rounding)
    image = toynets.images(1)[0]
    (kept, later), (found, at_once) = (stepped(made[mode], image) for mode in (REORDERED, IN_PLACE))
    assert {part for _, part in kept} == {"weight", "bias"} and {part for _, part in found} == {"bias"}
    assert all(found[key].tobytes() == kept[key].tobytes() for key in found)
    assert later.keys() == at_once.keys() == kept.keys()
    assert all(later[key].tobytes() == at_once[key].tobytes() for key in later)


@PRECISIONS
def test_weights_take_their_gradients_behind_the_gradient_of_their_input(precision):
    """A product of the same gradient and the weights of its layer never comes later."""
    calls = made_of(precision)[2][IN_PLACE].segments["step", 1].calls
    added = [k for k, call in enumerate(calls) if call.part == "grad_weight" and call.macs]
    assert len(added) >= 3
    for k in added:
        g = calls[k].args[4 if precision == "int8" else 2].buffer
        later = [
            c for c in calls[k:] if c.part == "grad_input" and any(isinstance(a, Weight) for a in c.args)
        ]
        assert not any(getattr(a, "buffer", None) is g for c in later for a in c.args)


@PRECISIONS
@KEEPING_GRADIENTS
def test_new_values_are_old_ones_less_a_rate_times_the_gradient(precision, mode):
    network, _, made = made_of(precision, "masters")
    bound = Bound(made[mode], prototypes_of(network), label=1)
    old = {(s.layer, s.part): bound.working.part(s.layer, s.part).astype("f") for s in bound.trained}
    gradients, values = bound.step(toynets.images(1)[0])
    for slot in bound.trained:
        key = slot.layer, slot.part
        before, after = (np.atleast_2d(a[key]) for a in (old, values))
        rows = slice(None) if slot.inputs is None or slot.part == "bias" else list(slot.inputs)
        taken = 0.01 * np.atleast_2d(gradients[key])
        codes = precision == "int8" and slot.part == "weight"
        wanted = before.copy()
        wanted[rows] -= taken * (bound.working.array(slot.layer, "lsb") if codes else 1)
        wanted = np.clip(np.rint(wanted), -127, 127) if codes else wanted
        np.testing.assert_allclose(after, wanted, rtol=1e-5, atol=1e-6)
        assert (after != before).any()


@PRECISIONS
@IN_MODES
def test_nothing_but_what_is_trained_has_a_gradient(precision, mode):
    network, recipe, made = made_of(precision)
    segment = made[mode].segments["step", 1]
    updates = everything(network, recipe).updates if mode == ALL else recipe.updates
    assert segment.backward_macs == image_macs(network, updates)
    named = {
        i.name for i in segment.layout.intervals if i.name.endswith((" weight gradient", " bias gradient"))
    }
    weights = 0 if mode == IN_PLACE else sum(bool(u.channels) for u in updates)
    assert len(named) == weights + sum(u.bias for u in updates)


@PRECISIONS
def test_each_mode_takes_no_more_bytes_than_the_one_before(precision):
    made = made_of(precision)[2]
    steps = [made[mode].segments["step", 1].nbytes for mode in (ALL, PRUNED, REORDERED)]
    assert steps == sorted(set(steps), reverse=True)
    sizes = [made[mode].nbytes for mode in MODES]
    assert sizes == sorted(sizes, reverse=True)


def gradient_lives(program):
    named = ("weight gradient", "bias gradient")
    found = [i for i in program.segments["step", 1].layout.intervals if i.name.endswith(named)]
    return [(i.first, i.last) for i in found]


@PRECISIONS
def test_gradients_are_kept_to_the_end_or_given_up_layer_by_layer(precision):
    made = made_of(precision)[2]
    for mode in (ALL, PRUNED):
        ends, starts = [[life[k] for life in gradient_lives(made[mode])] for k in (1, 0)]
        assert min(ends) > max(starts)
    lives = gradient_lives(made[REORDERED])
    assert min(last for _, last in lives) < max(first for first, _ in lives)


@PRECISIONS
@KEEPING_GRADIENTS
def test_an_update_before_the_input_gradient_of_its_layer_is_noticed(precision, mode, monkeypatch):
    """The last layer is updated as soon as its gradients are there; its weights are read after that."""
    in_order = step.arranged

    def too_early(calls, gradients, updates, early):
        last, *others = updates
        found = in_order(calls, gradients, {layer: updates[layer] for layer in others}, early)
        own = {a.buffer for c in updates[last] for a in c.args if isinstance(a, View)} & set(gradients)
        naming = (k for k, c in enumerate(found) if own & {getattr(a, "buffer", None) for a in c.args})
        behind = max(naming)
        return [*found[: behind + 1], *updates[last], *found[behind + 1 :]]

    network, recipe, made = made_of(precision)
    image = toynets.images(1)[0]
    right, _ = stepped(made[mode], image)
    monkeypatch.setattr(step, "arranged", too_early)
    with pytest.raises(ProgramError, match="reads parameters that have been updated"):
        programs(network, recipe)
    monkeypatch.setattr(checker, "check_program", lambda *_: None)
    wrong, _ = stepped(programs(network, recipe)[mode], image)
    last = len(network.layers) - 1
    assert all((right[key] == wrong[key]).all() for key in right if key[0] == last)
    assert toynets.relative(wrong[last - 2, "bias"], right[last - 2, "bias"]) > 1e-4


def test_a_step_of_a_deep_layer_has_a_frozen_part_and_others_none():
    network = network_of("float32")
    recipe = recipe_of(scheme(network), "float32")
    assert set(compile_step(network, recipe, WAY, True).segments) == {("prefix", 1), ("step", 1)}
    assert set(compile_step(network, everything(network, recipe), WAY, True).segments) == {("step", 1)}
