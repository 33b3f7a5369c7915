"""The neurons of a chip against published examples and rules worked out by hand, to the last bit."""

import numpy as np

from tinytrain.heads.neurons import DEGENERATE, MAX_CATEGORY, Neurons


def machine(n=8, length=4, **settings):
    registers = (np.zeros(n, dtype) for dtype in (np.uint16, np.uint16, np.uint8))
    return Neurons(np.zeros((n, length), np.uint8), *registers, **settings)


def flat(value, length=4):
    return np.full(length, value, np.uint8)


def used(neurons):
    return neurons.fields[neurons.categories != 0].tolist()


def taught(*examples, **settings):
    neurons = machine(**settings)
    for value, category in examples:
        neurons.learn(flat(value), category)
    return neurons


def test_the_simple_script_of_the_shield_gives_its_fields_and_answers():
    """The example that General Vision publishes for its NeuroShield board."""
    neurons = taught((11, 55), (15, 33), (20, 100))
    assert used(neurons) == [16, 16, 20]
    assert neurons.firing(flat(12)) == [(4, 55), (12, 33)]
    assert neurons.firing(flat(15)) == [(0, 33)]
    neurons.learn(flat(13), 100)
    assert used(neurons) == [8, 8, 20, 8]


def test_a_new_field_ends_at_the_closest_neuron_also_of_its_own_category():
    """7 is 12 from the neuron at 10, of its own category and too narrow to fire, and 20 from that at 12.

    By the other reading, in which only neurons of other categories count, its field would be 20.
    """
    neurons = taught((10, 1), (12, 2))
    assert used(neurons) == [8, 8]
    neurons.learn(flat(7), 1)
    assert used(neurons) == [8, 8, 12]


def test_neurons_of_another_context_neither_fire_nor_shrink():
    neurons = machine()
    neurons.learn(flat(10), 1, context=1)
    neurons.learn(flat(11), 2, context=2)
    assert used(neurons) == [0x4000, 0x4000]
    assert neurons.firing(flat(10), 1) == [(0, 1)] and neurons.firing(flat(10), 2) == [(4, 2)]
    assert neurons.firing(flat(10), 3) == []


def test_a_neuron_that_cannot_shrink_further_is_degenerate_and_keeps_its_category():
    neurons = machine(length=1)
    neurons.learn(flat(10, 1), 5)
    neurons.learn(flat(11, 1), 6)
    assert used(neurons) == [2, 2]
    assert neurons.categories[:2].tolist() == [5 | DEGENERATE, 6 | DEGENERATE]
    assert neurons.firing(flat(10, 1)) == [(0, 5), (1, 6)]


def test_category_0_says_what_a_pattern_is_not_and_needs_no_neuron():
    neurons = taught((10, 1))
    assert neurons.learn(flat(15), 0)
    assert used(neurons) == [20] and not neurons.firing(flat(15))


def test_what_is_known_needs_no_neuron_and_a_full_chip_says_so():
    neurons = taught((0, 1), (200, 2), n=2)
    assert neurons.learn(flat(1), 1) and used(neurons) == [800, 796]
    assert not neurons.learn(flat(201), 3)
    assert used(neurons) == [800, 4], "it has shrunk the field that fired wrongly"


def test_a_forgotten_neuron_leaves_the_others_in_their_order():
    neurons = taught((0, 1), (100, 2), (200, 3))
    neurons.forget(1)
    assert neurons.categories[:3].tolist() == [1, 3, 0]
    assert neurons.patterns[:3, 0].tolist() == [0, 200, 0]
    neurons.learn(flat(100), 4)
    assert neurons.categories[:3].tolist() == [1, 3, 4]


def test_many_neurons_answer_as_sums_over_all_of_them_say():
    """More than fit into one block, with differences that bytes cannot hold."""
    rng = np.random.default_rng(0)
    neurons = machine(n=100, length=256)
    patterns = rng.integers(0, 256, (100, 256), np.uint8)
    neurons.patterns[:], neurons.categories[:] = patterns, rng.integers(1, MAX_CATEGORY, 100)
    neurons.contexts[:] = rng.integers(1, 3, 100)
    pattern = rng.integers(0, 256, 256, np.uint8)
    expected = np.abs(patterns.astype(int) - pattern.astype(int)).sum(axis=1)
    found, distances = neurons.distances(pattern, 2)
    assert found.tolist() == np.flatnonzero(neurons.contexts == 2).tolist()
    assert distances.tolist() == expected[found].tolist()
