"""The report: its figures are those of the run, its JSON, text and HTML say the same."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from toydevices import ONE

import tinytrain
import tinytrain.runtime.bind
import tinytrain.runtime.stage_runner
from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.backbones.load import load_backbone
from tinytrain.base.answer import OLD_KEYS, with_old_keys
from tinytrain.base.errors import UsageError
from tinytrain.base.random_streams import rng_for
from tinytrain.base.statistics import paired_difference
from tinytrain.datasets import sample_episode
from tinytrain.datasets.generated.leaves import leaves
from tinytrain.datasets.generated.signs import signs
from tinytrain.delta.file import encode_delta
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.published_costs import paper_memory
from tinytrain.plan.recipe import Recipe, StepOptions, Update
from tinytrain.policies.common import Policy
from tinytrain.policies.registry import find_policy
from tinytrain.program.mac_counts import stage_macs
from tinytrain.report import RENDERERS
from tinytrain.report.content import is_unseen
from tinytrain.runtime.device import Device

BIG = Budget(memory=2**22)


def policy(
    optimizer="adam", step="constant", head="lda", first=6, hard=0.6, rate=1e-3, steps=5, views=3, through=1.0
):
    """A policy that trains half of the channels and all biases of a toy network from layer `first` on."""

    def recipe(network, *_):
        updates = tuple(
            Update(i, tuple(range(network.layers[i].cout // 2)), bias=True)
            for i in range(first, len(network.layers))
        )
        rates, options = ((rate, rate),) * len(updates), StepOptions(hard, through)
        return Recipe("test", updates, rates, optimizer, step, options, steps=steps, head=head, views=views)

    return Policy("test", recipe, "none", inspects=lambda n: (3, 6, 9), macs_limited=False)


@pytest.fixture(scope="module")
def report():
    return adapt(toy_network(), toy_episode(), BIG, policy())


def test_the_report_is_json_with_every_promised_key(report):
    facts = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert facts["accuracy"].keys() >= {
        "before",
        "before_cosine",
        "after",
        "difference",
        "n_query",
        "left_out",
    }
    assert facts["memory"].keys() >= {"budget", "arena", "paper", "outside"}
    assert facts["memory"]["outside"].keys() >= {"frozen_weights", "working_copy", "support_images"}
    assert facts["macs"].keys() >= {"backward_per_query", "dearest_image", "full_backward", "total"}
    assert facts["selection"][0].keys() >= {"layer", "name", "channels", "n_channels", "of", "bias"}
    assert facts["seconds"]["total"] == pytest.approx(sum(facts["seconds"].values()) / 2)
    assert (facts["policy"], facts["backbone"], facts["seed"]) == ("test", "toy", 0)
    assert facts["threads"]["lanes"] >= 1
    assert len(facts["losses"]) == 5


def test_only_drawn_images_and_the_shipped_weights_are_called_unseen():
    network = load_backbone(SHIPPED.name)
    episode = sample_episode(leaves(), 2, 1, 0, 0)
    assert is_unseen(network, episode)
    assert not is_unseen(network, replace(episode, generated=False)), "a folder that is called leaves"
    biases = tuple(b + 1 for b in network.biases)
    assert not is_unseen(replace(network, biases=biases), episode), "the network was trained on"
    assert not is_unseen(network, sample_episode(signs(), 2, 1, 0, 0))


def test_the_delta_carries_all_of_the_report_that_the_same_seed_gives_again(report):
    again = tinytrain.adapt(toy_network(), report.episode, BIG, policy(), device=ONE)
    assert encode_delta(again.delta) == encode_delta(report.delta)
    assert report.to_json() == {**report.to_json(), **report.delta.report}
    apart = {"seconds", "threads", "queries", "layers", "estimate", "command", "versions"}
    apart |= {"skipped", "duplicates"}
    assert report.to_json().keys() - report.delta.report.keys() == apart
    warned = report.with_warnings("mind the gap")
    assert warned.delta.report["warnings"] == ["mind the gap"] == warned.to_json()["warnings"]


@each(
    "wrong",
    [
        {"budget": 1_000_000}, {"budget": "1MB"}, {"seed": 1.5}, {"seed": -1}, {"policy": "tinytrane"},
        {"device": Device("cuda")},
    ],
)  # fmt: skip
def test_arguments_that_mean_nothing_are_a_usage_error(wrong):
    with pytest.raises(UsageError):
        adapt(toy_network(), toy_episode(), **{"budget": BIG} | wrong)
    with pytest.raises(UsageError, match="threads=0 is no whole number of at least 1"):
        Device(threads=0)
    with pytest.raises(UsageError, match="no mode of the MACs"):
        Budget(macs_mode="median")


def test_accuracies_are_shares_of_the_queries(report):
    labels, a = report.episode.query.labels, report.to_json()["accuracy"]
    for name in ("before", "before_cosine", "after"):
        assert a[name] == (getattr(report.answers, name) == labels).mean()
    assert a["difference"][1] == pytest.approx(a["after"] - a["before"])
    assert a["difference"][0] <= a["difference"][1] <= a["difference"][2]


def test_without_queries_there_is_no_accuracy_but_the_left_out_one():
    a = adapt(toy_network(), toy_episode(queries=0), BIG, "none").to_json()["accuracy"]
    assert (a["before"], a["before_cosine"], a["after"], a["difference"], a["n_query"]) == (*[None] * 4, 0)
    assert 0 <= a["left_out"] <= 1


def test_the_interval_is_that_of_resampling_the_images():
    rng = rng_for(1, "outcomes")
    before, after = rng.random(80) < 0.6, rng.random(80) < 0.75
    change = after.astype(float) - before
    means = change[rng.integers(0, 80, (4000, 80))].mean(axis=1)
    low, mid, high = paired_difference(before, after)
    assert mid == pytest.approx(change.mean())
    assert (low, high) == pytest.approx(np.quantile(means, (0.025, 0.975)), abs=0.015)
    assert paired_difference(before, after) == [low, mid, high]


def test_paper_memory_counts_sixteen_bytes_for_each_trained_weight(report):
    network = report.network
    weights = sum(network.layers[i].fan_in * (network.layers[i].cout // 2) for i in range(6, 12))
    assert report.to_json()["memory"]["paper"] == paper_memory(network.layers, weights)


def test_the_fisher_share_is_that_of_the_chosen_channels(report):
    rows = {row["layer"]: row for row in report.to_json()["selection"]}
    fisher = report.scores.fisher[6]
    assert rows[6]["fisher_fraction"] == pytest.approx(float(fisher[:12].sum() / fisher.sum()))
    assert rows[7]["fisher_fraction"] is None, "a layer that was not probed has none"


class Executed:
    """MACs of the segments that really run, by their bound calls."""

    def __init__(self, monkeypatch):
        self.total, self.cost = 0, {}
        bind = tinytrain.runtime.bind.Binder.segment

        def segment(binder, segment, *rest):
            calls, outputs = bind(binder, segment, *rest)
            self.cost[id(calls)] = (calls, segment.all_macs)
            return calls, outputs

        def run(calls):
            self.total += self.cost.get(id(calls), (None, 0))[1]
            original(calls)

        original = tinytrain.runtime.bind.run
        monkeypatch.setattr(tinytrain.runtime.bind.Binder, "segment", segment)
        monkeypatch.setattr(tinytrain.runtime.stage_runner, "run", run)


@each(
    ("chosen", "memory", "way", "shots"),
    [
        (policy(), 2**22, 3, 4),
        (policy(step="both", head="cosine", first=0), 2**22, 3, 4),
        (policy(step="both", hard=1.0), 40_000, 3, 4),
        (policy(step="both", through=0.4), 2**22, 3, 4),
        (policy(step="both", through=0.4, steps=2), 45_000, 3, 20),
        (policy(), 2**22, 3, 20),
        (policy(steps=2), 45_000, 3, 20),
        ("none", 2**22, 3, 4),
    ],
)
def test_total_macs_are_those_of_every_call_that_ran(monkeypatch, chosen, memory, way, shots):
    executed = Executed(monkeypatch)
    report = adapt(toy_network(), toy_episode(way, shots, queries=0), Budget(memory), chosen, device=ONE)
    assert report.to_json()["macs"]["total"] == executed.total > 0


@pytest.mark.parametrize("chosen", ["transductive", "trady", policy()])
def test_looking_at_queries_in_training_counts_and_judging_them_does_not(monkeypatch, chosen):
    executed, network = Executed(monkeypatch), toy_network()
    report = adapt(network, toy_episode(queries=2), Budget(2**22, macs=0.5), chosen, device=ONE)
    judged = 2 * len(report.episode.query) * network.macs  # before and after
    assert report.to_json()["macs"]["total"] == executed.total - judged > 0


def test_text_shows_the_accuracy_the_selection_and_the_memory_without_colour(report):
    text = RENDERERS[".txt"](report.to_json())
    accuracy = report.to_json()["accuracy"]
    assert f"{accuracy['before']:.1%} -> {accuracy['after']:.1%}" in text
    assert "block2.depthwise" not in text and "block3.expand" in text
    assert f"{report.program.nbytes:,} of {BIG.memory:,} bytes" in text
    assert "\x1b" not in text and max(map(len, text.splitlines())) <= 120


def trained_for(steps):
    """The default policy, but with so many steps."""
    default = find_policy("tinytrain")
    return replace(default, recipe=lambda *task: replace(default.recipe(*task), steps=steps))


def test_fewer_steps_take_fewer_macs_and_the_same_memory_and_the_same_bytes_whenever_they_are_made():
    reports = [
        adapt(toy_network(), toy_episode(), BIG, trained_for(steps), force=True, device=ONE)
        for steps in (3, 6, 3)
    ]
    less, usual, again = (report.to_json() for report in reports)
    assert less["memory"]["arena"] == usual["memory"]["arena"] <= BIG.memory
    first, *others = (stage_macs(r.program, r.program.stage("first prototypes")) for r in reports)
    assert [first] * 2 == others
    in_steps = [facts["macs"]["stages"]["training"] - first for facts in (less, usual)]
    assert in_steps[0] / 3 == in_steps[1] / 6 > 0
    assert len(less["losses"]) == less["resources"]["steps"] == 3
    assert less["selection"] == usual["selection"]
    assert (
        encode_delta(reports[0].delta) == encode_delta(reports[2].delta) and again["losses"] == less["losses"]
    )
    text = " ".join(RENDERERS[".txt"](less).split())
    assert f"{less['similarity']:.2f} alike (mean cosine)" in text and "3 steps" in text


def test_html_says_at_which_step_training_broke_off():
    network = toy_network()
    for scale in (1e5, 1e30):
        facts = adapt(network, toy_episode(), BIG, find_policy("tinytrain").with_rates(scale)).to_json()
        broke = None in facts["losses"]
        page = RENDERERS[".html"](facts)
        assert (f"the loss of step {len(facts['losses'])} is no number" in page) == broke
    assert broke


def test_keys_with_another_name_in_version_0_2_are_there_by_both(report):
    facts = report.to_json()
    places = [
        facts["resources"], facts["memory"], facts["memory"]["outside"], facts["macs"],
        facts["selection"][0],
    ]  # fmt: skip
    renamed = OLD_KEYS.keys() - {"image", "images", "images_expected"}
    assert {key for place in places for key in place} >= {*renamed, *map(OLD_KEYS.get, renamed)}
    assert all(place == with_old_keys(place) for place in places)
    assert not OLD_KEYS.keys() & set(OLD_KEYS.values()), "a key of one version means another in the other"


@pytest.mark.parametrize("kind", [".txt", ".html"])
def test_bytes_outside_of_the_budget_are_named_once_for_people(report, kind):
    told = RENDERERS[kind](report.to_json()).lower()
    (listed,) = [line for line in told.replace("<p", "\n").splitlines() if "not in the budget" in line]
    for name in ("frozen weights", "working copy", "support images"):
        assert listed.count(f"{name} ") == 1, name
    assert "pictures" not in told
