"""What was in use before comes back to the bit: after a trial that nobody confirmed, and after a roll-back.

Ten random deltas by default; ``TINYTRAIN_STORE_RUNS=200`` takes that many.
"""

import os
from dataclasses import replace

import numpy as np
import pytest

import tinytrain
from tinytrain.delta.delta import apply
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.policies.registry import find_policy
from tinytrain.store import Store

RUNS = int(os.environ.get("TINYTRAIN_STORE_RUNS", "10"))
NETWORK = toy_network()
IMAGES = toy_episode().query


@pytest.fixture(scope="module")
def pattern():
    """A delta whose values are replaced by random ones."""
    policy = find_policy("tinytrain")
    return tinytrain.adapt(NETWORK, toy_episode(), Budget(2**22), policy, force=True).delta


def random_delta(pattern, number):
    r = np.random.default_rng(number)

    def noise(array):
        return (array + r.normal(0, 0.1, array.shape)).astype(np.float32)

    slices = tuple(replace(s, values=noise(s.values)) for s in pattern.slices)
    head = replace(pattern.head, weights=noise(pattern.head.weights))
    return replace(pattern, slices=slices, head=head)


def in_use(start):
    """Bytes of every weight and bias, and of every answer, with the delta of `start`."""
    adapted = apply(NETWORK, start.delta)
    arrays = (*adapted.weights, *adapted.biases)
    answers = tinytrain.Predictor(NETWORK, start.delta).probabilities(IMAGES)
    return b"".join(a.tobytes() for a in arrays), answers.tobytes()


def test_what_was_confirmed_comes_back_to_the_bit(pattern, tmp_path):
    store = Store(tmp_path / "store")
    for number in range(RUNS):
        store.commit(random_delta(pattern, 2 * number))
        store.confirm()
        before = in_use(store.peek())
        for way_back in ("two starts", "roll-back on trial", "roll-back of a confirmed delta"):
            store.commit(random_delta(pattern, 2 * number + 1))
            weights, answers = in_use(store.start())
            assert weights != before[0] and answers != before[1]
            if way_back == "two starts":
                assert in_use(store.start()) == (weights, answers)
            elif way_back == "roll-back on trial":
                store.roll_back()
            else:
                store.confirm()
                store.roll_back()
            start = store.start()
            assert in_use(start) == before and start.confirmed
            assert len(start.warnings) == (way_back == "two starts")
