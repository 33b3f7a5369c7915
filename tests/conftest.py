import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Tests share the cores with each other and with everything else: BLAS threads that wait for one another
    on a busy machine take ten times as long as one."""
    with threadpool_limits(1):
        yield
