"""Training steps on toy networks against the float64 oracle."""

import numpy as np
import pytest
from cases import each
from oracle import Oracle, gradients, prototype_loss
from toynets import (
    ROWS,
    calls_of,
    everything,
    gradient_of,
    items,
    random_updates,
    recipe,
    relative,
    selected,
    toy,
    trainer,
)
from toysteps import (
    IMAGES,
    LABELS,
    assert_equals_oracle,
    augmentation,
    augmented,
    exact_gradients,
    step_gradients,
)

from tinytrain.plan.costs import backward_macs_per_query, n_hard
from tinytrain.plan.recipe import StepOptions, Update
from tinytrain.program.stages import Items
from tinytrain.runtime.schedule import sampled_items

NETWORKS = each("name", list(ROWS))


@NETWORKS
@each("step", ["both", "constant"])
def test_the_gradient_of_a_step_equals_that_of_one_batch(name, step):
    """Image by image in two passes, through prototypes or with them held constant."""
    network = toy(name)
    made, loss = step_gradients(network, recipe(everything(network), step=step))
    want_loss, want = exact_gradients(network, step)
    assert abs(loss - want_loss.mean) < 1e-5
    assert relative(made.support, Oracle(network).forward(IMAGES).embeddings) < 1e-5
    assert relative(10 * made.bind.array("cosine"), want_loss.logits) < 1e-5
    # One network magnifies the rounding of products: 1.8e-5 was seen, 2.1e-5 with those of BLAS, and 4e-6 if
    # they are computed in float64.
    assert_equals_oracle(made, want, 2e-5)


@NETWORKS
@each("step", ["both", "constant"])
def test_the_oracle_equals_finite_differences(name, step):
    network = toy(name)
    oracle, other = Oracle(network), Oracle(network)
    _, want = gradients(oracle, IMAGES, LABELS, augmented(1), LABELS, step)
    random, size = np.random.default_rng(3), 1e-8
    for i in range(len(network.layers)):
        direction = (
            random.standard_normal(oracle.weights[i].shape),
            random.standard_normal(oracle.biases[i].shape),
        )
        loss = []
        for sign in (1, -1):
            oracle.weights[i] += sign * size * direction[0]
            oracle.biases[i] += sign * size * direction[1]
            support = (oracle if step == "both" else other).forward(IMAGES).embeddings
            loss.append(loss_of(support, oracle.forward(augmented(1)).embeddings))
            oracle.weights[i] -= sign * size * direction[0]
            oracle.biases[i] -= sign * size * direction[1]
        slope = (loss[0] - loss[1]) / (2 * size)
        exact = (want.weights[i] * direction[0]).sum() + (want.biases[i] * direction[1]).sum()
        assert abs(slope - exact) < 1e-6 * max(1, abs(exact))


def loss_of(support, queries, temperature=10):
    """The loss once more, straight from its definition."""
    means = np.stack([support[k == LABELS].mean(axis=0) for k in range(3)])
    total = 0
    for f, label in zip(queries, LABELS, strict=True):
        cosines = [f @ p / np.linalg.norm(f) / np.linalg.norm(p) for p in means]
        total -= np.log(np.exp(temperature * cosines[label]) / np.exp(temperature * np.array(cosines)).sum())
    return total / len(queries)


@NETWORKS
@each("key", range(6))
def test_sparse_gradients_are_slices_of_the_full_gradient(name, key):
    """Selected channels of every kind of layer, in any order, with and without biases."""
    network = toy(name)
    made, _ = step_gradients(network, recipe(random_updates(network, key)), micro=1 + key % 3)
    full, _ = step_gradients(network, recipe(everything(network)), micro=1 + key % 3)
    for slot in made.slots:
        part = selected(gradient_of(full, slot.layer, slot.part), slot)
        assert relative(gradient_of(made, slot.layer, slot.part), part) < 1e-6


