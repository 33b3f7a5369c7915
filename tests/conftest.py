import os
import signal

import pytest
from threadpoolctl import threadpool_limits

from tinytrain.kernels import fallback

os.environ.pop("TINYTRAIN_PORTABLE", None)  # tests that want portable kernels start processes with them


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Tests share the cores with each other and with everything else: BLAS threads that wait for one another
    on a busy machine take ten times as long as one."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def interrupts_arrive():
    """A shell starts what it leaves in the background with interrupts ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def kernels_are_compiled_ones():
    """If numpy silently replaced a kernel, a test of this kernel would show nothing."""
    before = set(fallback.TOLD)
    yield
    assert set(fallback.TOLD) <= before, fallback.TOLD
