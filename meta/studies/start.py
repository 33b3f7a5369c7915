"""How long a command takes to its first kernel and to its end, with compiled kernels in the cache.

    python -m tinytrain.meta.studies.start
    python -m tinytrain.meta.studies.start --runs 15 --command "predict leaves.safetensors new/"

The command runs in fresh processes. Seconds that passed, and of processor time, are the least and the median
of all runs but the first, which fills caches; both count the start of Python and all imports.
"""

import json
import shlex
import statistics
import subprocess
import sys
import time

from tinytrain.base.console import guarded
from tinytrain.base.errors import UsageError
from tinytrain.meta.studies.study import number, option, parser_of, table

README = "adapt --shots 5 --budget 1MB"
# The last line on stderr is [[seconds, of processor time] of the first kernel, the same of the end].
PROBE = """
import atexit, json, sys, time
from tinytrain.kernels.dispatch.code import Code
from tinytrain.kernels.dispatch.native_calls import NativeSequence

begun, times, usual = float(sys.argv.pop(1)), [], (Code.__call__, NativeSequence.__call__)

def now():
    return [time.monotonic() - begun, time.process_time()]

def watched(call):
    def first(self, *arguments):
        Code.__call__, NativeSequence.__call__ = usual
        times.append(now())
        return call(self, *arguments)
    return first

Code.__call__, NativeSequence.__call__ = map(watched, usual)
atexit.register(lambda: print(json.dumps([*times, now()]), file=sys.stderr))
from tinytrain.cli.main import main
sys.exit(main())
"""


def times_of(command: list[str]) -> list[list[float]]:
    """[seconds, of processor time] to the first kernel and to the end of one run of `command`.

    Raises UsageError for a command that fails or runs no kernel.
    """
    begun = [sys.executable, "-c", PROBE, str(time.monotonic())]
    done = subprocess.run([*begun, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    *said, last = done.stderr.splitlines() or [""]
    times = json.loads(last) if last.startswith("[[") else []
    if done.returncode or len(times) != 2:
        raise UsageError("usage", f"{' '.join(command)} {said[-1] if said else 'runs no kernel'}")
    return times


def parser():
    runs = number("--runs", 7, "counted runs (default: %(default)s)")
    return parser_of(
        "start", __doc__, runs, option("--command", README, "of tinytrain (default: %(default)s)")
    )


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    given = parser().parse(arguments)
    command = shlex.split(given.command)
    times_of(command)
    rows = [times_of(command) for _ in range(given.runs)]
    body = []
    for k, name in enumerate(("to the first kernel", "to the end")):
        cells = ([row[k][clock] for row in rows] for clock in (0, 1))
        body.append((name, *(f"{min(c):.2f}, {statistics.median(c):.2f}" for c in cells)))
    print("\n".join(table(("seconds, least and median", "passed", "of processor time"), body)))


if __name__ == "__main__":
    sys.exit(main())
