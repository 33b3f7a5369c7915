"""Where numba cannot do its work: the numpy twins do it, and it is said once."""

import logging
from types import SimpleNamespace

import pytest

from tinytrain import kernels
from tinytrain.firmware_sim.boards.device import SimulatedDevice
from tinytrain.kernels import fallback
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.report.text import render_text


@pytest.fixture
def lines(monkeypatch):
    """What has been said."""
    said = []
    monkeypatch.setattr(fallback, "TOLD", set())
    monkeypatch.setattr(
        logging.getLogger("tinytrain"), "warning", lambda text, line: said.append(text % line)
    )
    return said


def test_a_kernel_that_cannot_be_compiled_is_replaced_by_its_twin(lines):
    calls = []

    def compiled(*arguments):
        calls.append(arguments)
        raise RuntimeError("LLVM ERROR:\n no such\n target")

    twins = set()
    call = fallback.guarded("pool", compiled, lambda a, b: a + b, twins)
    assert call(1, 2) == 3 and call(2, 3) == 5 and len(calls) == 1
    assert fallback.guarded("copy", compiled, lambda a, b: a - b, twins)(3, 2) == 1
    assert twins == {"pool", "copy"}
    assert (
        len(lines) == 1 and "\n" not in lines[0] and "pool cannot be compiled (RuntimeError: LLVM" in lines[0]
    )


@pytest.mark.parametrize(
    "error", [ImportError("no numba"), AttributeError("half of numba"), SystemError("init")]
)
def test_numba_that_does_not_work_is_said_once_and_replaced(lines, monkeypatch, error):
    def broken():
        raise error

    monkeypatch.setattr(kernels, "_compiled_modules", broken)
    for _ in range(2):
        table = kernels.load()
    assert table.backend == "numpy" and all(hasattr(table, name) for name in kernels.NAMES)
    assert len(lines) == 1 and str(error) in lines[0] and "tinytrain doctor" in lines[0]
    with pytest.raises(type(error)):
        kernels.load("numba")


class Broken:
    """A kernel that numba cannot compile."""

    signatures = ()

    def compile(self, signature):
        raise RuntimeError("no such target")

    def __call__(self, *arguments):
        raise RuntimeError("no such target")


@pytest.mark.parametrize(("portable", "said"), [(False, "numba"), (True, "portable")])
def test_a_report_names_the_kernels_that_gave_way_to_numpy(lines, monkeypatch, portable, said):
    def report(machine=None):
        return adapt(toy_network(), toy_episode(), Budget(2**22), "none", device=machine)

    monkeypatch.setattr("tinytrain.kernels.jit.PORTABLE", portable)
    assert report().ran.backend == said
    monkeypatch.setattr("tinytrain.kernels.dense.pool", Broken())
    monkeypatch.setattr("tinytrain.kernels.optimizer.adam", Broken())  # nothing is trained
    ran = f"{said} except pool (numpy)"
    facts = report().to_json()
    assert facts["kernels"] == ran and f"{ran} kernels" in render_text(facts)
    assert report(SimulatedDevice(2**22)).ran.backend == ran


def test_numpy_in_the_place_of_portable_kernels_is_said_not_to_be_portable(lines, monkeypatch):
    monkeypatch.setenv("TINYTRAIN_PORTABLE", "1")
    monkeypatch.setattr(kernels, "_compiled_modules", lambda: 1 / 0)
    assert kernels.load().backend == "numpy"
    assert lines[0].endswith("slower and with other last bits on other processors")


def test_trouble_with_keeping_is_said_once_and_a_race_is_not(lines):
    from tinytrain.kernels.jit import Keeper

    class Full:
        def seal(self):
            raise OSError(28, "No space left on device")

    keeper = Keeper(Full())
    keeper.keep()
    keeper.lost(FileNotFoundError(2, "cleaned away by another process"))
    assert not lines
    for _ in range(2):
        keeper.saved()
        keeper.keep()
    assert len(lines) == 1 and "No space left" in lines[0]


def test_what_cannot_be_loaded_is_compiled_and_what_cannot_be_saved_is_not_kept(lines):
    """Neither may end a run, whatever numba and pickle raise."""
    from tinytrain.kernels.jit import _never_raise

    def fail(*arguments):
        raise EOFError("Ran out of input")

    cache = SimpleNamespace(load_overload=fail, save_overload=fail)
    _never_raise(cache, fail)
    assert cache.load_overload("signature", "context") is None
    assert "could not be loaded (Ran out of input); it is compiled again" in lines[0]
    cache.save_overload("signature", "code")
    assert len(lines) == 1, "the same trouble is said once"


def test_a_kernel_is_compiled_without_a_cache_where_numba_would_put_it_elsewhere(monkeypatch):
    """A folder that is gone, or another one that numba prefers."""
    from tinytrain.kernels import jit

    def no_locator(**options):
        raise RuntimeError("cannot cache function: no locator available")

    elsewhere = SimpleNamespace(stats=SimpleNamespace(cache_path="/elsewhere/__pycache__"))
    for njit in (no_locator, lambda **options: lambda function: elsewhere):
        before = jit.numba.config.CACHE_DIR
        with monkeypatch.context() as patch:
            patch.setattr(jit.numba, "njit", njit)
            assert jit._cached(len) is None
        assert before == jit.numba.config.CACHE_DIR
