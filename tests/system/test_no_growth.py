"""One process adapts again and again and holds no more memory and no more files than at first.

30 adaptations by default; ``TINYTRAIN_ADAPTATIONS=1000`` does that many.
"""

import os

import numpy as np
import pytest
from osview import open_files, settled

import tinytrain
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.runtime.device import Device

COUNT = int(os.environ.get("TINYTRAIN_ADAPTATIONS", "30"))
SETTLING = 20  # until then caches of the interpreter and of numpy fill
SLOPE = 1000  # bytes per adaptation


def holdings(count, keep=lambda report: None):
    """(count, 2): anonymous memory in bytes and open files after each of `count` adaptations."""
    network, budget, rows = toy_network(), tinytrain.Budget(memory=200_000), []
    episodes = [toy_episode(way=2 + k, shots=2, queries=1) for k in range(3)]  # toys keep what they drew
    for number in range(count):
        episode = episodes[number % 3]
        policy = ("tinytrain", "last_layer")[number % 2]
        device = Device(threads=1 + number % 2)
        keep(tinytrain.adapt(network, episode, budget, policy, number, device, force=True))
        rows.append((settled("RssAnon"), open_files()))
    return np.array(rows)


def slope(memory):
    """Bytes per adaptation, of a straight line through the second part of the run."""
    later = memory[SETTLING:]
    return np.polyfit(np.arange(len(later)), later, 1)[0]


@pytest.mark.slow
def test_memory_and_open_files_do_not_grow_with_the_number_of_adaptations():
    rows = holdings(max(COUNT, SETTLING + 10))
    print(f"\n{len(rows)} adaptations: {slope(rows[:, 0]):.0f} bytes each, {rows[-1, 1]} files")
    assert slope(rows[:, 0]) <= SLOPE * max(1, 300 / len(rows))  # few adaptations tell less: pages are 4 kB
    assert len(set(rows[SETTLING:, 1].tolist())) == 1


@pytest.mark.slow
def test_reports_that_are_kept_are_seen():
    """A leak of 100 kB per adaptation."""
    kept = []
    rows = holdings(SETTLING + 10, lambda report: kept.append(np.ones(100_000, np.uint8)))
    assert slope(rows[:, 0]) > 50_000