@each("step", ["both", "constant"])
@each("share", [0.25, 0.6])
def test_a_hard_fraction_runs_backward_the_images_of_highest_loss_only(share, step):
    network = toy("blocks")
    table, calls = calls_of()
    plan = recipe(everything(network), step=step, options=StepOptions(share))
    made, _ = step_gradients(network, plan, table=table)
    loss, _ = exact_gradients(network)
    count = n_hard(share, len(LABELS))
    hardest = np.sort(np.argsort(-loss.each)[:count])
    assert_equals_oracle(made, exact_gradients(network, step, hardest)[1])
    passes = sum(kernel == "pool_grad" for kernel, _ in calls)
    assert passes == count + (len(LABELS) if step == "both" else 0)


@each("through", [[0], [3, 6], [1, 4, 8], [0, 2, 3, 4, 5, 6, 7]])
def test_some_support_images_stand_for_the_others_of_their_class_and_for_the_other_classes(through):
    network = toy("blocks")
    made = trainer(
        network, recipe(everything(network), step="both"), IMAGES, LABELS, augmentation=augmentation
    )
    made.run("start")
    made.compute_gradients(items(len(LABELS)), items(len(LABELS), 1), sampled=through)
    oracle = Oracle(network)
    run = oracle.forward(np.concatenate([IMAGES, augmented(1)]))
    n, taken = len(LABELS), LABELS[through]
    loss = prototype_loss(run.embeddings[:n], LABELS, run.embeddings[n:], LABELS)
    weight = np.zeros(n)
    for i in through:
        label = LABELS[i]
        weight[i] = (label == LABELS).sum() / (label == taken).sum() * 3 / len(set(taken))
    grad = np.concatenate([loss.grad_support * weight[:, None], loss.grad_queries])
    assert_equals_oracle(made, oracle.backward(run, grad))


@each("count", [1, 2, 3, 5, 8])
def test_the_mean_over_draws_of_support_images_is_the_gradient_through_all_of_them(count):
    """The weights that images get, averaged over many draws, are 1 for every image."""
    network = toy("blocks")
    made = trainer(network, recipe(everything(network), step="both"), IMAGES, LABELS)
    support, draws, weight = items(len(LABELS)), 4000, np.zeros(len(LABELS))
    divisors = np.empty(3, np.float32)
    some = recipe((), step="both", options=StepOptions(sampled_fraction=count / len(LABELS)))
    for number in range(draws):
        chosen = sampled_items(some, LABELS, support, 0, number)
        assert len(chosen) == count
        made.lists |= {Items.SUPPORT: support, Items.SAMPLED: [support[k] for k in chosen]}
        made.host.sampled_weights(None, divisors)
        weight[chosen] += made.class_sizes[LABELS[chosen]] / divisors[LABELS[chosen]]
    np.testing.assert_allclose(weight / draws, 1, atol=0.12)


@pytest.mark.parametrize("some", [[0, 1, 2, 3, 6], [1, 2, 3, 5, 6]])
def test_in_a_step_that_sees_a_part_of_the_support_each_image_stands_for_those_it_sees(some):
    """An image that stands alone gets its part of the whole gradient, times those that it stands for."""
    network = toy("blocks")
    made = trainer(network, recipe(everything(network)), IMAGES, LABELS, step=len(some))
    made.run("start")
    old = np.random.default_rng(0).standard_normal(made.prototypes.shape).astype("f")
    support = [(0, i) for i in some]

    def gradient(through):
        made.prototypes[:] = old
        made.compute_gradients(support, support, sampled=through)
        return made.gradients.astype(np.float64)

    none, labels = gradient([]), LABELS[some]
    whole = gradient(None) - none
    parts = [
        (gradient([k]) - none) / (labels == labels[k]).sum() / len(set(labels.tolist()))
        for k in range(len(some))
    ]
    assert relative(np.sum(parts, axis=0), whole) < 1e-4
    assert relative(gradient(range(len(some))) - none, whole) < 1e-6


