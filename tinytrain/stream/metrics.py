"""Counts of a session in the text form of Prometheus, for a server or the collector of node_exporter."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tinytrain.base.errors import StorageError
from tinytrain.base.events import Event, Failed
from tinytrain.base.files import write_bytes
from tinytrain.stream.events import CUSUM, IMAGES, Drift, Learned, Readapted, TakenBack, Verdict
from tinytrain.stream.readers import Reader
from tinytrain.stream.verdicts import UNCERTAIN, UNKNOWN

EVERY = 15.0  # seconds between two files
PREFIX = "tinytrain"
STATES = ("identified", UNCERTAIN, UNKNOWN)
# Name -> what it counts or measures. A name in _total is that of a counter, another that of a gauge.
HELP = {
    "verdicts_total": "Images that have a verdict, by what that is.",
    "verdict_seconds_total": "Seconds that these verdicts took.",
    "errors_total": "Unreadable images, refused labels, and stores that took nothing, by code.",
    "corrections_total": "Labels that were learnt.",
    "correction_seconds_total": "Seconds until they were learnt and stored.",
    "undone_total": "Labels that were taken back.",
    "drifts_total": "Alarms that the stream has changed, by what showed it.",
    "readaptations_total": "Adaptations and trials that changed the network, and others.",
    "last_verdict_timestamp_seconds": "When the last verdict was given; 0 for never.",
    "start_timestamp_seconds": "When counting began.",
    "memory_bytes": "Memory of the process that is in RAM.",
    "store_bytes": "Bytes of all files in the store.",
    "temperature_celsius": "Temperature of a thermal zone of the system.",
}
Sample = tuple[str, dict[str, str], float]  # a name of HELP, labels, value


class Counts(Reader):
    """Counts events. `now` gives seconds since 1970."""

    def __init__(self, now: Callable[[], float] = time.time):
        self._now, self._start, self._last = now, now(), 0.0
        self._counts: dict[tuple[str, str, str], float] = {}  # by name, label and its value
        for state in STATES:
            self._count("verdicts_total", "verdict", state, by=0)
        for found in (IMAGES, CUSUM):
            self._count("drifts_total", "found", found, by=0)
        for name in ("verdict_seconds", "corrections", "correction_seconds", "undone"):
            self._count(f"{name}_total", by=0)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Verdict):
            self._count("verdicts_total", "verdict", event.verdict.state)
            self._count("verdict_seconds_total", by=event.seconds)
            self._last = self._now()
        elif isinstance(event, Learned):
            self._count("corrections_total")
            self._count("correction_seconds_total", by=event.seconds)
        elif isinstance(event, TakenBack):
            self._count("undone_total")
        elif isinstance(event, Drift):
            self._count("drifts_total", "found", event.found)
        elif isinstance(event, Readapted):
            self._count("readaptations_total", "done", str(event.done).lower())
        elif isinstance(event, Failed):
            self._count("errors_total", "code", event.error.code)

    def _count(self, name: str, label: str = "", value: str = "", by: float = 1) -> None:
        key = name, label, value
        self._counts[key] = self._counts.get(key, 0) + by

    def samples(self) -> list[Sample]:
        """What was counted, and when."""
        return [
            *((name, {label: value} if label else {}, n) for (name, label, value), n in self._counts.items()),
            ("last_verdict_timestamp_seconds", {}, self._last),
            ("start_timestamp_seconds", {}, self._start),
        ]


class MetricsFile(Counts):
    """Writes what it counts to the file `path`, whole or not at all, every EVERY seconds and at the end.

    With a `store`, its size is in it. A file that cannot be written is told, once as long as that lasts.
    """

    def __init__(
        self, path: str, store: os.PathLike | None = None, clock: Callable[[], float] = time.monotonic
    ):
        super().__init__()
        self._path, self._store, self._clock, self._due, self._trouble = path, store, clock, clock(), ""

    def between(self) -> Iterator[Event]:
        if self._clock() >= self._due:
            yield from self._written()

    def __exit__(self, *exception) -> None:
        self._due = self._clock()

    def _written(self) -> Iterator[Event]:
        self._due = self._clock() + EVERY
        try:
            write_bytes(self._path, exposition([*self.samples(), *of_machine(self._store)]).encode())
            self._trouble = ""
        except StorageError as error:
            if self._trouble != error.message:
                yield Failed(error, {}, "; images are looked at all the same")
            self._trouble = error.message


def exposition(samples: list[Sample]) -> str:
    """The `samples` in the text form of Prometheus, version 0.0.4."""
    lines = []
    for name, what in HELP.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        given = [(labels, value) for known, labels, value in samples if known == name]
        if given:
            lines += [f"# HELP {PREFIX}_{name} {what}", f"# TYPE {PREFIX}_{name} {kind}"]
            lines += [f"{PREFIX}_{name}{_in_braces(labels)} {value}" for labels, value in given]
    return "".join(f"{line}\n" for line in lines)


def _in_braces(labels: Mapping[str, str]) -> str:
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return "{" + ",".join(f'{k}="{v.translate(escaped)}"' for k, v in labels.items()) + "}" if labels else ""


def of_machine(store: str | None = None, root: str | os.PathLike = "/") -> list[Sample]:
    """Memory of this process, bytes in the `store`, and temperatures, as far as the system tells."""
    found: list[Sample] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(root, "proc/self/statm").read_text().split()[1])
        found.append(("memory_bytes", {}, pages * os.sysconf("SC_PAGE_SIZE")))
    if store is not None:
        found.append(("store_bytes", {}, _bytes_in(store)))
    for zone in sorted(Path(root, "sys/class/thermal").glob("thermal_zone*")):
        with contextlib.suppress(OSError, ValueError):
            labels = {"zone": zone.name, "type": (zone / "type").read_text().strip()}
            found.append(("temperature_celsius", labels, int((zone / "temp").read_text()) / 1000))
    return found


def _bytes_in(folder: str) -> int:
    total = 0
    for path in Path(folder).rglob("*"):
        with contextlib.suppress(OSError):  # it has vanished since
            total += path.stat().st_size if path.is_file() else 0
    return total
