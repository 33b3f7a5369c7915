"""SparseUpdate's offline search: the objective, evolution within the budget, and measuring that goes on."""

import itertools
import json

import numpy as np
import pytest
from cases import each
from published import published_network
from toydevices import ONE
from toyruns import folder

from tinytrain.base.errors import BudgetError, InputError, UsageError
from tinytrain.datasets import folder_dataset, sample_episode
from tinytrain.meta.run_log import Log, opened
from tinytrain.meta.search import contribution
from tinytrain.meta.search.contribution import Draw, gain_of, known_gains, log_row, measure
from tinytrain.meta.search.evolve import evolve
from tinytrain.meta.search.result import searched_policy
from tinytrain.meta.search.run import Evolution, search
from tinytrain.meta.search.space import Contributions, Part, Space, default_first
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.policy_conformance import check_policy
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.policies.common import Policy
from tinytrain.policies.sparse_update import Configuration, extra_memory, published, updates_of

KIB = 1024


def table(space: Space, seed: int) -> Contributions:
    """Random gains: wider shares gain more, expand convolutions most, some parts lose."""
    rng = np.random.default_rng(seed)
    gains = {part: 0.002 * part.biases + rng.normal(0, 0.01) for part in space.parts() if part.biases}
    for i in space.layers:
        opens = space.network.block_start(i) == i
        best = rng.normal(0.04 if opens else 0.005, 0.02)
        gains |= {Part(layer=i, ratio=r): best * r ** rng.uniform(0.1, 1) for r in space.ratios}
    return Contributions(space, {part: gains[part] for part in space.parts()})


@pytest.mark.parametrize("seed", range(2))
def test_evolution_beats_the_published_configurations_by_their_own_objective_and_budget(seed):
    space = Space(published_network("mcunet-5fps"), 18)
    gains = table(space, seed)
    for configuration in published(space.network)[:4]:
        limit = space.memory(configuration)
        found = evolve(gains, limit, seed=0)
        assert found.gain >= gains.objective(configuration)
        assert found.memory <= limit + 1e-6


def exhaustive(gains: Contributions, limit: float) -> float:
    """The best objective of all configurations within the limit, by trying each of them."""
    space, best = gains.space, -np.inf
    count = len(space.network.layers)
    for biases in range(len(space.layers) + 1):
        open_layers = [i for i in space.layers if i >= count - biases]
        for shares in itertools.product((0.0, *space.ratios), repeat=len(open_layers)):
            chosen = Configuration(biases, {i: s for i, s in zip(open_layers, shares, strict=True) if s})
            if space.memory(chosen) <= limit:
                best = max(best, gains.objective(chosen))
    return best


@pytest.mark.parametrize("seed", range(3))
def test_evolution_finds_the_optimum_where_all_can_be_tried(seed):
    space = Space(toy_network(), 6, (1.0, 0.5))
    gains = table(space, seed)
    whole = space.memory(Configuration(len(space.layers), dict.fromkeys(space.layers, 1.0)))
    for share in (0.3, 0.6, 1.0):
        found = evolve(gains, share * whole, seed=1, samples=5_000)
        assert found.gain == pytest.approx(exhaustive(gains, share * whole), abs=1e-12)


def test_what_is_found_obeys_the_limit_and_trains_weights_only_among_the_last_biases():
    space = Space(toy_network(), 4)
    gains = table(space, 5)
    for limit in (200, 400, 800, 1600):
        found = evolve(gains, limit, seed=3, samples=2_000)
        assert extra_memory(space.network.layers, found.configuration) * KIB <= limit + 1e-6
        deepest = min(found.configuration.shares, default=len(space.network.layers))
        assert deepest >= len(space.network.layers) - found.configuration.biases
        assert found.gain == gains.objective(found.configuration) >= 0
        assert all(a <= b for a, b in itertools.pairwise(found.history))


