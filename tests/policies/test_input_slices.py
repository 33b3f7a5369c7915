"""Training some input channels of a pointwise layer: exact, with bytes and MACs in proportion."""

from dataclasses import replace

import numpy as np
import pytest
from cases import each
from oracle import Oracle, prototype_loss
from toynets import everything, gradient_of, recipe, toy
from toysegments import backward_segment
from toysteps import IMAGES, LABELS, assert_equals_oracle, augmented, exact_gradients, step_gradients

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.safetensors import decode, encode
from tinytrain.delta.delta import Slice, apply
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget, TaskShape
from tinytrain.plan.costs import image_macs, n_trained
from tinytrain.plan.recipe import Recipe, Resources, Update, check_updates
from tinytrain.policies.common import Policy
from tinytrain.program.calls import BACKWARD
from tinytrain.program.compile import compile_training
from tinytrain.runtime.predict import Predictor

# In the network "blocks": an expand and a project layer, one with only some output channels.
SLICES = (Update(6, tuple(range(18)), inputs=(7, 0, 3)), Update(11, (5, 2), True, (15, 1, 4, 8)))


def recipe_of(network, *_):
    """In layer 6 all outputs of 5 inputs, in layer 8 three outputs of two inputs."""
    cout = network.layers[6].cout
    updates = (Update(6, tuple(range(cout)), True, (4, 0, 5, 2, 7)), Update(8, (1, 3, 0), inputs=(6, 2)))
    return Recipe("slices", updates, ((1e-2, 1e-2),) * 2, steps=3, head="cosine", views=3)


POLICY = Policy("slices", recipe_of, "none", macs_limited=False)


@pytest.fixture(scope="module")
def network():
    return toy_network()


@pytest.fixture(scope="module")
def delta(network):
    return adapt(network, toy_episode(), Budget(2**22), POLICY, force=True).delta


@each("step", ["both", "constant"])
@each("micro", [1, 4])
def test_the_gradient_of_a_slice_equals_the_oracle(step, micro):
    network = toy("blocks")
    made, _ = step_gradients(network, recipe(SLICES, step=step), micro=micro)
    assert_equals_oracle(made, exact_gradients(network, step)[1])


def test_the_gradient_of_a_slice_equals_finite_differences():
    """Moving the slice along its own gradient changes the loss by the square of its norm."""
    network = toy("blocks")
    made, _ = step_gradients(network, recipe(SLICES))
    oracle, size = Oracle(network), 1e-8
    for update in SLICES:
        g = gradient_of(made, update.layer, "weight").astype(float)
        block = np.ix_(sorted(update.inputs), sorted(update.channels))
        losses = []
        for sign in (1, -1):
            oracle.weights[update.layer][block] += sign * size * g
            embeddings = oracle.forward(np.concatenate([IMAGES, augmented(1)])).embeddings
            n = len(LABELS)
            losses.append(prototype_loss(embeddings[:n], LABELS, embeddings[n:], LABELS).mean)
            oracle.weights[update.layer][block] -= sign * size * g
        slope = (losses[0] - losses[1]) / (2 * size)
        assert slope == pytest.approx((g * g).sum(), rel=1e-4)


def test_only_the_input_channels_of_the_slice_are_saved():
    network = toy("blocks")
    whole = replace(SLICES[0], inputs=None)
    segment, *_ = backward_segment(network, SLICES[:1])
    saved = {b.name: b.shape for b in segment.offsets}
    layer = network.layers[6]
    assert saved[f"{layer.name} saved input"] == (1, *layer.in_hw, 3)
    full, *_ = backward_segment(network, (whole,))
    assert bytes_saved(full) - bytes_saved(segment) == 4 * layer.in_hw[0] * layer.in_hw[1] * (layer.cin - 3)


def bytes_saved(segment):
    """Bytes that the forward pass saves for the backward pass."""
    turn = next(k for k, call in enumerate(segment.calls) if call.kernel == "pool_grad")
    return sum(i.nbytes for i in segment.layout.intervals if i.first < turn < i.last)


def test_features_that_a_lane_holds_anyway_are_not_copied_before_they_are_needed():
    segment, source, *_ = backward_segment(toy("blocks"), SLICES[:1], first=6)
    uses = [k for k, c in enumerate(segment.calls) if any(getattr(a, "buffer", 0) is source for a in c.args)]
    assert [segment.calls[k].kernel for k in uses] == ["matmul", "add_bias_residual", "gather_columns"]
    assert uses[-1] > next(k for k, c in enumerate(segment.calls) if c.kernel == "pool_grad")


