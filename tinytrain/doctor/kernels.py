"""Checks of the code that computes: numpy, numba and compiled kernels."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tinytrain.base.errors import one_line
from tinytrain.base.units import format_bytes
from tinytrain.doctor.finding import BAD, OK, WARNING, Line
from tinytrain.kernels.compile_cache import cache as jitcache
from tinytrain.kernels.compile_cache.facts import made_for
from tinytrain.kernels.compile_cache.folder import in_doubt

IMPORT_SECONDS = 120  # numba takes seconds on a small board
# Run in separate processes, because a broken library may kill the process that imports it.
PROBE = """
import json, sys, time
from tinytrain.kernels.dispatch.machine_code import check_executable
check_executable()
start = time.perf_counter()
import numba, llvmlite.binding
cpu = llvmlite.binding.get_host_cpu_name()
print(json.dumps([numba.__version__, cpu, time.perf_counter() - start]))
"""
NUMPY_PROBE = "import json, numpy; print(json.dumps(numpy.__version__))"
PACKAGED_PROBE = """
import json
from tinytrain.kernels.dispatch.target import packaged
print(json.dumps(packaged() and str(packaged())))
"""
CALLS_PROBE = """
import json
from tinytrain.kernels.dispatch.machine_code import check_executable
check_executable()
from tinytrain.kernels.dispatch.native_calls import native_support
print(json.dumps({"kernels": native_support()}))
"""
IN_NUMPY = "kernels run in plain numpy, several times slower; "
REINSTALL_NUMBA = "pip install --force-reinstall numba"
WARM_UP = "run tinytrain warmup, so that the first adaptation does not have to compile them"


def numpy(subject) -> list[Line]:
    version, problem = _asked(NUMPY_PROBE)
    if problem:
        return [Line("numpy", BAD, problem, "pip install --force-reinstall --only-binary=:all: numpy")]
    return [Line("numpy", OK, str(version))]


def numba(subject) -> list[Line]:
    found, problem = _asked(PROBE)
    if problem:
        return [_without_numba("numba", problem)]
    version, cpu, seconds = found
    facts = {"version": version, "cpu": cpu, "import_seconds": seconds}
    return [Line("numba", OK, f"{version} for {cpu}, imported in {seconds:.1f} s", facts=facts)]


def _without_numba(name: str, problem: str) -> Line:
    """The line `name` if numba cannot be used; an error of ours names its own remedy."""
    _, ours, message = problem.partition("numba-unusable: ")
    value, _, remedy = message.partition("; ") if ours else (f"numba {problem}", "", REINSTALL_NUMBA)
    return Line(name, WARNING, value, IN_NUMPY + remedy)


def _asked(probe: str) -> tuple[object, str | None]:
    """(JSON output of `probe`, None) or (None, the problem)."""
    command = [sys.executable, "-c", probe]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"could not be tried: {error}"
    try:
        return json.loads(done.stdout), None
    except ValueError:
        reason = done.stderr.strip().rpartition("\n")[2] or f"its import ended with {done.returncode}"
        return None, f"cannot be imported: {one_line(reason, 300)}"


def kernels(subject) -> list[Line]:
    """Compiled kernels, looked at as the next start will look at them: of the package, or else on disk."""
    health, problem = jitcache.Health(), None
    try:
        if folder := _packaged():
            health = jitcache.inspect(folder, packaged=True)
            return [Line("kernels", *_of_package(health), _facts(health, folder))]
        folder = subject.cache / jitcache.folder_of(made_for())
        problem = in_doubt(Path(os.path.realpath(subject.cache)).parent)
        if not problem:
            health = jitcache.inspect(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        problem = error.strerror
    return [Line("kernels", *_judged(subject, health, problem), _facts(health, folder))]


def _facts(health: jitcache.Health, folder: Path) -> dict:
    return {
        "state": health.state,
        "kernels": health.kernels,
        "bytes": health.nbytes,
        "damaged": len(health.damaged),
        "folder": str(folder),
    }


def _packaged() -> Path | None:
    """Where the package brings kernels for this processor, if it brings any."""
    if not jitcache.PACKAGED.is_dir():  # in most clones: that is not worth a process
        return None
    found, _ = _asked(PACKAGED_PROBE)
    return Path(found) if found and os.path.isdir(found) else None


def _of_package(health: jitcache.Health) -> tuple[str, str, str]:
    value = f"{health.kernels} compiled, {format_bytes(health.nbytes)}, came with the package"
    if health.damaged:
        value += f", {len(health.damaged)} files damaged, which are compiled here"
        return WARNING, value, "install the package again, by pip install --force-reinstall or from the kit"
    return OK, f"{value}, verified", WARM_UP


def _judged(subject, health, problem: str | None) -> tuple[str, str, str]:
    """State, value and remedy."""
    kept = f"{health.kernels} compiled, {format_bytes(health.nbytes)}"
    if problem or not _writable(subject.cache):
        value = f"{kept}; {problem or 'the folder cannot be written'}: {subject.cache}"
        # Verified kernels are used from a copy; without any, plain numpy runs.
        return WARNING if health.good else BAD, value, "set TINYTRAIN_CACHE to a folder that can be written"
    if health.state == "damaged":
        value = f"{kept}, {len(health.damaged)} files damaged"
        return WARNING, value, f"{WARM_UP}; if this repeats, check the storage device"
    if health.state == "absent":
        return WARNING, "none compiled yet", WARM_UP
    return OK, f"{kept}, verified", WARM_UP


def _writable(path) -> bool:
    while not os.path.exists(path) and path != path.parent:
        path = path.parent
    try:
        tempfile.TemporaryFile(dir=path).close()  # try it, because permissions alone do not tell
    except OSError:
        return False
    return True


def calls(subject) -> list[Line]:
    """Whether kernels run in native call sequences, or Python makes every call."""
    found, problem = _asked(CALLS_PROBE)
    if problem:
        return [_without_numba("calls", problem)]
    if not found["kernels"]:
        value = "each from Python: slower by a tenth, and two threads are hardly faster than one"
        return [Line("calls", WARNING, value, "pip install --force-reinstall llvmlite numba", facts=found)]
    return [Line("calls", OK, "many kernels per call from Python", facts=found)]
