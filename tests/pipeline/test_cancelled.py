"""An adaptation or a check that its reader ends, wherever that is: nothing of it is left."""

import threading
from itertools import count

import pytest
from cases import each

from tinytrain.base.errors import CancelledError
from tinytrain.base.progress import told
from tinytrain.delta.file import encode_delta
from tinytrain.network.committee import Committee
from tinytrain.pipeline.check import check
from tinytrain.pipeline.committee import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device

EPISODE, BUDGET = toy_episode(), Budget(memory=2**22, macs=1.0)
NETWORKS = {"one": toy_network(), "two": Committee((toy_network(), toy_network(1)))}


def adapted(network, tell, threads):
    report = adapt(network, EPISODE, BUDGET, force=True, device=Device(threads=threads, progress=told(tell)))
    return encode_delta(report.delta)


def checked(network, tell, threads):
    return check(network, EPISODE, device=Device(threads=threads, progress=told(tell))).to_json()


def ending_at(last):
    """A reader that ends the work at its event number `last`."""
    numbers = count(1)

    def tell(event):
        if next(numbers) >= last:
            raise CancelledError("interrupted", "ended")

    return tell


@each(
    "work, name, threads",
    [(adapted, "one", 1), (adapted, "one", 3), (adapted, "two", 3), (checked, "two", 3)],
)
def test_work_that_is_cancelled_ends_at_once_with_its_threads_and_is_done_anew_to_the_same_bytes(
    work, name, threads
):
    events, before, network = [], threading.active_count(), NETWORKS[name]
    whole = work(network, events.append, threads)
    assert len(events) >= (40 if work is adapted else 1)
    for last in (1, len(events) // 2, len(events)):
        with pytest.raises(CancelledError):
            work(network, ending_at(last), threads)
        assert threading.active_count() == before
    assert work(network, events.append, threads) == whole