def test_an_eighth_of_the_inputs_costs_an_eighth_of_parameters_and_weight_macs():
    network = toy("blocks")
    (whole,) = (u for u in everything(network, bias=False) if u.layer == 6)
    eighth = replace(whole, inputs=(2,))
    assert 8 * n_trained(network, (eighth,)) == n_trained(network, (whole,))
    above = sum(layer.macs for layer in network.layers[7:])
    assert 8 * (image_macs(network, (eighth,)) - above) == image_macs(network, (whole,)) - above
    some, every = (
        compile_training(network, recipe((u,)), Resources(2, 2, 9, 9), TaskShape(9, 3)).table()
        for u in (eighth, whole)
    )
    sizes = [sum(r["bytes"] for r in rows if r["first"] <= BACKWARD <= r["last"]) for rows in (some, every)]
    assert sizes[0] < sizes[1]


def test_a_delta_of_slices_survives_the_file_and_changes_nothing_else(network, delta):
    assert [(s.layer, s.part, s.inputs is None) for s in delta.slices] == [
        (6, "weight", False), (6, "bias", True), (8, "weight", False),
    ]  # fmt: skip
    again = decode_delta(*decode(encode_delta(delta)))
    assert encode_delta(again) == encode_delta(delta)
    adapted = apply(network, again)
    for i in range(len(network.layers)):
        expected = network.float_weight(i)
        for s in delta.slices:
            if (s.layer, s.part) == (i, "weight"):
                block = np.ix_(s.inputs, s.channels)
                assert (expected[block] != s.values).mean() > 0.9
                expected[block] = s.values
        assert adapted.float_weight(i).tobytes() == expected.tobytes()


def test_predictions_with_the_file_are_those_of_the_adaptation(network):
    episode = toy_episode()
    report = adapt(network, episode, Budget(2**22), POLICY, force=True)
    predictor = Predictor(network, decode_delta(*decode(encode_delta(report.delta))))
    assert (predictor.probabilities(episode.query).argmax(axis=1) == report.answers.after).all()


DAMAGES = {
    "inputs that fall": (lambda t: t.update({"6.weight.inputs": t["6.weight.inputs"][::-1].copy()}), "rise"),
    "no inputs": (lambda t: t.update({"6.weight.inputs": t["6.weight.inputs"][:0]}), "a row of"),
    "inputs as floats": (lambda t: t.update({"6.weight.inputs": np.ones(5, np.float32)}), "a row of"),
    "more inputs than rows": (lambda t: t.update({"6.weight.inputs": np.arange(6, dtype="i4")}), "5 rows"),
    "inputs alone": (lambda t: t.pop("6.weight.values") is None or t.pop("6.weight.channels"), "must have"),
    "inputs of a bias": (lambda t: t.update({"6.bias.inputs": t["6.weight.inputs"]}), "is no part of"),
}


@each("name", DAMAGES)
def test_damaged_inputs_are_refused_for_what_is_wrong(delta, name):
    damage, fact = DAMAGES[name]
    tensors, metadata = decode(encode_delta(delta))
    tensors = dict(tensors)
    damage(tensors)
    with pytest.raises(InputError, match=fact):
        decode_delta(*decode(encode(tensors, metadata)))


@pytest.mark.parametrize(
    "layer, inputs, rows",
    [(6, [0, 99], 2), (7, [0, 1], 2), (6, [0, 1, 2], 2)],
    ids=["far", "depthwise", "rows"],
)
def test_inputs_that_do_not_fit_the_backbone_are_refused(network, delta, layer, inputs, rows):
    bad = Slice(layer, "weight", np.zeros(1, "i4"), np.zeros((rows, 1), "f"), np.array(inputs, "i4"))
    with pytest.raises(InputError, match=r"file-damaged: .*(input channels up to|do not fit)"):
        apply(network, replace(delta, slices=(bad,)))


@each(
    "updates",
    [
        (Update(7, (0,), inputs=(1,)),),  # depthwise
        (Update(6, (0,), inputs=()),),
        (Update(6, (), True, (0,)),),
        (Update(6, (0,), inputs=(0, 0)),),
        (Update(6, (0,), inputs=(8,)),),
        (Update(6, (18,)),),
        (Update(6, (-1,)),),
        (Update(6),),
        (Update(9, (0,)), Update(6, (0,))),
        (Update(6, (0,)), Update(6, bias=True)),
        (Update(15, bias=True),),
    ],
)
def test_updates_that_a_network_cannot_follow_are_refused(updates):
    with pytest.raises(UsageError, match=r"usage: .*; correct the policy"):
        check_updates(toy("blocks"), updates)


def test_updates_that_a_network_can_follow_pass():
    check_updates(toy("blocks"), SLICES)
    check_updates(toy("blocks"), everything(toy("blocks")))
    check_updates(toy("blocks"), ())
