"""The budget as the operating system sees it: high-water mark of fresh processes, one per run.

By default three runs of one plan, one under a limit, and tasks of some shapes with one policy each.
``TINYTRAIN_OS_RUNS=50`` runs each of the five plans that often, a quarter as often under a limit, and every
policy with tasks of every shape. With ``-s`` it prints a table of these.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import toypolicies
from cases import each, quick
from published import published_file

from tinytrain.datasets.samplers import meta_dataset_sizes
from tinytrain.meta.training.compact_transformer import compact_transformer, initial_transformer
from tinytrain.network.file import save_network
from tinytrain.network.input_spec import InputSpec
from tinytrain.network.network import quantised
from tinytrain.plan.recipe import MOST_WORKERS
from tinytrain.policies.registry import POLICIES

RUNS = int(os.environ.get("TINYTRAIN_OS_RUNS", "0"))
PLANS = [
    ("mcunet-5fps", "tinytrain", 1_000_000, 0.15),
    ("mcunet-5fps", "tinytrain", 1_000_000, 0.3),  # nothing cached, new views in every step
    ("mcunet-5fps", "tinytrain_published", 2_000_000, 0.15),
    ("mbv2-w0.35", "tinytrain", 512_000, 0.15),
    ("proxyless-w0.3", "last_layer", 512_000, 0.15),
]
SLACK = 64 * 1024
# What a whole call takes beside its arena, as docs/budget.md says, and with five classes in float32.
BESIDE, BESIDE_FEW = 2_100_000, 1_500_000
# One heap for all threads, and no threads of BLAS beside the workers: both would grow for other reasons.
CALM = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
# Freed memory goes back to the system, so that what a second call takes again is seen.
RETURNED = {"PYTHONMALLOC": "malloc", "MALLOC_TRIM_THRESHOLD_": "0"}


def of_meta_dataset(seed):
    """Support images of each class as its sampler draws them: unequal, the more images the more."""
    rng = np.random.default_rng(seed)
    return meta_dataset_sizes(rng.integers(2, 200, 30), 500, rng)[0].tolist()


# How many images of each class: the sampler of so many ways and shots, and that of Meta-Dataset.
SHAPES = {
    "2-way 5-shot": [5] * 2,
    "5-way 5-shot": [5] * 5,
    "20-way 5-shot": [5] * 20,
    "20-way 1-shot": [1] * 20,
    "30-way unequal": of_meta_dataset(0),
    "50-way 5-shot": [5] * 50,
    "100-way 2-shot": [2] * 100,
    "200-way 2-shot": [2] * 200,
    "400-way 1-shot": [1] * 400,
    "5-way 800-shot": [800] * 5,
}
ALL = [(shape, policy, budget) for shape in SHAPES for policy in POLICIES for budget in (None, 1_000_000)]
SOME = [  # None: the smallest budget
    ("2-way 5-shot", "full", None),
    ("20-way 5-shot", "tinytrain", 1_000_000),
    ("30-way unequal", "trady", 1_000_000),
    ("200-way 2-shot", "none", None),
    ("5-way 800-shot", "none", None),
]


def started(network, policy, budget, macs, shots=(5,) * 5, queries=10, precision="float32", **options):
    """One finished run in a process of its own."""
    task = {"network": str(network), "policy": policy, "budget": budget, "macs": macs, "precision": precision}
    task |= {
        "shots": list(shots),
        "queries": queries,
        "lanes": MOST_WORKERS,
        "leak": 0,
        "hard": False,
        "whole": False,
    }
    task |= options
    script = Path(__file__).with_name("os_memory.py")
    command = [sys.executable, str(script), json.dumps(task)]
    variables = os.environ | CALM | (RETURNED if task["whole"] else {})
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=3000)


def measured(network, *plan, **options):
    """What one run reports."""
    done = started(network, *plan, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("network, policy, budget, macs", PLANS if RUNS else PLANS[:1])
def test_a_process_grows_by_its_arena_and_never_by_more_than_the_budget(network, policy, budget, macs):
    for _ in range(RUNS or 3):
        run = measured(published_file(network), policy, budget, macs)
        assert run["arena"] <= budget
        assert 0.9 * run["arena"] <= run["growth"] <= budget + SLACK


@pytest.mark.parametrize("network, policy, budget, macs", PLANS if RUNS else PLANS[:1])
def test_an_adaptation_needs_no_more_than_budget_and_1_mb_where_the_system_refuses_more(
    network, policy, budget, macs
):
    for _ in range(-(-RUNS // 4) or 1):
        assert measured(published_file(network), policy, budget, macs, hard=True)["arena"] <= budget


@each("budget", [256_000, None], ids=["256,000 bytes", "the smallest budget"])
@each("network", ["mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3"])
def test_few_bytes_hold_an_adaptation_in_int8_also_under_a_limit(network, budget):
    plan = (published_file(network), "tinytrain", budget, 0.15)
    run = measured(*plan, precision="int8", hard=True)
    assert run["smallest"] < 120_000
    assert run["arena"] <= run["budget"] == (budget or run["smallest"])
    assert 0.9 * run["arena"] <= run["growth"] and max(run["growth"], run["probe"]) <= run["budget"] + SLACK
    print(
        f"\n| {network} | int8 | {run['budget']:,} | {run['arena']:,} | {run['growth']:,} |"
        f" {run['smallest']:,} |",
        end="",
    )


@pytest.mark.slow
@each("lanes", [3, MOST_WORKERS])
def test_the_budget_holds_at_any_number_of_threads_and_few_touch_less(lanes):
    run = measured("tinytrain-small", "tinytrain", 4_000_000, 0.15, lanes=lanes, hard=True)
    assert run["growth"] <= run["budget"] + SLACK and run["lanes"] > 3  # workers
    assert (run["growth"] < 0.6 * run["arena"]) == (lanes == 3)


@pytest.mark.slow
def test_a_leak_of_2_mb_does_not_pass_the_limit():
    done = started(published_file(PLANS[0][0]), *PLANS[0][1:], leak=2 * 10**6, hard=True)
    assert done.returncode != 0 and "MemoryError" in done.stderr


@pytest.mark.slow
def test_a_leak_of_200_kb_is_seen():
    budget = PLANS[0][2]
    assert measured(published_file(PLANS[0][0]), *PLANS[0][1:], leak=200_000)["growth"] > budget + SLACK


@pytest.mark.parametrize("shape, policy, budget", quick(ALL if RUNS else SOME))
def test_the_budget_holds_for_tasks_of_every_shape_also_under_a_limit(shape, policy, budget):
    network = published_file("mcunet-5fps") if RUNS else "tinytrain-small"
    macs = 1.0 if policy == "full" else 0.15
    run = measured(network, policy, budget, macs, SHAPES[shape], hard=True)
    assert run["arena"] <= run["budget"]
    assert max(run["growth"], run["probe"]) <= run["budget"] + SLACK
    print(f"\n| {shape} | {policy} | {run['budget']:,} | {run['arena']:,} | {run['growth']:,} |", end="")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["none", "transductive"] if RUNS else ["none"])
def test_the_budget_holds_for_10000_queries(policy):
    run = measured("tinytrain-small", policy, None, 0.15, queries=10_000, hard=True)
    assert run["growth"] <= run["budget"] + SLACK


@pytest.fixture(scope="module")
def compact(tmp_path_factory):
    """A compact transformer of the usual shape (CCT-2/3x2), of first weights."""
    spec = InputSpec((32, 32, 3))
    network = initial_transformer(0, compact_transformer(spec.shape, (64, 128), (2, 2, 128)), spec)
    path = tmp_path_factory.mktemp("compact") / "network.safetensors"
    save_network(quantised(network), path)
    return path


# What is trained of it, and in how many bytes at the most, of the arena and in all: the head, pairs of one
# block and of both, 40 % of the rows of the last block. A pass alone takes 0.16 MB: five maps of a block of
# attention. What comes on top differs by some pages between runs, so the first of three that fits counts.
COMPACT = [
    ("none", 225_000, 256_000),
    ("LORA1", 480_000, 500_000),
    ("LORA2", 785_000, 1_000_000),
    ("FT1", 740_000, 1_000_000),
]


@pytest.mark.slow
@each("part, arena, most", COMPACT)
def test_a_compact_transformer_is_trained_in_a_megabyte(compact, part, arena, most):
    policy = part if part == "none" else f"{toypolicies.__file__}:{part}"
    for _ in range(3):
        run = measured(compact, policy, None, 10.0, hard=True)
        if run["growth"] <= most:
            break
    assert run["arena"] <= arena
    assert 0.9 * run["arena"] <= run["growth"] <= most
    print(f"\n| CCT-2/3x2 | {part} | {run['arena']:,} | {run['growth']:,} |", end="")


WHOLE = [(5, 5, "float32", 1_000_000, 2), (5, 5, "int8", None, 2)]
EVERY_WHOLE = [
    (way, shots, precision, budget, lanes)
    for way, shots in ((2, 1), (2, 20), (5, 5), (20, 5), (50, 1), (50, 20))
    for precision, budget in (("float32", 1_000_000), ("int8", None))
    for lanes in (1, 2)
]


@pytest.mark.slow
@pytest.mark.parametrize("way, shots, precision, budget, lanes", EVERY_WHOLE if RUNS else WHOLE)
def test_a_whole_second_call_takes_no_more_than_docs_say_beside_its_arena(
    way, shots, precision, budget, lanes
):
    task = ("tinytrain-small", "tinytrain", budget, 0.15, [shots] * way)
    run = measured(*task, queries=0, precision=precision, lanes=lanes, whole=True)
    beside = run["growth"] - run["arena"]
    assert beside <= (BESIDE_FEW if (way, precision) == (5, "float32") else BESIDE)
    print(f"\n| {way} ways {shots} | {precision} | {lanes} | {run['arena']:,} | {beside:,} |", end="")
