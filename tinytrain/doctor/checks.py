"""Checks everything that makes adaptations fail or run slowly on a board, and names a remedy.

Changes nothing. Does not import numba into this process, because a broken numba must not break the checks.
"""

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinytrain.base.units import format_bytes
from tinytrain.doctor import kernels as doctorcode
from tinytrain.doctor.finding import BAD, OK, WARNING, Line
from tinytrain.doctor.linux import CAPPED, HOT, THROTTLED, UNDER_VOLTAGE, LinuxReadings
from tinytrain.kernels.compile_cache.facts import cpu_fields

TESTED = ((3, 11), (3, 13))
FREE_MEMORY = (60_000_000, 200_000_000)  # for numba and its kernels: loaded, and while compiling
SMALL_MACHINE = 1_500_000_000  # with less memory and no swap, the system may kill the compiler
FREE_DISK = {"cache": (20_000_000, 100_000_000), "folder": (5_000_000, 50_000_000)}
HOT_FROM, TOO_HOT_FROM = 80.0, 90.0
SELF_SCALING_DRIVERS = ("intel_pstate", "amd-pstate", "amd-pstate-epp")
ENABLE_ON_PI = (
    "add 'cgroup_enable=memory cgroup_memory=1' to the line in /boot/firmware/cmdline.txt and restart;"
    " until then MemoryMax= and memory.max have no effect"
)


@dataclass(frozen=True)
class Subject:
    """What is checked; tests use made-up folders."""

    linux: LinuxReadings
    cache: Path  # folder of compiled kernels
    folder: Path  # folder for results
    statvfs: Callable = os.statvfs


def examine(subject: Subject) -> list[Line]:
    """The lines of all checks, in the order of the report."""
    return [line for check in CHECKS for line in check(subject)]


def python(subject: Subject) -> list[Line]:
    version, bits = sys.version_info[:2], 64 if sys.maxsize > 2**32 else 32
    value = f"{platform.python_version()}, {bits} bits"
    if bits == 32:
        return [Line("python", WARNING, value, "install a 64-bit system: there is no numba for 32 bits")]
    if not TESTED[0] <= version <= TESTED[1]:
        return [Line("python", WARNING, value, "use Python 3.11 to 3.13, which are tested")]
    return [Line("python", OK, value)]


def cpu(subject: Subject) -> list[Line]:
    fields, model = cpu_fields(subject.linux.root), subject.linux.model()
    name = fields.get("model name") or fields.get("Model") or fields.get("CPU part") or "unknown"
    value = f"{model}, {name}" if model else name
    cores = len(os.sched_getaffinity(0))
    return [Line("cpu", OK, f"{value} ({platform.machine()})"), Line("cores", OK, f"{cores} usable")]


def memory(subject: Subject) -> list[Line]:
    sizes, limit = subject.linux.meminfo(), subject.linux.memory_limit()
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable", sizes.get("MemFree"))
    if total is None or free is None:
        return [Line("memory", WARNING, "cannot be read", "mount /proc, so that free memory can be seen")]
    value = f"{format_bytes(total)}, {format_bytes(free)} free"
    if limit is not None and limit < total:
        value, free = f"{value}, limited to {format_bytes(limit)}", min(free, limit)
    state = _below(free, FREE_MEMORY)
    return [Line("memory", state, value, "end other programs, or add zram swap")]


def swap(subject: Subject) -> list[Line]:
    areas, total = subject.linux.swaps(), subject.linux.meminfo().get("MemTotal")
    value = ", ".join(f"{name} {format_bytes(size)}" for name, size in areas) or "none"
    if not areas and total is not None and total < SMALL_MACHINE:
        remedy = "install zram-tools: compiling may need more memory, and zram does not wear the SD card"
        return [Line("swap", WARNING, value, remedy)]
    return [Line("swap", OK, value)]


