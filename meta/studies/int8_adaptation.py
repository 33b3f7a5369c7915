"""What a whole adaptation costs in float32 and in int8: processor time here, or instructions elsewhere.

    python -m tinytrain.meta.studies.int8_adaptation --backbone mcunet-5fps
    python -m tinytrain.meta.studies.int8_adaptation --backbone mcunet-5fps --count "firmware_sim/..."

A form is a precision and a budget, such as "int8@256KB". All forms adapt to the same images on one thread,
with as many steps, each by the plan that is made for it. Without --count they take turns, and the shortest
processor time of each counts, in milliseconds. --count names a command that runs Python on another machine,
as that of `int8_kernels`. Then millions of instructions are printed, those of the start by themselves: until
packages, the network and the table of kernels are loaded. There a form runs with a single step first,
which compiles.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tinytrain import kernels
from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes
from tinytrain.episode.episode import Episode
from tinytrain.meta.studies.scaling import all_steps
from tinytrain.meta.studies.study import study_parser, support_alone
from tinytrain.network.network import Network
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import CHOICES, Budget
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.registry import find_policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device

FORMS = "float32@1MB,int8@1MB,int8@256KB"
HEADINGS = ("form", "trained numbers", "arena", "MACs, M", "{unit}", "of the first", "by MAC, of the first")


def budget_of(form: str) -> Budget:
    """The budget of a form. Raises UsageError ``bad-form``."""
    precision, _, memory = form.partition("@")
    if precision not in CHOICES or not memory:
        raise UsageError("bad-form", f"there is no form {form}; a form is such as int8@256KB")
    return Budget(parse_bytes(memory), precision=precision)


def adapted(network: Network, episode: Episode, form: str, args) -> Report:
    policy, device = all_steps(find_policy(args.policy), args.steps), Device(threads=1)
    return adapt(network, episode, budget_of(form), policy, args.seed, device, force=True)


def facts_of(report: Report) -> dict[str, int]:
    """What an adaptation trained, in how many bytes, with how many MACs."""
    facts = report.to_json()
    memory = facts["memory"]
    return {"trained": memory["trained_numbers"], "arena": memory["arena"], "macs": facts["macs"]["total"]}


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


def counted(command: str, arguments: Callable[[str], list[str]], forms: list[str]) -> list[dict]:
    """The facts of every form, with millions of instructions of the start and of the adaptation."""
    found = []
    for form in forms:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "count"
            run = [*shlex.split(command), "-m", "tinytrain.meta.studies.int8_adaptation", *arguments(form)]
            told = ""
            for options, more in ((["--steps", "1"], {}), ([], {"COUNT": str(file)})):  # compiles first
                told = subprocess.run(
                    run + options, check=True, env=os.environ | more, stdout=subprocess.PIPE, text=True
                ).stdout
            marks = [int(line) for line in file.with_name("count.marks").read_text().split()]
        start, first, last = marks[-3:]
        found.append(json.loads(told) | {"start": start / 1e6, "cost": (last - first) / 1e6})
        print(f"{form}: {found[-1]}", file=sys.stderr, flush=True)
    return found


def table(forms: list[str], rows: list[dict], unit: str) -> list[str]:
    """A line per form, with its cost as a share of that of the first form, also for each MAC."""
    lines = [f"| {' | '.join(HEADINGS)} |".format(unit=unit), "|" + "---|" * len(HEADINGS)]
    first = rows[0]
    for form, row in zip(forms, rows, strict=True):
        share = row["cost"] / first["cost"]
        cells = (
            f"{row['trained']:,} | {row['arena']:,} | {row['macs'] / 1e6:,.0f} | {row['cost']:,.0f}"
            f" | {share:.2f} | {share * first['macs'] / row['macs']:.2f}"
        )
        lines.append(f"| {form} | {cells} |")
    return lines


def parser() -> Parser:
    p = study_parser("int8_adaptation", __doc__.split("\n")[0], "tinytrain-small-2", "leaves")
    p.add_argument("--forms", default=FORMS, help="with commas (default: %(default)s)")
    p.add_argument("--policy", default="tinytrain")
    p.add_argument("--way", type=at_least(2), default=5)
    p.add_argument("--shots", type=at_least(1), default=5, help="per class (default: %(default)s)")
    p.add_argument("--steps", type=at_least(1), default=Recipe.steps, help="(default: %(default)s)")
    p.add_argument("--seed", type=at_least(0), default=7)
    p.add_argument("--repeats", type=at_least(1), default=7, help="of every form (default: %(default)s)")
    p.add_argument("--count", default=None, metavar="COMMAND", help="count instructions by this command")
    p.add_argument("--mark", action="store_true", help="what COMMAND runs")
    return p


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
        own = ["--backbone", args.backbone, "--packs", args.packs, "--policy", args.policy]
        own += ["--way", str(args.way), "--shots", str(args.shots), "--seed", str(args.seed)]
        own += ["--steps", str(args.steps)]
        rows = counted(args.count, lambda form: [*own, "--forms", form, "--mark"], forms)
        print("\n".join(table(forms, rows, "instructions, M")))
        print(f"\nthe start alone: {max(row['start'] for row in rows):,.0f} M instructions")
    else:
        print("\n".join(table(forms, timed(load_backbone(args.backbone), args), "processor time, ms")))


if __name__ == "__main__":
    sys.exit(main())
