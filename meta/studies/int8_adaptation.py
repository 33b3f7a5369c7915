"""What a whole adaptation costs in float32 and in int8: processor time here, or instructions elsewhere.

    python -m tinytrain.meta.studies.int8_adaptation --backbone mcunet-5fps
    python -m tinytrain.meta.studies.int8_adaptation --backbone mcunet-5fps --count "firmware_sim/..."

A form is a precision and a budget, such as "int8@256KB". All forms adapt to the same images on one thread,
with as many steps, each by the plan that is made for it. Without --count they take turns, and the shortest
processor time of each counts, in milliseconds. --count names a command that runs Python on another machine,
such as the emulated Pi, with the arguments that it gets. Whenever that Python asks for its process number,
the command shall append the number of instructions so far to a file, the one that the variable COUNT names
with ".marks" behind it; `firmware_sim/pi/count.c` does so. Then millions of instructions are printed, those
of the start by themselves: until packages, the network and the table of kernels are loaded. There a form
runs with a single step first, which compiles.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tinytrain import kernels
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes
from tinytrain.episode.episode import Episode
from tinytrain.meta.studies.scaling import all_steps
from tinytrain.meta.studies.study import number, option, parser_of_turns, support_alone, table
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import CHOICES, Budget
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.registry import find_policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device

FORMS = "float32@1MB,int8@1MB,int8@256KB"
HEADINGS = ("form", "trained numbers", "arena", "MACs, M", "{unit}", "of the first", "by MAC, of the first")
ADAPTED = ("backbone", "packs", "policy", "way", "shots", "seed", "steps")  # options of what is counted


def budget_of(form: str) -> Budget:
    """The budget of a form. Raises UsageError."""
    precision, _, memory = form.partition("@")
    if precision not in CHOICES or not memory:
        raise UsageError("usage", f"there is no form {form}; a form is such as int8@256KB")
    return Budget(parse_bytes(memory), precision=precision)


def adapted(network: Network, episode: Episode, form: str, args) -> Report:
    policy, device = all_steps(find_policy(args.policy), args.steps), Device(threads=1)
    return adapt(network, episode, budget_of(form), policy, args.seed, device, force=True)


def facts_of(report: Report) -> dict[str, int]:
    """What an adaptation trained, in how many bytes, with how many MACs."""
    facts = report.to_json()
    memory = facts["memory"]
    return {"trained": memory["trained_parameters"], "arena": memory["arena"], "macs": facts["macs"]["total"]}


def timed(network: Network, args) -> list[dict]:
    """The facts of every form, with its shortest processor time in milliseconds."""
    episode, forms = support_alone(network, args), args.forms.split(",")
    found = [facts_of(adapted(network, episode, form, args)) | {"cost": float("inf")} for form in forms]
    for _ in range(args.repeats):
        for form, facts in zip(forms, found, strict=True):
            start = time.process_time()
            adapted(network, episode, form, args)
            facts["cost"] = min(facts["cost"], 1e3 * (time.process_time() - start))
    return found


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
        run = [*shlex.split(command), "-m", "tinytrain.meta.studies.int8_adaptation", *options]
        done = subprocess.run(
            run, check=True, env=os.environ | {"COUNT": str(file)}, stdout=subprocess.PIPE, text=True
        )
        return [int(line) for line in file.with_name("count.marks").read_text().split()], done.stdout


def counted(command: str, options: list[str], forms: list[str]) -> list[dict]:
    """The facts of every form, with millions of instructions of the start and of the adaptation."""
    found = []
    for form in forms:
        run = [*options, "--forms", form, "--mark"]
        marks_of(command, [*run, "--steps", "1"])  # compiles
        marks, told = marks_of(command, run)
        start, first, last = marks[-3:]
        found.append(json.loads(told) | {"start": start / 1e6, "cost": (last - first) / 1e6})
        print(f"{form}: {found[-1]}", file=sys.stderr, flush=True)
    return found


def lines(forms: list[str], rows: list[dict], unit: str) -> list[str]:
    """A line per form, with its cost as a share of that of the first form, also for each MAC."""
    first, body = rows[0], []
    for form, row in zip(forms, rows, strict=True):
        share = row["cost"] / first["cost"]
        shares = (f"{share:.2f}", f"{share * first['macs'] / row['macs']:.2f}")
        macs, cost = (f"{value:,.0f}" for value in (row["macs"] / 1e6, row["cost"]))
        body.append((form, f"{row['trained']:,}", f"{row['arena']:,}", macs, cost, *shares))
    return table([heading.format(unit=unit) for heading in HEADINGS], body)


def parser():
    return parser_of_turns(
        "int8_adaptation",
        __doc__,
        FORMS,
        number("--steps", Recipe.steps, "(default: %(default)s)"),
        option("--count", None, "count instructions by this command", metavar="COMMAND"),
        option("--mark", False, "what COMMAND runs", action="store_true"),
    )


def main(arguments: list[str] | None = None) -> int:
    return guarded(study, arguments)


def study(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    forms = args.forms.split(",")
    for form in forms:
        budget_of(form)
    if args.mark:
        mark(args)
    elif args.count:
        own = [word for name in ADAPTED for word in (f"--{name}", str(getattr(args, name)))]
        rows = counted(args.count, own, forms)
        print("\n".join(lines(forms, rows, "instructions, M")))
        print(f"\nthe start alone: {max(row['start'] for row in rows):,.0f} M instructions")
    else:
        print("\n".join(lines(forms, timed(load_backbone(args.backbone), args), "processor time, ms")))


if __name__ == "__main__":
    sys.exit(main())
