import os
import signal
import sys
from weakref import WeakKeyDictionary

# As commands have it: workers whose BLAS has threads, too, wait for each other most of the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import programcheck
import pytest
import segmentcheck
from kernelarrays import Output
from kernelcases import CASES
from selection import pytest_addoption, pytest_collection_modifyitems, pytest_terminal_summary  # noqa: F401

from tinytrain import kernels
from tinytrain.base.notices import NOTICES
from tinytrain.kernels import fallback
from tinytrain.program.program import Program

# Where a container tells Python to keep no compiled sources, hundreds of processes would compile them all.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

MANY = 400  # tests: a few need few kernels


@pytest.fixture(scope="session", autouse=True)
def interrupts_arrive():
    """A shell starts what it leaves in the background with interrupts ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def kernels_are_shared_out(request):
    """Workers that begin with no kernels would all compile the same ones: each compiles some for all."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    if count > 1 and request.session.testscollected > MANY:
        compiled, random = kernels.load(), np.random.default_rng(0)
        for name in sorted(CASES)[worker::count]:
            given = CASES[name](random)
            getattr(compiled, name)(*(a.start.copy() if isinstance(a, Output) else a for a in given))


@pytest.fixture(scope="session", autouse=True)
def every_program_is_checked():
    """Each one that a test compiles, whatever the test is about; segments that programs share, once."""
    patch, checked, check_segment = pytest.MonkeyPatch(), WeakKeyDictionary(), segmentcheck.check_segment
    make = Program.__init__

    def check_once(segment):
        if segment not in checked:
            checked[segment] = check_segment(segment)
        return checked[segment]

    def made(self, *args, **named):
        make(self, *args, **named)
        programcheck.check_program(self, check_once)

    patch.setattr(Program, "__init__", made)
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def kernels_are_compiled_ones():
    """If numpy silently replaced a kernel, a test of this kernel would show nothing."""
    before = set(fallback.TOLD)
    yield
    assert set(fallback.TOLD) <= before, fallback.TOLD


@pytest.fixture(autouse=True)
def notices_are_heard():
    """To parse ``--quiet`` is enough to end them for the tests that follow in this process."""
    NOTICES.begin()
