"""How much faster a whole adaptation is on several threads: seconds of each number of them, in turns.

    python -m tinytrain.meta.studies.threads --backbone mcunet-5fps
    python -m tinytrain.meta.studies.threads --backbone mcunet-5fps --forms "15%@4MB,30%@4MB" --threads 1,2,4

A form is a MAC budget and a memory budget. All forms adapt to the same images, without queries, each by the
plan that the policy makes for it. Every number of threads first adapts once, which compiles; then they take
turns, and the median counts. Every result is compared with the first one, bit for bit.
"""

import statistics
import sys
import time

from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes, parse_fraction
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Episode
from tinytrain.meta.studies.study import numbers, option, parser_of_turns, support_alone, table
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.report import Report
from tinytrain.runtime.device import Device

FORMS = "15%@1MB,30%@1MB"
HEADINGS = ("form", "workers", "accumulators", "threads", "seconds", "speed-up", "training", "its speed-up")


def budget_of(form: str) -> Budget:
    """The budget of a form. Raises UsageError."""
    macs, _, memory = form.partition("@")
    if not memory:
        raise UsageError("usage", f"there is no form {form}; a form is such as 15%@1MB")
    return Budget(parse_bytes(memory), parse_fraction(macs))


def timed(network: Network, episode: Episode, budget: Budget, args) -> tuple[Report, dict[int, list[tuple]]]:
    """A report, and by number of threads (seconds, seconds of training) of every repeat.

    Raises SystemExit if the result depends on the threads.
    """
    found, first = {n: [] for n in args.threads}, None
    for repeat in range(args.repeats + 1):
        for n in args.threads:
            start = time.perf_counter()
            report = adapt(network, episode, budget, args.policy, args.seed, Device(threads=n), force=True)
            seconds = time.perf_counter() - start, report.ran.seconds["training"]
            result = encode_delta(report.delta)
            first = result if first is None else first
            if result != first:
                raise SystemExit(f"{n} threads give another result than {args.threads[0]}")
            if repeat:
                found[n].append(seconds)
    return report, found


def lines(form: str, report: Report, found: dict[int, list[tuple]]) -> list[tuple[str, ...]]:
    """A line for each number of threads, with its speed as a multiple of that of the first number."""
    medians = {n: [statistics.median(part) for part in zip(*rows, strict=True)] for n, rows in found.items()}
    first, r = next(iter(medians.values())), report.plan.resources
    return [
        (form, str(r.workers), str(r.accumulators), str(n), f"{whole:.3f}", f"{first[0] / whole:.2f}",
         f"{training:.3f}", f"{first[1] / training:.2f}")
        for n, (whole, training) in medians.items()
    ]  # fmt: skip


def parser():
    threads = option("--threads", "1,2", "numbers with commas (default: %(default)s)", type=numbers)
    return parser_of_turns("threads", __doc__, FORMS, threads)


def main(arguments: list[str] | None = None) -> int:
    return guarded(study, arguments)


def study(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    budgets = {form: budget_of(form) for form in args.forms.split(",")}
    network = load_backbone(args.backbone)
    episode = support_alone(network, args)
    found = {form: timed(network, episode, budget, args) for form, budget in budgets.items()}
    rows = [row for form, (report, times) in found.items() for row in lines(form, report, times)]
    print("\n".join(table(HEADINGS, rows)))


if __name__ == "__main__":
    sys.exit(main())
