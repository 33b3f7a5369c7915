"""Networks of other shapes than the published ones are computed rightly or refused, never wrongly."""

import numpy as np
import pytest
from cases import each
from oracle import Oracle
from toynets import everything, features_of, recipe, relative, toy
from toysegments import backward_case, forward_segment, ran

from tinytrain.base.errors import InputError
from tinytrain.program.trained_arrays import slots

STEM = ("conv", 8, 3, 2, True, 0, False)
COMPUTED = {
    "only a stem": (STEM,),
    "a stem without relu6": (("conv", 8, 3, 2, False, 0, False), ("pointwise", 6, 1, 1, False, 1, False)),
    "a stem of single pixels": (("conv", 8, 1, 1, True, 0, False), ("pointwise", 6, 1, 1, False, 1, False)),
    "a stem inside a block": (
        STEM, ("depthwise", 8, 3, 1, True, 0, False), ("pointwise", 6, 1, 1, False, 0, False),
    ),
    "two pointwise in a block": (
        STEM, ("pointwise", 6, 1, 1, True, 1, False), ("pointwise", 5, 1, 1, False, 1, False),
    ),
    "a block of one residual layer": (STEM, ("pointwise", 8, 1, 1, False, 1, True)),
    "a lone depthwise layer at the end": (STEM, ("depthwise", 8, 3, 1, True, 1, False)),
    "a depthwise layer at the end of a block": (
        STEM, ("pointwise", 6, 1, 1, True, 1, False), ("depthwise", 6, 3, 2, True, 1, False),
    ),
    "two depthwise in a block": (
        STEM, ("pointwise", 6, 1, 1, True, 1, False), ("depthwise", 6, 3, 1, True, 1, False),
        ("depthwise", 6, 5, 1, False, 1, False), ("pointwise", 8, 1, 1, False, 1, True),
    ),
    "a pointwise layer after a block's last": (
        STEM, ("pointwise", 6, 1, 1, True, 1, False), ("depthwise", 6, 3, 1, True, 1, False),
        ("pointwise", 6, 1, 1, False, 1, False), ("pointwise", 4, 1, 1, False, 1, False),
    ),
    "a dense convolution that opens a block": (
        STEM, ("conv", 6, 5, 2, True, 1, False), ("pointwise", 5, 1, 1, False, 1, False, "hard-swish"),
    ),
    "dense convolutions of single pixels with a stride": (
        STEM, ("conv", 6, 1, 2, False, 1, False, "relu"), ("conv", 6, 1, 1, False, 1, False),
    ),
    "a shortcut around depthwise layers": (
        STEM, ("pointwise", 8, 1, 1, False, 1, False, "relu"), ("depthwise", 8, 3, 2, False, 1, False),
        ("conv", 8, 1, 2, False, 1, False, "relu", "shortcut"), ("pointwise", 4, 1, 1, False, 2, False),
    ),
    "dense layers between depthwise ones": (
        STEM, ("conv", 6, 3, 1, True, 1, False), ("depthwise", 6, 3, 1, True, 1, False),
        ("pointwise", 6, 1, 1, False, 1, False),
    ),
    "max pooling in the middle": (
        STEM, ("pointwise", 6, 1, 1, True, 1, False, "max_pool"),
        ("depthwise", 6, 3, 1, False, 2, False, "relu", "max_pool"),
    ),
    "max pooling without an activation": (("conv", 8, 3, 2, False, 0, False, "max_pool"),),
    "max pooling behind a sum": (STEM, ("conv", 8, 3, 1, False, 1, True, "relu", "max_pool")),
    "a hard sigmoid elsewhere": (STEM, ("pointwise", 8, 1, 1, False, 1, False, "hard-sigmoid")),
    "a squeeze without excitation": (
        STEM, ("squeeze", 8, 1, 1, True, 1, False), ("pointwise", 8, 1, 1, False, 1, False),
    ),
    "a squeeze at the end": (STEM, ("squeeze", 8, 1, 1, True, 1, False)),
    "a sum in the middle of a block": (
        STEM, ("pointwise", 8, 1, 1, False, 1, True, "relu"), ("conv", 5, 3, 1, False, 1, False),
    ),
    "an excitation at the end": (
        STEM, ("squeeze", 3, 1, 1, True, 1, False), ("excite", 8, 1, 1, False, 1, False, "hard-sigmoid"),
    ),
    "squeezed to nothing": (
        STEM, ("pointwise", 6, 1, 1, False, 1, False, "relu"),
        ("squeeze", 1, 1, 1, False, 1, False, "hard-swish"),
        ("excite", 6, 1, 1, False, 1, False, "hard-sigmoid"), ("conv", 8, 3, 1, False, 1, True, "relu"),
    ),
    "no relu6 at all": (
        STEM, ("pointwise", 6, 1, 1, False, 1, False), ("depthwise", 6, 3, 1, False, 1, False),
        ("pointwise", 6, 1, 1, False, 1, False),
    ),
}  # fmt: skip
RESIDUAL = "file-damaged: .*a residual layer is pointwise or dense, with ReLU, GELU or no activation"
REFUSED = {
    "a shortcut that is a sum already": (
        "file-damaged: .*a shortcut has other layers in its block",
        (STEM, ("conv", 8, 3, 1, True, 1, False), ("pointwise", 8, 1, 1, False, 1, True, "shortcut")),
    ),
    "a shortcut to fewer pixels": (
        "file-damaged: .*cannot add the output",
        (STEM, ("conv", 6, 3, 2, True, 1, False), ("pointwise", 6, 1, 1, False, 1, False, "shortcut")),
    ),
    "a depthwise shortcut": (
        RESIDUAL,
        (STEM, ("pointwise", 8, 1, 1, True, 1, False), ("depthwise", 8, 3, 1, False, 1, False, "shortcut")),
    ),
    "hard-swish behind a sum": (RESIDUAL, (STEM, ("conv", 8, 3, 1, False, 1, True, "hard-swish"))),
    "an excitation of other channels": (
        "unsupported: .*as many channels as that takes",
        (STEM, ("squeeze", 8, 1, 1, True, 1, False), ("excite", 4, 1, 1, False, 1, False, "hard-sigmoid")),
    ),
    "no stem": (
        "unsupported: .*the first layer is a dense convolution",
        (("pointwise", 4, 1, 1, True, 0, False),),
    ),
    "relu6 behind a sum": (RESIDUAL, (STEM, ("pointwise", 8, 1, 1, True, 1, True))),
    "an addition to a depthwise layer": (RESIDUAL, (STEM, ("depthwise", 8, 3, 1, False, 1, True))),
}


@each("rows", COMPUTED.values(), ids=COMPUTED)
@each("size", [16, 15])
def test_networks_of_any_accepted_shape_equal_the_oracle(rows, size):
    network = toy(rows, size)
    oracle, x = Oracle(network), features_of(network, 0, 2)
    want = oracle.forward(x)
    for n in (1, 2):
        segment, source = forward_segment(network, 0, len(network.layers), n)
        (out,) = ran(segment, network, {source: x[:n]})
        np.testing.assert_allclose(out, want.output[:n], rtol=1e-5, atol=1e-5)
    updates = everything(network)
    segment, arrays = backward_case(network, updates, n=2)
    ran(segment, network, arrays, updates)
    _, g, found = arrays.values()
    exact = oracle.backward(want, g.astype(float))
    for slot in slots(network, recipe(updates)):
        got = found[slot.start : slot.start + slot.size].reshape(slot.shape)
        assert relative(got, {"weight": exact.weights, "bias": exact.biases}[slot.part][slot.layer]) < 1e-5


@each("said, rows", REFUSED.values(), ids=REFUSED)
def test_networks_that_the_engine_cannot_run_are_refused_for_what_is_wrong(said, rows):
    with pytest.raises(InputError, match=said):
        toy(rows)
