"""The backend whose weights are off: float32 at strength 0; a seed is an array, and a delta names it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cases import each
from headdata import unit
from toydevices import ONE
from toyfiles import write_images

from tinytrain.api.adapt import adapt_again
from tinytrain.base.errors import UsageError
from tinytrain.base.safetensors import decode
from tinytrain.delta.delta import apply
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.program.backends.noisy import Noisy, NoisyCopy
from tinytrain.program.backends.registry import find_backend
from tinytrain.runtime.embedder import Embedder
from tinytrain.stream.readapt import readapt

NETWORK, EPISODE = toy_network(), toy_episode()
THERE = "noisy:0.1:3"


@cache
def adapted(precision, policy="last_layer"):
    return adapt(NETWORK, EPISODE, Budget(10**6, precision=precision), policy, device=ONE, force=True).delta


def held(delta):
    return [array.tobytes() for array in delta.arrays()]


def embedded(precision, network=NETWORK, delta=None):
    return Embedder(network, delta, precision=precision).embed(EPISODE.support)


@each("policy", ["tinytrain", "last_layer", "tinytl"])
def test_with_strength_0_all_bits_are_those_of_float32(policy):
    plain, exact = adapted("float32", policy), adapted("noisy:0:3", policy)
    assert held(plain) == held(exact) and plain.slices
    assert (plain.precision, exact.precision) == ("float32", "noisy:0.0:3")
    assert embedded(None, delta=plain).tobytes() == embedded(None, delta=exact).tobytes()


def test_a_seed_is_an_array_and_the_strength_says_how_far_its_weights_are_off():
    first, other = adapted(THERE), adapted("noisy:0.1:4")
    adapted.cache_clear()
    assert held(first) == held(adapted(THERE)) != held(other)
    exact = embedded("float32")
    off = [np.abs(embedded(f"noisy:{strength}:3") - exact).mean() for strength in (0.001, 0.01, 0.1)]
    assert 0 < off[0] < off[1] < off[2]


@each("strength", [0.02, 0.3])
def test_errors_are_normal_and_relative_to_the_largest_weight_of_the_layer(strength):
    copy, errors = NoisyCopy(Noisy(strength, 5), NETWORK), []
    for i in range(len(NETWORK.layers)):
        exact = NETWORK.float_weight(i)
        errors.append(((copy.weight(i) - exact) / np.abs(exact).max() / strength).ravel())
        np.testing.assert_array_equal(copy.bias(i), NETWORK.bias(i))
        np.testing.assert_allclose(copy.part(i, "weight"), exact, atol=1e-6)
    errors = np.concatenate(errors)
    bound = 4 / np.sqrt(len(errors))  # four deviations of each estimate
    assert abs(errors.mean()) < bound and abs(errors.std() - 1) < bound
    assert abs((errors**3).mean()) < 4 * bound and abs((errors**4).mean() - 3) < 10 * bound


def test_a_delta_predicts_on_the_array_that_it_was_trained_on_from_a_file_too():
    """Its prototypes are the means of the embeddings that the array gave in the end."""
    delta = decode_delta(*decode(encode_delta(adapted(THERE))))
    assert delta.slices and delta.precision == THERE
    labels = EPISODE.support.labels

    def distance(embeddings):
        """Of unit means from prototypes; features were cached in 8 bits."""
        means = np.stack([unit(embeddings)[labels == k].mean(0) for k in range(len(delta.class_names))])
        return np.abs(unit(means) - delta.head.weights).max()

    assert distance(embedded(None, delta=delta)) < 0.01
    assert distance(embedded("float32", apply(NETWORK, delta))) > 0.3


def test_an_adaptation_that_goes_on_stays_on_the_array(tmp_path):
    remembering = replace(EPISODE, replay=2)
    budget = Budget(10**6, precision=THERE)
    delta = adapt(NETWORK, remembering, budget, "last_layer", device=ONE, force=True).delta
    assert adapt_again(NETWORK, delta, force=True, device=ONE).delta.precision == THERE
    exact = adapt_again(NETWORK, delta, budget=Budget(10**6, precision="float32"), force=True, device=ONE)
    assert exact.delta.precision == "float32"
    write_images(tmp_path, EPISODE.class_names, count=5)
    files = [(path, path.parent.name) for path in sorted(tmp_path.glob("*/*"))]
    after, why = readapt(NETWORK, adapted(THERE), files, ONE)
    assert after is not None and after.precision == THERE, why


@each(
    "precision, said",
    [
        ("noisy:2", "a share of the largest weight from 0 to 1 and a seed, such as noisy:0.03:7, not '2'"),
        ("noisy:0.1:-1", "not '0.1:-1'"),
        ("noisy:0.1:half", "not '0.1:half'"),
        ("noisy:nan", "not 'nan'"),
        ("noisy:", "not ''"),
        ("int8:3", "precision int8 has no options, not '3'; give int8"),
        ("niosy:0.1", "no precision 'niosy'; did you mean noisy"),
    ],
)
def test_what_is_no_backend_is_refused_in_one_line(precision, said):
    with pytest.raises(UsageError) as refused:
        find_backend(precision)
    assert said in str(refused.value)


def test_names_are_the_same_however_options_are_written():
    assert {find_backend(name).name for name in ("noisy", "noisy:0.03", "noisy:3e-2:0")} == {"noisy:0.03:0"}