def test_a_step_that_sees_a_part_of_a_class_moves_that_share_of_its_prototype():
    """The gradient by the oracle: an image is one of all of its class in a prototype, not of those seen."""
    network, some = toy("blocks"), [0, 1, 3, 5, 6]
    made = trainer(network, recipe(everything(network)), IMAGES, LABELS, step=len(some))
    made.run("start")
    oracle = Oracle(network)
    run, labels = oracle.forward(IMAGES[some]), LABELS[some]
    sizes, seen = np.bincount(LABELS), np.bincount(labels)
    rest = np.random.default_rng(0).standard_normal(made.prototypes.shape).astype("f")
    made.prototypes[:] = rest
    made.compute_gradients([(0, i) for i in some], [(0, i) for i in some], sampled=range(len(some)))
    # The same prototypes from a support whose unseen images all have the embedding `rest`.
    unseen = np.repeat(np.arange(3), sizes - seen)
    support, of = np.concatenate([run.embeddings, rest[unseen]]), np.concatenate([labels, unseen])
    loss = prototype_loss(support, of, run.embeddings, labels)
    assert_equals_oracle(made, oracle.backward(run, loss.grad_support[: len(some)] + loss.grad_queries))


@pytest.mark.parametrize("sets", [0, 1, 2])
def test_cached_features_are_those_of_the_frozen_part_in_8_bits(sets):
    """With one set the clean images are cached, with two also view 1; the rest is computed again."""
    network, first = toy("blocks"), 9
    plan = recipe(u for u in everything(network) if u.layer >= first)
    made, _ = step_gradients(network, plan, sets=sets)
    oracle = Oracle(network)
    features = [oracle.forward(augmented(view), 0, first).output for view in (0, 1)]
    for view in range(sets):
        for i, exact in enumerate(features[view]):
            low, step = map(float, made.bind.array("cached feature ranges")[view][i])
            cached = low + step * made.bind.array("cached features")[view][i].reshape(exact.shape)
            assert abs(cached - exact).max() < 0.501 * step and abs(np.ptp(exact) / 255 - step) < 1e-5 * step
            features[view][i] = cached
    run = oracle.forward(np.concatenate(features), first)
    n = len(LABELS)
    loss = prototype_loss(run.embeddings[:n], LABELS, run.embeddings[n:], LABELS)
    g = np.concatenate([loss.grad_support, loss.grad_queries])
    assert_equals_oracle(made, oracle.backward(run, g, first), 5e-5)


@NETWORKS
@each("step", ["both", "constant"])
def test_steps_of_plain_sgd_equal_those_of_the_oracle(name, step):
    """Every layer's gradient is taken at the old weights, then all of them move."""
    network, oracle = toy(name), Oracle(toy(name))
    updates = random_updates(network, "steps")
    plan = recipe(updates, step=step)
    made = trainer(network, plan, IMAGES, LABELS, augmentation=augmentation)
    made.run("start")
    for number in range(1, 4):
        made.step(number, items(len(LABELS)), items(len(LABELS), number))
        _, want = gradients(oracle, IMAGES, LABELS, augmented(number), LABELS, step)
        for slot in made.slots:
            rate = plan.rates[0][slot.part == "bias"]
            target, g = {
                "weight": (oracle.weights, want.weights), "bias": (oracle.biases, want.biases),
            }[slot.part]  # fmt: skip
            target[slot.layer][block_of(slot)] -= rate * g[slot.layer][block_of(slot)]
    for i in range(len(network.layers)):
        assert relative(made.working.weight(i), oracle.weights[i]) < 1e-5
        assert relative(made.working.bias(i), oracle.biases[i]) < 1e-5


def block_of(slot):
    """Index of the part of a weight or bias that a slot trains."""
    rows = slice(None) if slot.inputs is None else np.array(slot.inputs)[:, None]
    return (list(slot.channels),) if slot.part == "bias" else (rows, list(slot.channels))


