"""What a whole adaptation costs: in float32 and in int8, with more MACs, on several threads, in turns.

    python -m tinytrain.meta.studies.adaptation --backbone mcunet-5fps --forms float32@1MB,int8@1MB,int8@256KB
    python -m tinytrain.meta.studies.adaptation --backbone mcunet-5fps --forms 15%@1MB,30%@1MB --threads 1,2
    python -m tinytrain.meta.studies.adaptation --backbone mcunet-5fps --count "firmware_sim/pi/run.sh ..."

A form is a precision or a fraction of the MACs, and a memory budget. All forms adapt to the same images,
without queries, with as many steps, each by the plan that is made for it. Each first adapts once, which
compiles, and then they take turns: the median of the seconds counts, of all and of training, and the shortest
processor time. On every number of threads the result has the same bits. --count names a command that runs
Python on another machine, such as the emulated Pi, with the arguments that it gets. Whenever that Python asks
for its process number, the command shall append the number of instructions so far to a file, the one that the
variable COUNT names with ".marks" behind it; `firmware_sim/pi/count.c` does so. Then millions of instructions
are printed, those of the start by themselves: until packages, network and kernels are loaded. There a form
runs with a single step first, which compiles.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from tinytrain import kernels
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes, parse_fraction
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Episode
from tinytrain.meta.studies.scaling import all_steps
from tinytrain.meta.studies.study import (
    network_options,
    number,
    numbers,
    option,
    parser_of,
    support_alone,
    table,
    task_options,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe
from tinytrain.program.backends import SUMMARIES
from tinytrain.report import Report
from tinytrain.runtime.device import Device

HEADINGS = ("form", "threads", "trained parameters", "arena", "MACs, M")
TIMES = ("seconds", "training", "processor time")
ADAPTED = ("backbone", "packs", "policy", "way", "shots", "seed", "steps")  # options of what is counted


def budget_of(form: str) -> Budget:
    """The budget of a form. Raises UsageError."""
    what, _, memory = form.partition("@")
    if not memory:
        raise UsageError("usage", f"there is no form {form}; a form is such as int8@256KB or 15%@1MB")
    precise = {"precision": what} if what in SUMMARIES else {"macs": parse_fraction(what)}
    return Budget(parse_bytes(memory), **precise)


def adapted(network: Network, episode: Episode, form: str, args, threads: int = 1) -> Report:
    policy, device = all_steps(args.policy, args.steps), Device(threads=threads)
    return adapt(network, episode, budget_of(form), policy, args.seed, device, force=True)


def facts_of(report: Report) -> list[int]:
    """What an adaptation trained, in how many bytes, with how many MACs."""
    facts = report.to_json()
    memory = facts["memory"]
    return [memory["trained_parameters"], memory["arena"], facts["macs"]["total"]]


def timed(network: Network, args) -> list[list[str]]:
    """A line for each form and number of threads, its times beside their share of those of the first line.

    Raises SystemExit if the result depends on the threads.
    """
    episode, runs = support_alone(network, args), list(product(args.forms.split(","), args.threads))
    facts, times, results = {}, {run: [] for run in runs}, {}
    for repeat in range(args.repeats + 1):
        for form, n in runs:
            wall, processor = time.perf_counter(), time.process_time()
            report = adapted(network, episode, form, args, n)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            result = encode_delta(report.delta)
            if result != results.setdefault(form, result):
                raise SystemExit(f"{n} threads give another result than {args.threads[0]}")
            facts[form] = facts_of(report)
            if repeat:
                times[form, n].append((wall, report.ran.seconds["training"], processor))
    body, first = [], None
    for (form, n), samples in times.items():
        walls, trainings, processors = zip(*samples, strict=True)
        found = statistics.median(walls), statistics.median(trainings), min(processors)
        first = first or found
        shares = (f"{value:.3f} ({value / base:.2f})" for value, base in zip(found, first, strict=True))
        body.append([form, str(n), *cells(facts[form]), *shares])
    return body


def cells(facts: list[int]) -> list[str]:
    trained, arena, macs = facts
    return [f"{trained:,}", f"{arena:,}", f"{macs / 1e6:,.0f}"]


def mark(args) -> None:
    """Adapt once, between two marks behind that of the start; print the facts."""
    network = load_backbone(args.backbone)
    kernels.load()
    os.getpid()  # a command that counts takes this for a mark
    episode = support_alone(network, args)
    os.getpid()
    report = adapted(network, episode, args.forms, args)
    os.getpid()
    print(json.dumps(facts_of(report)))


def marks_of(command: str, options: list[str]) -> tuple[list[int], str]:
    """The marks that this script sets where `command` runs it, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "count"
        run = [*shlex.split(command), "-m", "tinytrain.meta.studies.adaptation", *options]
        done = subprocess.run(
            run, check=True, env=os.environ | {"COUNT": str(file)}, stdout=subprocess.PIPE, text=True
        )
        return [int(line) for line in file.with_name("count.marks").read_text().split()], done.stdout


def counted(args) -> list[list[str]]:
    """A line for each form: millions of instructions, their share of those of the first, and of the start."""
    body, first = [], None
    options = [word for name in ADAPTED for word in (f"--{name}", str(getattr(args, name)))]
    for form in args.forms.split(","):
        run = [*options, "--forms", form, "--mark"]
        marks_of(args.count, [*run, "--steps", "1"])  # compiles
        marks, told = marks_of(args.count, run)
        start, begun, ended = marks[-3:]
        first = first or ended - begun
        share = f"{(ended - begun) / 1e6:,.0f} ({(ended - begun) / first:.2f})"
        body.append([form, "1", *cells(json.loads(told)), share, f"{start / 1e6:,.0f}"])
        print(" ".join(body[-1]), file=sys.stderr, flush=True)
    return body


def parser():
    return parser_of(
        "adaptation",
        __doc__,
        *network_options("tinytrain-small-2", "leaves"),
        option("--forms", "float32@1MB,int8@1MB,int8@256KB", "with commas (default: %(default)s)"),
        option("--policy", "tinytrain"),
        *(o for o in task_options() if o[0] != "--queries"),
        number("--repeats", 7, "of every one (default: %(default)s)"),
        number("--steps", Recipe.steps, "(default: %(default)s)"),
        option("--threads", "1", "numbers with commas (default: %(default)s)", type=numbers),
        option("--count", None, "count instructions by this command", metavar="COMMAND"),
        option("--mark", False, "what COMMAND runs", action="store_true"),
    )


def main(arguments: list[str] | None = None) -> int:
    return guarded(study, arguments)


def study(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    for form in args.forms.split(","):
        budget_of(form)
    if args.mark:
        mark(args)
    elif args.count:
        print("\n".join(table((*HEADINGS, "instructions, M", "of the start"), counted(args))))
    else:
        print("\n".join(table((*HEADINGS, *TIMES), timed(load_backbone(args.backbone), args))))


if __name__ == "__main__":
    sys.exit(main())