def test_the_seed_names_the_evolution():
    gains = table(Space(toy_network(), 2), 0)
    runs = [evolve(gains, 700, seed, samples=1_000) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


def test_a_budget_below_what_is_counted_with_nothing_trained_is_refused_with_the_number():
    gains = table(Space(toy_network(), 2), 0)
    with pytest.raises(
        BudgetError, match="12 bytes are counted with nothing trained, the budget is 11"
    ) as caught:
        evolve(gains, 11, 0)
    assert caught.value.smallest == 12
    assert evolve(gains, 12, 0, samples=200).configuration == Configuration(0, {})


def test_the_objective_is_the_sum_of_the_gains_of_the_parts_and_biases_between_are_interpolated():
    space = Space(toy_network(), 6, (1.0, 0.5))
    assert space.bias_counts == (3, 6)
    gains = dict.fromkeys(space.parts(), 0.0)
    gains |= {
        Part(biases=3): 0.03,
        Part(biases=6): 0.09,
        Part(layer=9, ratio=0.5): 0.2,
        Part(layer=6, ratio=1.0): 0.4,
    }
    made = Contributions(space, gains)
    assert made.objective(Configuration(5, {9: 0.5})) == pytest.approx(0.07 + 0.2)
    assert made.objective(Configuration(6, {6: 1, 9: 0.5, 8: 0.0})) == pytest.approx(0.09 + 0.6)
    assert made.objective(Configuration(2, {})) == pytest.approx(0.02)
    for outside in (Configuration(7, {}), Configuration(6, {5: 1.0}), Configuration(6, {9: 0.25})):
        with pytest.raises(UsageError, match="not in the space"):
            made.objective(outside)


def test_the_space_leaves_out_the_early_layers_and_shares_without_a_channel():
    network = toy_network()
    assert default_first(network) == network.block_start(int(0.4 * len(network.layers)))
    parts = Space(network, 9, (1.0, 1 / 16)).parts()
    assert [p.name for p in parts] == [
        "biases 3", "layer 11 x 1", "layer 11 x 0.0625", "layer 10 x 1", "layer 10 x 0.0625", "layer 9 x 1"
    ]  # fmt: skip
    with pytest.raises(UsageError, match="has 0 to 11"):
        Space(network, 12)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return folder_dataset(folder(tmp_path_factory.mktemp("source"), classes=4, per_class=8))


SMALL = Draw(episodes=2, way=3, shots=3, queries=4, seed=0)


def test_a_gain_is_what_training_that_part_alone_changes(dataset):
    network, part = toy_network(), Part(layer=9, ratio=0.5)
    seen = {}

    def spy(network, scores, budget, task, share):
        recipe = policy.recipe(network, scores, budget, task, share)
        seen["updates"] = recipe.updates
        return recipe

    policy = contribution.policy("alone", lambda network: (part.configuration,))
    episode = sample_episode(dataset, 3, 3, 4, 0)
    report = adapt(
        network, episode, Budget(2**31, 1e9), Policy("spy", spy, "-", macs_limited=False), device=ONE
    )
    accuracy = report.to_json()["accuracy"]
    assert gain_of(network, part, episode, 0, 1) == accuracy["after"] - accuracy["before_cosine"]
    assert seen["updates"] == updates_of(network, part.configuration)
    assert [(u.layer, u.bias, len(u.inputs)) for u in seen["updates"]] == [(9, False, 4)]


@pytest.mark.slow
def test_measuring_that_was_stopped_goes_on_and_ends_with_the_same_bytes(dataset, tmp_path, monkeypatch):
    space = Space(toy_network(), 9, (1.0, 0.5))

    def searched(log):
        return search(space, dataset, SMALL, Evolution(2_000, 500), log, 1, lambda *stage: None)

    whole = searched(tmp_path / "whole.log").json()
    measured = []
    real = contribution.gain_of

    def counted(network, part, *rest):
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(part)
        return real(network, part, *rest)

    monkeypatch.setattr(contribution, "gain_of", counted)
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path / "cut.log")
    with open(tmp_path / "cut.log", "ab") as file:
        file.write(b'{"part": "layer 9 x 1", "epi')  # a kill in the middle of a line
    monkeypatch.setattr(contribution, "gain_of", real)
    assert searched(tmp_path / "cut.log").json() == whole
    assert (tmp_path / "cut.log").read_bytes() == (tmp_path / "whole.log").read_bytes()
    lines = (tmp_path / "whole.log").read_text().splitlines()
    assert len(lines) == 1 + 2 * len(space.parts())