def test_weights_are_written_after_the_last_gradient_of_a_step():
    network = toy("blocks")
    table, calls = calls_of()
    made = trainer(network, recipe(everything(network)), IMAGES, LABELS, table=table, micro=3)
    made.run("start")
    calls.clear()
    made.step(1, items(len(LABELS)), items(len(LABELS)))
    names = [name for name, _ in calls]
    last_use = max(k for k, name in enumerate(names) if "grad" in name or name == "matmul")
    assert names.index("take_step") > last_use
    own = [made.working.part(*part) for part in made.working.own]
    writes = [k for k, (_, args) in enumerate(calls) if any(np.may_share_memory(args[0], a) for a in own)]
    assert min(writes) > names.index("take_step") and len(writes) == len(made.slots)


@NETWORKS
@each("optimizer", ["sgd", "momentum", "adam"])
def test_trained_numbers_are_what_the_network_then_uses_and_the_rest_keeps_every_bit(name, optimizer):
    network = toy(name)
    plan = recipe(random_updates(network, optimizer), optimizer=optimizer)
    made = trainer(network, plan, IMAGES, LABELS)
    made.run("start")
    before = made.trained.copy()
    for number in (1, 2):
        made.step(number, items(len(LABELS)), items(len(LABELS)))
    assert (made.trained != before).mean() > 0.5
    expected = (
        [network.float_weight(i) for i in range(len(network.layers))],
        [b.copy() for b in network.biases],
    )
    for slot in made.slots:
        values = made.trained[slot.start : slot.start + slot.size].reshape(slot.shape)
        expected[slot.part == "bias"][slot.layer][block_of(slot)] = values
    for i, (weight, bias) in enumerate(zip(*expected, strict=True)):
        assert made.working.weight(i).tobytes() == weight.tobytes()
        assert made.working.bias(i).tobytes() == bias.tobytes()


@NETWORKS
@each(
    "step, share, through",
    [
        ("both", 1.0, 1.0),
        ("constant", 1.0, 1.0),
        ("constant", 0.5, 1.0),
        ("both", 0.4, 0.25),
        ("both", 1.0, 0.1),
    ],
)
def test_macs_that_are_executed_are_those_of_the_plan(name, step, share, through):
    network = toy(name)
    plan = recipe(random_updates(network, 5), step=step, options=StepOptions(share, through))
    made = trainer(network, plan, IMAGES, LABELS, micro=2)
    ran = []
    for unit in made.units.values():
        for segment, (calls, _) in unit.segments.items():
            macs = made.program.segments[segment].backward_macs
            calls.insert(0, (lambda macs=macs: ran.append(macs), ()))
    made.run("start")
    support = items(len(LABELS))
    chosen = sampled_items(plan, LABELS, support, 0, 1)
    made.step(1, support, support, sampled=chosen)
    assert sum(ran) / len(LABELS) == pytest.approx(backward_macs_per_query(network, plan, len(LABELS)))


def test_only_biases_can_be_trained():
    network = toy("headed")
    made, _ = step_gradients(network, recipe((Update(3, bias=True), Update(6, bias=True))))
    assert_equals_oracle(made, exact_gradients(network)[1])


def test_a_step_that_sees_a_part_of_a_class_replaces_that_share_of_its_prototype():
    network = toy("blocks")
    made = trainer(network, recipe(everything(network)), IMAGES, LABELS, step=5)
    made.run("start")
    old = np.random.default_rng(0).standard_normal(made.prototypes.shape).astype("f")
    made.prototypes[:] = old
    some = [0, 1, 2, 3, 6]  # three of the four images of class 0, one of three of class 1 and of two of 2
    made.compute_gradients([(0, i) for i in some], [(0, i) for i in some])
    embeddings = Oracle(network).forward(IMAGES).embeddings
    for k in range(3):
        members = [i for i in some if LABELS[i] == k]
        share = len(members) / (k == LABELS).sum()
        want = (1 - share) * old[k] + share * embeddings[members].mean(axis=0)
        assert relative(made.prototypes[k], want) < 1e-5
