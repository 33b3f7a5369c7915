"""Whole adaptations with bound calls in machine code, and with Python between them."""

import numpy as np
import pytest
from cases import each

from tinytrain.kernels.dispatch.native_calls import join_native
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.runtime import bind as binding
from tinytrain.runtime.device import Device

pytest.importorskip("numba")


@each("policy", ["tinytrain", "trady", "full", "tinytl"])
def test_an_adaptation_has_the_same_bits_with_python_between_the_calls(monkeypatch, policy):
    network, episode, made, results = toy_network(), toy_episode(shots=3), [], []
    for way in (join_native, list):

        def counted(calls, way=way):
            calls = [call for call in calls if call]
            found = way(calls)
            made.append(len(calls) - len(found))
            return found

        monkeypatch.setattr(binding, "join_native", counted)
        made.clear()
        results.append(adapt(network, episode, Budget(10**7), policy, device=Device(threads=2), force=True))
        assert (sum(made) > 100) == (way is join_native)
    a, b = results
    assert a.ran.losses == b.ran.losses
    for left, right in zip(a.delta.arrays(), b.delta.arrays(), strict=True):
        np.testing.assert_array_equal(left, right)
