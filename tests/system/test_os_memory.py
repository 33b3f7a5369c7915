"""The budget as the operating system sees it: high-water mark of fresh processes, one per run.

Three runs of one plan by default; ``TINYTRAIN_OS_RUNS=20`` runs every plan that often.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = int(os.environ.get("TINYTRAIN_OS_RUNS", "0"))
PLANS = [
    ("mcunet-5fps", "tinytrain", 1_000_000),
    ("mcunet-5fps", "tinytrain_published", 2_000_000),
    ("mbv2-w0.35", "tinytrain", 512_000),
    ("proxyless-w0.3", "last_layer", 512_000),
]
SLACK = 64 * 1024
# One heap for all threads, and no threads of BLAS beside the lanes: both would grow for reasons of their own.
CALM = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def measured(network, policy, budget, leak=0, lanes=2):
    """What one run in a process of its own reports."""
    if "TINYTRAIN_SHARED" not in os.environ:
        pytest.skip("set TINYTRAIN_SHARED to the folder with backbones/upstream/*.pkl")
    file = Path(os.environ["TINYTRAIN_SHARED"]) / f"backbones/upstream/{network}.pkl"
    task = {"network": str(file), "policy": policy, "budget": budget, "lanes": lanes, "leak": leak}
    script = Path(__file__).with_name("os_memory.py")
    command = [sys.executable, str(script), json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | CALM, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("network, policy, budget", PLANS if RUNS else PLANS[:1])
def test_a_process_grows_by_its_arena_and_never_by_more_than_the_budget(network, policy, budget):
    for _ in range(RUNS or 3):
        run = measured(network, policy, budget)
        assert run["arena"] <= budget
        assert 0.9 * run["arena"] <= run["growth"] <= budget + SLACK


def test_a_leak_of_200_kb_is_seen():
    network, policy, budget = PLANS[0]
    assert measured(network, policy, budget, leak=200_000)["growth"] > budget + SLACK
