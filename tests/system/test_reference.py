"""The three published networks against reference vectors of an independent float64 implementation.

A float32 engine agrees with them to about 1e-5 until a ReLU6 unit lies closer to its kink (0 or 6)
than float32 can tell: one such unit taken for the other side changes the gradients below it by up
to 0.3 %. So the comparison has three parts. The float64 oracle of these tests equals the reference.
The engine, where its masks say otherwise than the oracle's, does so only at units within 1e-5 of a
kink. And with the engine's own masks put into the oracle, every gradient agrees to 1e-4.

Of the 306 gradients, 5 are beyond 1e-3 of the reference for that reason, on a processor with AVX-512; of
PyTorch 2.13 in float32 there, 8 in its default memory format and 10 in channels_last (a trial that no
command repeats).
"""

import json
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from oracle import Oracle, convolve_gradients, fisher, gradients
from toynets import everything, gradient_of, recipe, relative, trainer, watched

from tinytrain.backbones.torch_checkpoint import import_checkpoint
from tinytrain.base.arena import Arena
from tinytrain.plan.budget import TaskShape
from tinytrain.program.compile import compile_fisher
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.fisher import measure_fisher
from tinytrain.runtime.stage_runner import Source

NAMES = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")
SUPPORT, QUERY = np.arange(0, 8, 2), np.arange(1, 8, 2)
ORDER = np.concatenate([SUPPORT, QUERY])  # images in the order in which oracle and engine see them
LABELS = np.repeat(np.arange(4), 2)
KINK = 1e-5


class Case:
    """One network: reference vectors, oracle passes and what the engine makes of them."""

    def __init__(self, shared: Path, name: str):
        self.network = import_checkpoint(shared / f"backbones/upstream/{name}.pkl")
        self.reference = np.load(shared / f"reference/{name}.npz")
        self.images = self.reference["images"]
        self.oracle = Oracle(self.network)
        self._exact_weights(np.load(shared / f"backbones/{name}.npz"))
        self.run = self.oracle.forward(self.images[ORDER])
        self.layers = range(len(self.network.layers))
        self.plain_gradients = None

    def _exact_weights(self, neutral):
        """Float64 weights from the int8 ones: the engine's are rounded to float32."""
        rows, pending = {}, [json.loads(bytes(neutral["topology"]))]
        while pending:
            row = pending.pop()
            rows[row["name"]] = row
            pending += row.get("layers", [])
        for i, layer in enumerate(self.network.layers):
            scale = neutral[f"{layer.name}.w_scale"].astype(float)
            weight = neutral[f"{layer.name}.weight"] * scale[:, None, None, None]
            self.oracle.weights[i] = self.columns(i, weight)
            self.oracle.biases[i] = neutral[f"{layer.name}.bias"] * scale * rows[layer.name]["x_scale"]

    def columns(self, i, weight):
        """A weight (out, in, row, column) as the matrix (fan_in, out) of layer i."""
        layer = self.network.layers[i]
        return weight.transpose(2, 3, 1, 0).reshape(layer.fan_in, layer.cout)

    def reference_gradients(self, i):
        name = self.network.layers[i].name
        weight = self.columns(i, self.reference[f"grad/{name}.weight"].astype(float))
        return weight, self.reference[f"grad/{name}.bias"]

    def oracle_gradients(self, masks=None):
        classes = np.arange(4)
        if masks is not None and not self.flipped(masks):
            masks = None
        if masks is None and self.plain_gradients:
            return self.plain_gradients
        found = gradients(self.oracle, SUPPORT, classes, QUERY, classes, masks=masks, run=self.run)
        if masks is None:
            self.plain_gradients = found
        return found

    def oracle_fisher(self, masks=None):
        return fisher(self.oracle, None, LABELS[ORDER], masks=masks, run=self.run)[0]

    def engine(self, backend="auto"):
        """(trainer after one `both` step, its masks by layer in the order of ORDER)."""
        seen = []
        plan = recipe(everything(self.network))
        table = recorded_masks(seen, backend)
        made = trainer(self.network, plan, self.images, LABELS, table=table, step=4)
        made.run("start")
        self.loss = made.compute_gradients([(0, i) for i in SUPPORT], [(0, i) for i in QUERY])
        names = mask_names(made.program.segments["backward", 1])
        masks = self.by_layer(names, seen)
        return made, [None if m is None else m[[4, 5, 6, 7, 0, 1, 2, 3]] for m in masks]

    def engine_fisher(self, inspected):
        """(scores, masks by layer in the order of ORDER) of the probe on clean images."""
        seen = []
        program = compile_fisher(self.network, inspected, TaskShape(8, 4))
        source = Source(lambda i: self.images[ORDER[i]], lambda view, i: None, LABELS[ORDER])
        scores = measure_fisher(
            program, Arena(program.nbytes), WorkingCopy(self.network), recorded_masks(seen), source
        )
        masks = self.by_layer(mask_names(program.segments["fisher", 1]), seen)
        return scores, [m if m is not None else o for m, o in zip(masks, self.run.masks, strict=True)]

    def by_layer(self, names, seen):
        found = {name: [] for name in names}
        for k, mask in enumerate(seen):
            found[names[k % len(names)]].append(mask)
        return [
            np.stack(found[x.name]).reshape(-1, *x.out_hw, x.cout) if x.name in found else None
            for x in self.network.layers
        ]

    def flipped(self, masks):
        """{layer: largest distance from a kink of the units whose mask differs from the oracle's}."""
        found = {}
        for i, mask in enumerate(masks):
            if mask is not None and (mask != self.run.masks[i]).any():
                z = self.run.plain[i][mask != self.run.masks[i]]
                found[i] = np.minimum(abs(z), abs(z - 6)).max()
        return found


