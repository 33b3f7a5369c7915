"""A compact transformer from ONNX: one step of training is that of Deeploy, whose files are not part of this.

`TINYTRAIN_CCT` names the folder `DeeployTest/Tests/Models/CCT_Train` of github.com/pulp-platform/Deeploy.
"""

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
from cases import each
from toynets import recipe, relative
from toysegments import backward_segment, ran

from tinytrain.backbones.onnx.check import embeddings
from tinytrain.backbones.onnx.convert import import_onnx
from tinytrain.network.input_spec import InputSpec
from tinytrain.plan.recipe import Update
from tinytrain.program.trained_arrays import slots

RATE = 0.01
SPEC = InputSpec((32, 32, 3), "float32", 0.0, 1.0, kind="motion")
TRAINED = {"CCT2_LP": 1290, "CCT2_FT1": 99_723, "CCT2_FT2": 198_027, "CCT2_LoRA1": 7563, "CCT2_LoRA2": 13_707}


@pytest.fixture
def folder():
    found = os.environ.get("TINYTRAIN_CCT")
    if not found:
        pytest.skip("TINYTRAIN_CCT does not name the folder of Deeploy's training steps of CCT")
    return Path(found)


def head_gradients(embedding, label, weight, bias):
    """Gradients of embedding, weight and bias of a classifier, by the cross-entropy of one image."""
    logits = weight.astype(float) @ embedding + bias
    p = np.exp(logits - logits.max())
    p /= p.sum()
    p[label] -= 1
    return p @ weight, np.outer(p, embedding), p


def places_of(imported):
    """(layer, part) of each constant; of equal ones by their order, which is that of the nodes."""
    network, found = imported.network, {}
    own = {(i, "weight"): network.float_weight(i) for i in range(len(network.layers))}
    own |= {(i, "bias"): network.bias(i) for i in range(len(network.layers))}
    for node in imported.graph.nodes:
        for name in imported.graph.constants.keys() & set(node.inputs):
            start = imported.graph.constants[name]
            alike = (place for place, array in own.items() if np.array_equal(array, start))
            if place := next((place for place in alike if place not in found.values()), None):
                found[name] = place
    return found


@each("name", TRAINED)
def test_a_step_of_training_is_that_of_deeploy(folder, name):
    imported = import_onnx(folder / name / "network_infer.onnx", spec=SPEC)
    network, constants = imported.network, imported.graph.constants
    given, wanted = (np.load(folder / name / file) for file in ("inputs.npz", "outputs.npz"))
    starts = {key: constants[key.removesuffix("_updated")] for key in wanted.files}
    named = {f"{name}_updated": place for name, place in places_of(imported).items()}
    places = {key: named[key] for key in starts if "_fc_" not in key}
    updates = tuple(
        Update(i, tuple(range(network.layers[i].cout)) if (i, "weight") in places.values() else (),
               (i, "bias") in places.values())
        for i in sorted({i for i, _ in places.values()})
    ) or (Update(len(network.layers) - 1, bias=True),)  # fmt: skip
    segment, source, g, gradients = backward_segment(network, updates)
    image = np.ascontiguousarray(given["input"].transpose(0, 2, 3, 1))
    arrays = {source: image, g: np.zeros(g.shape, "f"), gradients: np.zeros(gradients.shape, "f")}
    (embedding,) = embeddings(network, image)
    fc = (constants["classifier_fc_weight"], constants["classifier_fc_bias"])
    arrays[g][0], *of_head = head_gradients(embedding, int(given["labels"][0]), *fc)
    ran(segment, network, arrays, updates)
    found = {"classifier_fc_weight_updated": of_head[0], "classifier_fc_bias_updated": of_head[1]}
    for slot in slots(network, recipe(updates)):
        key = next((k for k, place in places.items() if place == (slot.layer, slot.part)), None)
        if key:
            found[key] = arrays[gradients][slot.start : slot.start + slot.size].reshape(slot.shape)
    assert found.keys() == starts.keys() and sum(x.size for x in starts.values()) == TRAINED[name]
    for key, start in starts.items():
        after = start - RATE * found[key]
        moved = np.linalg.norm(wanted[key].astype(float) - start)
        assert relative(after, wanted[key].astype(float)) < 1e-6, key
        assert np.linalg.norm(after - wanted[key]) < 1e-3 * moved + 1e-6, key
