"""Readings of /proc and /sys below a root folder.

A missing reading is None, for example in a container without /sys; no method raises.
"""

from pathlib import Path

# Bits of the Raspberry Pi's get_throttled; shifted left by 16: it has happened since the start.
UNDER_VOLTAGE, CAPPED, THROTTLED, HOT = 1, 2, 4, 8
NO_LIMIT = 2**60  # version 1 of control groups writes a huge number for "no limit"
GET_THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"


class LinuxReadings:
    """Readings below `root`, by default of the real machine."""

    def __init__(self, root: str | Path = "/"):
        self.root = Path(root)

    def text(self, path: str) -> str | None:
        """Content of a small file, without the zero byte at the end of device tree entries."""
        try:
            with open(self.root / path, encoding="utf-8", errors="replace") as file:
                return file.read(2**16).strip("\0\n ")
        except (OSError, ValueError):
            return None

    def number(self, path: str, base: int = 10) -> int | None:
        try:
            return int(self.text(path) or "", base)
        except ValueError:
            return None

    def matching(self, pattern: str) -> list[str]:
        """Sorted paths below the root, as arguments of `text`."""
        try:
            return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))
        except OSError:
            return []

    # ---- board, memory -------------------------------------------------------------------------

    def model(self) -> str | None:
        """Name of the board in its device tree."""
        return self.text("sys/firmware/devicetree/base/model") or self.text("proc/device-tree/model")

    def is_pi(self) -> bool:
        return "Raspberry Pi" in (self.model() or "")

    def meminfo(self) -> dict[str, int]:
        """Bytes by name."""
        rows = [line.split() for line in (self.text("proc/meminfo") or "").splitlines()]
        return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1 and row[1].isdigit()}

    def memory_limit(self) -> int | None:
        """Memory limit in bytes of the control groups of this process; None without a limit."""
        paths = ["sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory.max"]
        for line in (self.text("proc/self/cgroup") or "").splitlines():
            parts = line.removeprefix("0::/").split("/") if line.startswith("0::/") else []
            paths += [f"sys/fs/cgroup/{'/'.join(parts[:n])}/memory.max" for n in range(1, len(parts) + 1)]
        limits = [limit for path in paths if (limit := self.number(path)) is not None]
        return min((limit for limit in limits if limit < NO_LIMIT), default=None)

    def swaps(self) -> list[tuple[str, int]]:
        """(device or file, bytes) of each swap area."""
        rows = [line.split() for line in (self.text("proc/swaps") or "").splitlines()[1:]]
        return [(row[0], int(row[2]) * 1024) for row in rows if len(row) > 2 and row[2].isdigit()]

    # ---- control groups ------------------------------------------------------------------------

    def memory_controller(self) -> str | None:
        """``"v2"``, ``"v1"``, ``"unmounted"`` or ``"off"``; None if nothing can be read."""
        controllers = self.text("sys/fs/cgroup/cgroup.controllers")
        if controllers is not None:
            return "v2" if "memory" in controllers.split() else "off"
        rows = [line.split() for line in (self.text("proc/cgroups") or "").splitlines()]
        enabled = {row[0]: row[3] == "1" for row in rows if len(row) == 4}
        if "memory" not in enabled:
            return "off" if enabled else None
        if not enabled["memory"]:
            return "off"
        return "v1" if self.matching("sys/fs/cgroup/memory") else "unmounted"

    # ---- clock and heat ------------------------------------------------------------------------

    def governors(self) -> dict[str, str]:
        """Governor -> driver."""
        found = {}
        for path in self.matching("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
            driver = self.text(path.replace("scaling_governor", "scaling_driver"))
            found[self.text(path) or "unknown"] = driver or "unknown"
        return found

    def clock_cap(self) -> tuple[int, int] | None:
        """(allowed, possible) kHz of the first processor if its clock is capped, else None."""
        folder = "sys/devices/system/cpu/cpu0/cpufreq"
        allowed, possible = (self.number(f"{folder}/{n}_max_freq") for n in ("scaling", "cpuinfo"))
        return (allowed, possible) if allowed and possible and allowed < possible else None

    def throttled(self) -> int | None:
        """The throttling bits of the Raspberry Pi's firmware."""
        return self.number(GET_THROTTLED, 16)

    def hottest(self) -> tuple[float, float | None] | None:
        """Hottest thermal zone: (°C, °C from which the system slows the processor down, or None)."""
        zones = []
        for path in self.matching("sys/class/thermal/thermal_zone*/temp"):
            value = self.number(path)
            if value is not None and -40_000 < value < 200_000:
                zones.append((value / 1000, self._slowed_from(path.removesuffix("temp"))))
        return max(zones, key=lambda zone: zone[0], default=None)

    def _slowed_from(self, zone: str) -> float | None:
        points = []
        for path in self.matching(f"{zone}trip_point_*_type"):
            value = self.number(path.replace("_type", "_temp"))
            if self.text(path) in ("passive", "hot", "critical") and value and value > 0:
                points.append(value / 1000)
        return min(points, default=None)