def memory_controller(subject: Subject) -> list[Line]:
    found = subject.linux.memory_controller()
    if found in ("v1", "v2"):
        return [Line("cgroups", OK, f"memory controller is on ({found})")]
    if found == "off":
        remedy = "start the kernel with cgroup_enable=memory, or delegate the controller to this group"
        remedy = ENABLE_ON_PI if subject.linux.is_pi() else remedy
        return [Line("cgroups", WARNING, "memory controller is off", remedy)]
    value = "memory controller is not mounted" if found else "cannot be read"
    remedy = "mount /sys/fs/cgroup; without it memory limits can neither be set nor read"
    return [Line("cgroups", WARNING, value, remedy)]


def disks(subject: Subject) -> list[Line]:
    return [_disk("cache", subject, subject.cache), _disk("folder", subject, subject.folder)]


def _disk(name: str, subject: Subject, path: Path) -> Line:
    while not os.path.exists(path) and path != path.parent:  # of a Path it raises where nobody may look
        path = path.parent  # a missing folder would be created on the file system of its parent
    try:
        status = subject.statvfs(path)
    except OSError as error:
        return Line(f"disk {name}", BAD, f"{path}: {error.strerror}", "check the file system")
    free = status.f_bavail * status.f_frsize
    value = f"{format_bytes(free)} free at {path}"
    if status.f_flag & os.ST_RDONLY:
        return Line(f"disk {name}", BAD, f"{path} is read-only", _elsewhere(name))
    if status.f_files and not status.f_favail:
        return Line(f"disk {name}", BAD, f"{path} can hold no more files", "remove files that are not needed")
    return Line(
        f"disk {name}", _below(free, FREE_DISK[name]), value, f"free some space, or {_elsewhere(name)}"
    )


def _elsewhere(name: str) -> str:
    return "set TINYTRAIN_CACHE to a folder elsewhere" if name == "cache" else "work in a folder elsewhere"


def governor(subject: Subject) -> list[Line]:
    found, cap = subject.linux.governors(), subject.linux.clock_cap()
    if not found:
        return [Line("governor", OK, "none: Linux does not control the clock")]
    value = ", ".join(f"{name} ({driver})" for name, driver in sorted(found.items()))
    slow = found.get("powersave")
    if slow and slow not in SELF_SCALING_DRIVERS:
        remedy = "echo ondemand | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
        return [Line("governor", WARNING, value, remedy)]
    if cap:
        value += f", capped at {cap[0] / 1000:.0f} of {cap[1] / 1000:.0f} MHz"
        return [Line("governor", WARNING, value, "raise scaling_max_freq, or accept slower adaptations")]
    return [Line("governor", OK, value)]


def throttling(subject: Subject) -> list[Line]:
    bits = subject.linux.throttled()
    if bits is None:
        return []
    for mask, state, value, remedy in THROTTLING:
        if bits & mask:
            return [Line("throttling", state, f"{value} (0x{bits:x})", remedy)]
    return [Line("throttling", OK, "none since start (0x0)")]


SUPPLY = "use the official power supply (5.1 V) and a short cable"
COOLING = "add a heat sink or a fan, or leave more room for air"
SLOWED = CAPPED | THROTTLED | HOT
THROTTLING = (  # mask, state, meaning, remedy; the first match is reported
    (UNDER_VOLTAGE, BAD, "under-voltage now", SUPPLY),
    (SLOWED, WARNING, "slowed down now", COOLING),
    (UNDER_VOLTAGE << 16, WARNING, "under-voltage since start", SUPPLY),
    (SLOWED << 16, WARNING, "was slowed down since start", COOLING),
)


def temperature(subject: Subject) -> list[Line]:
    found = subject.linux.hottest()
    if found is None:
        return []
    degrees, slowed_from = found
    limit = min(slowed_from or HOT_FROM, TOO_HOT_FROM)
    value = f"{degrees:.0f} °C, slowed down from {limit:.0f} °C"
    state = BAD if degrees >= max(limit, TOO_HOT_FROM) else WARNING if degrees >= limit else OK
    return [Line("temperature", state, value, COOLING)]


def _below(amount: int, limits: tuple[int, int]) -> str:
    return BAD if amount < limits[0] else WARNING if amount < limits[1] else OK


CHECKS = (
    python, cpu, memory, swap, doctorcode.numpy, doctorcode.numba, doctorcode.kernels, doctorcode.calls,
    memory_controller, disks, governor, throttling, temperature,
)  # fmt: skip