def test_more_episodes_continue_a_log_and_gains_are_means(dataset, tmp_path):
    space = Space(toy_network(), 9, (1.0,))
    asked = []

    def measured(episodes):
        draw = Draw(episodes, 3, 3, 4, 0)
        with opened(tmp_path / "x.log", log_row) as log:
            of = {"network": "toy"}
            found = measure(space, dataset, draw, log, of, 1, lambda *stage: asked.append(stage))
            return found, known_gains(log, of)

    one, rows = measured(1)
    two, more = measured(2)
    part = Part(layer=9, ratio=1.0)
    assert one.gains[part] == rows[part.name, 0] and rows.items() <= more.items()
    assert two.gains[part] == (more[part.name, 0] + more[part.name, 1]) / 2
    assert asked[-1] == ("contributions", 8, 8, None)


def test_a_log_of_another_analysis_or_of_nothing_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "x.log"
    path.write_text('{"network": "a", "data": "d"}\n{"part": "biases 3", "episode": 0, "gain": 0.5}\n')
    before = path.read_bytes()
    assert known_gains(Log(path, log_row), {"network": "a", "data": "d"}) == {("biases 3", 0): 0.5}
    with pytest.raises(InputError, match="measured with another data") as caught:
        known_gains(Log(path, log_row), {"network": "a", "data": "e"})
    assert caught.value.code == "run-mismatch" and path.read_bytes() == before
    for content in (
        b"no json\n", b"[]\n[]\n", b'{"network": "a"}\n{"part": 3}\n', b"[" * 99999 + b"\n",
        b'{}\n{"part": "a", "episode": 0, "gain": 1' + b"0" * 400 + b"}\n",
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            Log(path, log_row)
        assert caught.value.code == "file-damaged" and path.read_bytes() == content


def test_the_result_says_how_published_configurations_fare(tmp_path, monkeypatch):
    network = published_network("mcunet-5fps")
    space = Space(network, 18)
    gains = table(space, 1)
    monkeypatch.setattr("tinytrain.meta.search.run.measure", lambda *arguments: gains)
    monkeypatch.setattr("tinytrain.meta.search.run.identity", lambda *arguments: {})
    monkeypatch.setattr("tinytrain.meta.search.run.sample_episode", lambda *arguments: None)
    facts = search(space, None, SMALL, Evolution(100 * KIB, 3_000), tmp_path / "x", 1, None).json()
    assert [rival["memory"] for rival in facts["published"]] == [50944, 76608, 102240]
    assert facts["published"][2]["shares"] == {"21": 1, "24": 1, "27": 1, "30": 1, "36": 0.125, "39": 0.25}
    assert facts["found"]["gain"] >= max(rival["gain"] for rival in facts["published"])
    assert json.loads(json.dumps(facts)) == facts


def result(network, **found) -> bytes:
    return json.dumps(
        {"digest": network.digest, "found": {"biases": 3, "shares": {"9": 0.5}} | found}
    ).encode()


def test_a_result_is_a_policy_for_its_network_alone(tmp_path):
    network, path = toy_network(), tmp_path / "found.json"
    path.write_bytes(result(network))
    made = searched_policy(path)
    recipe = made.recipe(network, None, Budget(), None, 1.0)
    assert made.name == "found" and recipe.updates == updates_of(network, Configuration(3, {9: 0.5}))
    with pytest.raises(InputError, match="another network than other") as caught:
        made.recipe(toy_network(1, "other"), None, Budget(), None, 1.0)
    assert caught.value.code == "backbone-mismatch"


def test_a_result_passes_the_conformance_kit(tmp_path):
    network, path = toy_network(), tmp_path / "found.json"
    path.write_bytes(result(network, biases=6, shares={"6": 1.0, "9": 0.5}))
    assert check_policy(searched_policy(path), network, toy_episode(), sizes=6).policy == "found"


@each(
    "found",
    [{"biases": 13}, {"biases": "3"}, {"biases": True}, {"shares": {"12": 1}}, {"shares": {"9": 1.5}}],
)
def test_a_result_that_the_network_cannot_follow_is_refused(tmp_path, found):
    path = tmp_path / "found.json"
    path.write_bytes(result(toy_network(), **found))
    with pytest.raises(InputError, match="layers or fractions") as caught:
        searched_policy(path).recipe(toy_network(), None, Budget(), None, 1.0)
    assert caught.value.code == "file-damaged"


@each("content", [b"{", b"[]", b"{}", b'{"digest": "x", "found": {"biases": 1, "shares": [1]}}'])
def test_another_file_is_no_result(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(InputError, match="is no result of 'tinytrain search'"):
        searched_policy(tmp_path / "x.json")
