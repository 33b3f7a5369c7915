"""The store without power: whenever it goes, a start finds the old delta or the new one, whole."""

import os
import random
from collections import Counter

import pytest
from powercuts import SCENARIOS, cut_everywhere, different, prepared, run, steps, strays

from tinytrain.firmware_sim.flash.file_systems import LAYOUTS
from tinytrain.firmware_sim.flash.flash import Flash
from tinytrain.store.slots import Slots

CUT_RUNS = int(os.environ.get("TINYTRAIN_CUT_RUNS", "50"))
START = steps("start")
everywhere = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
every_change = pytest.mark.parametrize("name", SCENARIOS)
pytestmark = pytest.mark.usefixtures("records_read_once")


@pytest.fixture(scope="module")
def tally():
    """What was tried; printed with ``pytest -s``."""
    counts: dict[str, Counter] = {}
    yield lambda what: counts.setdefault(what, Counter())
    for what, counter in counts.items():
        print(f"\n{what}: {dict(counter)}")


def cut_once(layout, name, tally):
    """The different images that cuts in scenario `name` leave."""
    files, change = prepared(layout, name)
    return different(cut_everywhere(layout, Flash(layout, files), change, tally))


@everywhere
@every_change
def test_a_cut_leaves_the_old_or_the_new_state(layout, name, tally):
    assert len(cut_once(layout, name, tally("one cut"))) > 2


@everywhere
@every_change
def test_a_cut_while_recovering_from_a_cut_does_too(layout, name, tally):
    draw = random.Random(name)
    for files in cut_once(layout, name, Counter()):
        for recover in (START, steps("commit 4")):
            again = list(
                cut_everywhere(layout, Flash(layout, files), recover, tally("a cut in the recovery"))
            )
            third = Flash(layout, draw.choice(again))
            for _ in cut_everywhere(layout, third, START, tally("a third cut")):
                pass


@everywhere
@every_change
def test_a_cut_after_the_process_was_killed_does_too(layout, name, tally):
    files, change = prepared(layout, name)
    flash = Flash(layout, files)
    run(layout, flash, change)
    for moment in flash.moments:
        for go_on in (START, steps("commit 4")):
            for _ in cut_everywhere(layout, flash.killed(moment), go_on, tally("a kill, then a cut")):
                pass


@everywhere
def test_five_cuts_in_a_row_lose_nothing(layout, tally):
    draw = random.Random(layout.name)
    for _ in range(CUT_RUNS // len(LAYOUTS)):
        files, change = prepared(layout, draw.choice(list(SCENARIOS)))
        for number in range(5):
            files = draw.choice(
                list(cut_everywhere(layout, Flash(layout, files), change, tally("five cuts in a row")))
            )
            change = steps(draw.choice(("start", f"commit {number}")))


@everywhere
def test_a_finished_start_leaves_no_stray_file(layout):
    for name in SCENARIOS:
        for files in cut_once(layout, name, Counter()):
            flash = Flash(layout, files)
            state = Slots(flash).start()
            assert not strays(flash.names(), state.record)


@pytest.mark.parametrize("layout", [LAYOUTS["torn-sectors"], LAYOUTS["ordered-journal"]])
def test_a_delta_of_many_sectors_is_no_different(layout):
    """More subsets than can be tried: a sample of them, unless the layout has few."""
    large = random.Random(0).randbytes(20 * layout.sector)
    files, _ = prepared(layout, "a commit over a trial")
    tally = Counter()
    for _ in cut_everywhere(layout, Flash(layout, files), lambda slots, _: slots.commit(large), tally):
        pass
    assert bool(tally["sampled"]) != layout.ordered