def recorded_masks(seen, backend="auto"):
    """Kernels that note every ReLU6 mask as 0 and 1."""

    def watch(name, args):
        bits, y = args
        mask = np.ones(y.size, np.float32)
        table.apply_mask(mask, bits)
        seen.append(mask > 0)

    table = watched(watch, backend, only=("pack_mask",))
    return table


def mask_names(segment):
    return [c.args[0].buffer.name.removesuffix(" mask") for c in segment.calls if c.kernel == "pack_mask"]


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    if "TINYTRAIN_SHARED" not in os.environ:
        pytest.skip("set TINYTRAIN_SHARED to the folder with backbones/ and reference/")
    return Case(Path(os.environ["TINYTRAIN_SHARED"]), request.param)


def test_the_oracle_equals_the_reference(case):
    loss, found = case.oracle_gradients()
    reference = case.reference
    assert relative(case.run.embeddings, reference["features"][ORDER]) < 1e-12
    assert relative(loss.logits, reference["logits"]) < 1e-12
    assert abs(loss.mean - reference["loss"]) < 1e-12
    for i in case.layers[1:]:
        weight, bias = case.reference_gradients(i)
        assert max(relative(found.weights[i], weight), relative(found.biases[i], bias)) < 1e-6
    for i, values in enumerate(case.oracle_fisher()):
        assert relative(values, reference[f"fisher/{case.network.layers[i].name}"]) < 1e-6


def test_the_reference_gradient_of_the_stem_hangs_on_units_at_zero_up_to_float64_rounding(case):
    """Such a unit is on either side by chance; for one of the choices the gradients are equal."""
    undecided = np.argwhere(np.minimum(abs(case.run.plain[0]), abs(case.run.plain[0] - 6)) < 1e-14)
    assert len(undecided) <= 4
    _, found = case.oracle_gradients()
    stem, after = case.network.layers[:2]
    g, _ = convolve_gradients(after, case.run.inputs[1], case.oracle.weights[1], found.plain[1])
    reference, errors = case.reference_gradients(0), []
    for choice in product((False, True), repeat=len(undecided)):
        mask = case.run.masks[0].copy()
        mask[tuple(undecided.T)] = choice
        _, weight = convolve_gradients(stem, case.run.inputs[0], case.oracle.weights[0], g * mask)
        bias = (g * mask).sum(axis=(0, 1, 2))
        errors.append(max(relative(weight, reference[0]), relative(bias, reference[1])))
    assert min(errors) < 1e-6


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_the_engine_equals_reference_and_oracle(case, backend):
    if backend == "numpy" and case.network.name != NAMES[0]:
        pytest.skip("the numpy backend is compared on one network")
    made, masks = case.engine(backend)
    reference = case.reference
    features = np.concatenate([made.support, made.bind.array("embeddings of queries")])
    assert relative(features, reference["features"][ORDER]) < 1e-4
    assert relative(10 * made.bind.array("cosine"), reference["logits"]) < 1e-4
    assert abs(case.loss / reference["loss"] - 1) < 1e-4
    flipped = case.flipped(masks)
    assert max(flipped.values(), default=0) < KINK
    _, same_masks = case.oracle_gradients(masks)
    for i in case.layers:
        exact = (same_masks.weights[i], same_masks.biases[i])
        parts = zip(("weight", "bias"), exact, case.reference_gradients(i), strict=True)
        for part, with_own_masks, published in parts:
            found = gradient_of(made, i, part)
            assert relative(found, with_own_masks.reshape(found.shape)) < 1e-4
            tolerance = 5e-3 if i <= max(flipped, default=-1) else 1e-3
            assert relative(found, published.reshape(found.shape)) < tolerance


def test_the_probe_equals_reference_and_oracle(case):
    layers = case.network.layers
    scores, masks = case.engine_fisher(tuple(case.layers))
    assert abs(scores.loss * 8 / case.reference["fisher_loss_sum"] - 1) < 1e-4
    flipped = case.flipped(masks)
    assert max(flipped.values(), default=0) < KINK
    same_masks = case.oracle_fisher(masks)
    for i in case.layers:
        assert relative(scores.fisher[i], same_masks[i]) < 1e-4
        tolerance = 5e-3 if i <= max(flipped, default=-1) else 1e-3
        assert relative(scores.fisher[i], case.reference[f"fisher/{layers[i].name}"]) < tolerance


def test_the_probe_of_the_last_six_blocks_finds_what_the_probe_of_all_finds(case):
    layers = case.network.layers
    inspected = tuple(i for i in case.layers if layers[i].block > layers[-1].block - 6)
    scores, _ = case.engine_fisher(inspected)
    for i in inspected:
        assert relative(scores.fisher[i], case.reference[f"fisher/{layers[i].name}"]) < 1e-3
