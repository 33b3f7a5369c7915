"""A store that version 0.1.0 wrote, with a head that was fitted to three classes of leaves.

It was made by `tinytrain adapt photos/ --shots 3 --policy none --head cosine --store state/`; the
numbers are what `tinytrain predict` of that version said.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import tinytrain

WRITTEN = Path(__file__).with_name("from_0_1_0")
SAID = {"feather": 0.2619435787200928, "oval": 0.41180330514907837, "palmate": 0.32625311613082886}


@pytest.fixture
def state(tmp_path):
    return shutil.copytree(WRITTEN, tmp_path / "state")


def image():
    y, x = np.mgrid[:64, :64]
    return np.stack([4 * x, 4 * y, (x * y) // 16], -1).astype(np.uint8)


def test_a_store_of_0_1_0_is_read_as_it_is_and_answers_as_before(state):
    started = tinytrain.Store(state).start()
    answer = tinytrain.Predictor(delta=started.delta)(image())
    assert answer.probabilities == pytest.approx(SAID, abs=1e-5) and answer.verdict == "unknown"


def test_it_goes_on_as_any_other_and_back_to_the_same_bytes(state):
    store = tinytrain.Store(state)
    store.confirm()
    old = (WRITTEN / "tinytrain-1.delta").read_bytes()
    store.commit(tinytrain.load_delta(WRITTEN / "tinytrain-1.delta"))
    store.confirm()
    store.roll_back()
    assert (state / "tinytrain-1.delta").read_bytes() == old
    assert list(store.start().delta.class_names) == list(SAID)
