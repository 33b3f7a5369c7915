"""Without a working numba the numpy reference runs, with one warning."""

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tinytrain import kernels
from tinytrain.firmware_sim.boards.simulated_device import SimulatedDevice
from tinytrain.kernels import fallback, kernel
from tinytrain.kernels.compile_cache.cache import Cache
from tinytrain.kernels.kernel import Kernel
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.report.text import render_text


@pytest.fixture
def lines(monkeypatch):
    """The logged lines."""
    said = []
    monkeypatch.setattr(fallback, "TOLD", set())
    monkeypatch.setattr(
        logging.getLogger("tinytrain"), "warning", lambda text, line: said.append(text % line)
    )
    return said


def test_a_kernel_that_cannot_be_compiled_is_replaced_by_the_reference(lines):
    calls, replaced = [], set()

    def code(arguments):
        calls.append(arguments)
        raise RuntimeError("LLVM ERROR:\n no such\n target")

    compiled = SimpleNamespace(code=code)
    call = fallback.guarded("pool", compiled, lambda a, b: a + b, replaced)
    assert call(1, 2) == 3 and call(2, 3) == 5 and len(calls) == 1
    assert fallback.guarded("copy", compiled, lambda a, b: a - b, replaced)(3, 2) == 1
    assert replaced == {"pool", "copy"}
    assert (
        len(lines) == 1 and "\n" not in lines[0] and "pool cannot be compiled (RuntimeError: LLVM" in lines[0]
    )


@pytest.mark.parametrize(
    "error", [ImportError("no numba"), AttributeError("half of numba"), SystemError("init")]
)
def test_a_broken_numba_is_reported_once_and_replaced(lines, monkeypatch, error):
    def broken(name):
        raise error

    monkeypatch.setattr(kernel, "CACHE", replace(kernel.CACHE, verified={}))  # all is to be compiled
    monkeypatch.setattr(kernels, "import_module", broken)
    for _ in range(2):
        table = kernels.load()
    assert table.backend == "numpy" and all(hasattr(table, name) for name in kernels.NAMES)
    assert len(lines) == 1 and str(error) in lines[0] and "tinytrain doctor" in lines[0]
    with pytest.raises(type(error)):
        kernels.load("numba")


class Broken:
    """A kernel that numba cannot compile."""

    name, signatures = "broken", ()

    def code(self, arguments):
        raise RuntimeError("no such target")


def test_a_report_names_the_kernels_that_numpy_replaced(lines, monkeypatch):
    def report(machine=None):
        return adapt(toy_network(), toy_episode(), Budget(2**22), "none", device=machine)

    assert report().ran.backend == "numba"
    broken = {f"tinytrain.kernels.{name}": Broken() for name in ("dense.pool", "optimizer.adam_step")}
    usual = kernel.kernel_of  # nothing is trained, so adam_step is not called
    monkeypatch.setattr(kernel, "kernel_of", lambda name: broken.get(name) or usual(name))
    ran = "numba except pool (numpy)"
    facts = report().to_json()
    assert facts["kernels"] == ran and f"{ran} kernels" in render_text(facts)
    assert report(SimulatedDevice(2**22)).ran.backend == ran


def test_the_warning_says_that_numpy_has_other_bits(lines, monkeypatch):
    monkeypatch.setattr(kernel, "expect", lambda found: 1 / 0)
    assert kernels.load().backend == "numpy"
    assert lines[0].endswith("slower and with other last bits")


def twice(x):
    x[0] *= 2


def doubled(made):
    x = np.ones(3, np.float32)
    made(x)
    return x.tolist()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), EOFError("Ran out of input")])
def test_what_cannot_be_loaded_is_compiled_and_what_cannot_be_saved_is_not_kept(lines, error):
    """Neither may end a run, whatever LLVM and the file system raise; the same trouble is said once."""

    def fail(*arguments):
        raise error

    cache = SimpleNamespace(read=fail, write=lambda *_: None, kept=True, folder="somewhere")
    assert doubled(Kernel("twice", twice, cache)) == [2, 1, 1]
    assert len(lines) == 1 and "could not be loaded" in lines[0] and "; it is compiled again" in lines[0]
    fallback.TOLD.clear()
    cache.read, cache.write = lambda name: Path(name).read_bytes(), fail  # there is no such file
    for _ in range(2):
        assert doubled(Kernel("twice", twice, cache)) == [2, 1, 1]
    assert len(lines) == 2 and "could not be kept" in lines[1] and str(error) in lines[1]


def test_a_kernel_that_nobody_has_compiled_yet_costs_no_word(lines, tmp_path):
    assert doubled(Kernel("twice", twice, Cache(tmp_path, True, None, {}))) == [2, 1, 1] and not lines
