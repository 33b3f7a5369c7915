"""Copies of a network share what nobody trains; what is trained goes back, and nothing stays bound."""

import gc
import weakref

import numpy as np
from cases import each
from int8nets import toy8
from toydevices import ONE

from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode
from tinytrain.plan.budget import Budget
from tinytrain.program.backends.int8_copy import Int8Copy
from tinytrain.program.backends.working_copy import FROZEN, WorkingCopy, parts_of, working_copy
from tinytrain.runtime import adaptation, embedder
from tinytrain.runtime.trainer import Trainer

PRECISIONS = each("precision, kind", [("float32", WorkingCopy), ("int8", Int8Copy)])
POLICIES = each("policy", ["tinytrain", "last_layer", "bias_only"])


def adapted(network, policy, precision):
    budget = Budget(10**6 if precision == "float32" else 80_000, precision=precision)
    return adapt(network, toy_episode(), budget, policy, device=ONE, force=True)


def arrays(copy, part):
    """All arrays of a part of a copy."""
    values = copy._parts[part]
    return list(values.values()) if isinstance(values, dict) else [values]


def held(copy, part):
    return [array.tobytes() for array in arrays(copy, part)]


@PRECISIONS
@POLICIES
def test_copies_have_one_memory_for_what_is_not_trained_and_training_writes_to_none_of_it(
    monkeypatch, precision, kind, policy
):
    network, copies = toy8(), []

    def watched(*given):
        copies.append(working_copy(*given))
        return copies[-1]

    for module in (adaptation, embedder):
        monkeypatch.setattr(module, "working_copy", watched)
    embedder.Embedder(network, adapted(network, policy, precision).delta)
    trained, predicting = copies[-2:]
    fresh, common, every = kind(network), kind(network, ()), parts_of(range(len(network.layers)))
    assert 0 < len(trained.own) < len(every)
    for part in every:
        first, mine, its = (arrays(copy, part)[0] for copy in (common, trained, predicting))
        assert np.shares_memory(first, mine) == (part not in trained.own)
        # In int8 the sums of a layer depend on its bias, too.
        assert np.shares_memory(first, its) == (part not in trained.own) or precision == "int8"
        assert held(common, part) == held(fresh, part)
    trained.restore()
    assert all(held(trained, part) == held(fresh, part) for part in trained.own)


@PRECISIONS
def test_the_second_adaptation_of_a_network_gives_the_bytes_of_the_first(precision, kind):
    network = toy8()
    first, second = (adapted(network, "tinytrain", precision) for _ in range(2))
    assert [a.tobytes() for a in first.delta.arrays()] == [a.tobytes() for a in second.delta.arrays()]


@PRECISIONS
def test_what_was_bound_is_gone_with_the_call_without_a_collection_of_circles(monkeypatch, precision, kind):
    keep, bound = Trainer.__init__, []

    def made(self, *arguments):
        keep(self, *arguments)
        bound.extend(map(weakref.ref, (self, self.bind, *self.units.values())))

    monkeypatch.setattr(Trainer, "__init__", made)
    gc.collect()
    gc.disable()
    try:
        report = adapted(toy8(), "tinytrain", precision)
        assert bound and not [found() for found in bound if found() is not None]
    finally:
        gc.enable()
    assert report.delta.arrays()


def test_a_network_that_is_gone_leaves_nothing_shared():
    before = len(FROZEN)
    adapted(toy8(), "tinytrain", "float32")
    gc.collect()
    assert len(FROZEN) == before
