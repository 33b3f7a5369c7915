"""The budget as the operating system sees it: high-water mark of fresh processes, one per run.

Three runs of one plan by default and one under a limit; ``TINYTRAIN_OS_RUNS=50`` runs each of
the five plans that often, and a quarter as often under a limit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from published import published_file

RUNS = int(os.environ.get("TINYTRAIN_OS_RUNS", "0"))
PLANS = [
    ("mcunet-5fps", "tinytrain", 1_000_000, 0.15),
    ("mcunet-5fps", "tinytrain", 1_000_000, 0.3),  # nothing cached, new views in every step
    ("mcunet-5fps", "tinytrain_published", 2_000_000, 0.15),
    ("mbv2-w0.35", "tinytrain", 512_000, 0.15),
    ("proxyless-w0.3", "last_layer", 512_000, 0.15),
]
SLACK = 64 * 1024
# One heap for all threads, and no threads of BLAS beside the lanes: both would grow for reasons of their own.
CALM = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def started(network, policy, budget, macs, leak=0, lanes=2, hard=False):
    """One finished run in a process of its own."""
    task = {"network": str(published_file(network)), "policy": policy, "budget": budget, "macs": macs}
    task |= {"lanes": lanes, "leak": leak, "hard": hard}
    script = Path(__file__).with_name("os_memory.py")
    command = [sys.executable, str(script), json.dumps(task)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | CALM, timeout=300)


def measured(*plan, **options):
    """What one run reports."""
    done = started(*plan, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("network, policy, budget, macs", PLANS if RUNS else PLANS[:1])
def test_a_process_grows_by_its_arena_and_never_by_more_than_the_budget(network, policy, budget, macs):
    for _ in range(RUNS or 3):
        run = measured(network, policy, budget, macs)
        assert run["arena"] <= budget
        assert 0.9 * run["arena"] <= run["growth"] <= budget + SLACK


@pytest.mark.parametrize("network, policy, budget, macs", PLANS if RUNS else PLANS[:1])
def test_an_adaptation_needs_no_more_than_budget_and_1_mb_where_the_system_refuses_more(
    network, policy, budget, macs
):
    for _ in range(-(-RUNS // 4) or 1):
        assert measured(network, policy, budget, macs, hard=True)["arena"] <= budget


def test_a_leak_of_2_mb_does_not_pass_the_limit():
    done = started(*PLANS[0], leak=2 * 10**6, hard=True)
    assert done.returncode != 0 and "MemoryError" in done.stderr


def test_a_leak_of_200_kb_is_seen():
    budget = PLANS[0][2]
    assert measured(*PLANS[0], leak=200_000)["growth"] > budget + SLACK
