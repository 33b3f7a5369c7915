"""LoRA as a policy: its pairs, their gradients, what it trains, and its results in files."""

import numpy as np
from cases import each
from oracle import Oracle
from toygraphs import GRAPHS
from toynets import everything, images_of, module_updates, modules_of, toy
from toysegments import assert_gradients_equal_oracle, backward_case, ran

from tinytrain.delta.file import load_delta, save_delta
from tinytrain.network.network import with_modules
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode
from tinytrain.plan.budget import Budget
from tinytrain.plan.costs import image_macs, n_trained
from tinytrain.policies import lora
from tinytrain.program.autodiff.emitter import Emitter
from tinytrain.runtime.predict import Predictor

NAMES = each("name", ["tokens", "words"])


@NAMES
def test_there_is_a_pair_of_rank_4_beside_each_dense_layer_and_a_new_one_changes_nothing(name):
    network = GRAPHS[name]()
    dense = [i for i, x in enumerate(network.layers) if x.op == "pointwise" and x.cout > 1]
    modules = network.possible_modules
    assert [m.first for m in modules] == dense and len(dense) == 6
    assert all((down.cout, up.cin) == (4, 4) for down, up in (m.layers for m in modules))
    images = images_of(network.input.shape, 3)
    grown = Oracle(with_modules(network, modules))
    np.testing.assert_array_equal(
        grown.forward(images).embeddings, Oracle(network).forward(images).embeddings
    )


@NAMES
@each("chosen", [None, [0, 3], [4], [5]])
def test_gradients_with_pairs_equal_the_oracle_and_cost_what_the_plan_says(name, chosen):
    network = modules_of(GRAPHS[name](), chosen)
    updates = module_updates(network, chosen)
    for trained in (updates, (*everything(network), *updates)):
        # Random pairs magnify any rounding: 1.4e-5 was seen, also with products in float64, and 1.2e-5 with
        # the kernels of numpy.
        segment = assert_gradients_equal_oracle(network, trained, 2, most=2e-5)
        assert segment.backward_macs == 2 * image_macs(network, trained)


@NAMES
@each("pairs", [False, True])
def test_what_norms_and_gelu_give_is_made_again_for_gradients_in_fewer_bytes_and_with_the_same_bits(
    name, pairs, monkeypatch
):
    network = modules_of(GRAPHS[name]()) if pairs else GRAPHS[name]()
    updates = module_updates(network) if pairs else everything(network)
    found = []
    for made_again in (Emitter.made_again, lambda *_: False):
        monkeypatch.setattr(Emitter, "made_again", made_again)
        segment, arrays = backward_case(network, updates, n=2)
        ran(segment, network, arrays, updates)
        found.append((segment.nbytes, [*arrays.values()][2].tobytes()))
    (bytes_again, again), (bytes_kept, kept) = found
    assert again == kept and bytes_again < 0.95 * bytes_kept


def test_it_trains_the_last_pairs_if_memory_is_short_and_no_layer_itself():
    network = GRAPHS["tokens"]()
    count = len(network.layers)
    for fraction, pairs in ((1.0, 6), (0.5, 3), (0.2, 1)):
        updates = lora.updates_from(network, fraction)
        assert len(updates) == 2 * pairs and min(u.layer for u in updates) == count + 2 * (6 - pairs)
    numbers = sum(
        4 * (x.cin + x.cout) + 4 + x.cout for x in network.layers if x.op == "pointwise" and x.cout > 1
    )
    assert n_trained(network, lora.updates_from(network, 1.0)) == numbers


def test_without_a_module_the_last_bias_is_trained():
    for network, fraction in ((GRAPHS["speech"](), 1.0), (GRAPHS["tokens"](), 0.0)):
        (update,) = lora.updates_from(network, fraction)
        assert (update.layer, update.channels, update.bias) == (len(network.layers) - 1, (), True)
    assert len(lora.updates_from(toy("blocks"), 1.0)) == 2 * len(toy("blocks").possible_modules)


def test_its_delta_survives_a_file_and_predicts_as_before(tmp_path):
    network, episode = GRAPHS["tokens"](), toy_episode(queries=2)
    report = adapt(network, episode, Budget(2**20), "lora", force=True)
    assert {s.layer for s in report.delta.slices} <= set(range(len(network.layers), len(network.all_layers)))
    save_delta(tmp_path / "d.safetensors", report.delta)
    again = Predictor(network, load_delta(tmp_path / "d.safetensors"))
    np.testing.assert_array_equal(
        again.probabilities(episode.query), Predictor(network, report.delta).probabilities(episode.query)
    )
    assert all(np.any(s.values) for s in report.delta.slices)
