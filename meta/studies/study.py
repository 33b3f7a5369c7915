"""The runner of all studies: options, a resumable log with a line for each job, and tables."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import Parser, at_least, guarded
from tinytrain.base.errors import UsageError
from tinytrain.base.units import parse_bytes
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.datasets.development import LISTS
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.codehash import code_hash
from tinytrain.meta.bench.document import table_lines as table
from tinytrain.meta.bench.sampler import decoded
from tinytrain.meta.bench.statistics import Interval, mean_interval, stratified
from tinytrain.meta.run_log import any_row, opened, read_log
from tinytrain.network.network import Network
from tinytrain.pipeline.committee import adapt
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.common import Policy
from tinytrain.report import Report
from tinytrain.runtime.device import Device

Option = tuple[str, dict]  # the arguments of add_argument
Rows = list[dict]
TARGETS = "gtsrb,omniglot,flowers12,dtd10,pacs_sketch"  # the packs of the benchmarks
DOMAINS = "pacs_photo,caltech101,tiny_imagenet200,signs,glyphs,textures,leaves,fsdd_logmel"  # no targets


def option(flag: str, default=None, text: str | None = None, **more) -> Option:
    return flag, {"default": default, "help": text, **more}


def number(flag: str, default: int, text: str | None = None, least: int = 1) -> Option:
    return option(flag, default, text, type=at_least(least))


def numbers(text: str) -> list[int]:
    """Whole numbers of at least 1, with commas. Raises UsageError."""
    return [at_least(1)(part) for part in text.split(",")]


def names_option(flag: str, default: str, text: str, known: Callable[[str], object], *others: str) -> Option:
    """Names with commas. `known`, which raises UsageError, looks at each of them but the `others`."""

    def checked(names: str) -> str:
        for name in set(names.split(",")).difference(others):
            known(name)
        return names

    return option(flag, default, text, type=checked)


def one_of(names: Iterable[str], what: str) -> Callable[[str], str]:
    def known(name: str) -> str:
        if name not in names:
            raise UsageError("usage", f"{name!r} is no {what}; give {', '.join(names)}")
        return name

    return known


def plot_option(text: str) -> Option:
    def svg(name: str) -> Path:
        if not name.endswith(".svg"):
            raise UsageError("usage", f"{name!r} must end in .svg")
        return Path(name)

    return option("--plot", None, text, type=svg, metavar="FILE")


ADAPTS = (option("--policy", "tinytrain"), option("--budget", "1MB"))
ABOVE = option("--above", None, "compare with it in the summary (default: the first)", metavar="FORM")
TASK = ("way", "shots", "queries", "seed")  # what all rows of a run have in common


def task_options(queries: int = 10, seed: int = 7, way: int = 5, shots: int = 5) -> tuple[Option, ...]:
    return (
        number("--way", way, least=2),
        number("--shots", shots, "per class (default: %(default)s)"),
        number("--queries", queries, "per class (default: %(default)s)"),
        number("--seed", seed, least=0),
    )


def episodes_option(count: int, text: str = "per pack") -> Option:
    return number("--episodes", count, f"{text} (default: %(default)s)")


def form_options(forms: str, text: str, known: Callable[[str], object]) -> tuple[Option, ...]:
    """Those of a study of `each_form`; `known` raises UsageError for what is no form."""
    return names_option("--forms", forms, text, known), *task_options(), episodes_option(10)


def pack_names(text: str) -> str:
    """Names with commas, those of the domains of a list in place of its own name."""
    return ",".join(",".join(LISTS.get(name, (name,))) for name in text.split(","))


def network_options(backbone: str, packs: str) -> tuple[Option, ...]:
    return (
        option("--backbone", backbone, "model file, published checkpoint or name"),
        option("--data", None, "folder of the packs (default: $TINYTRAIN_DATA)"),
        option(
            "--packs", packs, f"with commas: packs, domains, folders, {' or '.join(LISTS)}", type=pack_names
        ),
    )


def parser_of(name: str, text: str, *options: Option) -> Parser:
    """The parser of the script `name`, whose docstring is `text`."""
    p = Parser(prog=f"python -m tinytrain.meta.studies.{name}", description=text.split("\n")[0])
    for flag, how in options:
        p.add_argument(flag, **how)
    return p


def grid(args, **values: Iterable) -> Rows:
    """A job for every combination of `values` and the packs, the first of these values changing last."""
    pairs = [*values.items(), ("pack", args.packs.split(","))]
    names, choices = zip(*pairs, strict=True)
    return [dict(zip(names, chosen, strict=True)) for chosen in product(*choices)]


def episode_jobs(args) -> Rows:
    """The first episodes of all packs first."""
    return grid(args, episode=range(args.episodes))


@dataclass(frozen=True)
class Study:
    """A comparison whose jobs are lines of a log, so that a run which was stopped goes on.

    A job is a dict with "pack" and others; ``run(network, dataset, args, **others)`` returns its findings.
    ``summary(rows)``, which also gets the options named in `shown`, are the lines that show all rows of a
    run. `settings` are the options that these have in common: rows that differ in one of them belong to other
    runs. `backbone` and the comma-separated `packs` are defaults.
    """

    name: str
    text: str
    backbone: str
    packs: str
    run: Callable[..., dict]
    summary: Callable[..., list[str]]
    options: tuple[Option, ...]
    settings: tuple[str, ...]
    jobs: Callable[..., Rows] = episode_jobs
    shown: tuple[str, ...] = ()

    def parser(self) -> Parser:
        return parser_of(
            self.name,
            self.text,
            *network_options(self.backbone, self.packs),
            option("--out", None, "log of finished jobs (JSON lines)", type=Path),
            option(
                "--summary", None, "only print the figures of the log, of all packs in it",
                nargs="?", const="", metavar="PACKS",
            ),
            *self.options,
        )  # fmt: skip

    def __call__(self, arguments: list[str] | None = None) -> int:
        return guarded(self._main, arguments)

    def _main(self, arguments: list[str]) -> None:
        args = self.parser().parse(arguments)
        more = {name: getattr(args, name) for name in self.shown}
        if args.summary is None:
            rows = self._finished(args)
        elif not args.out:
            raise UsageError("usage", "--summary prints the figures of a log; name it with --out")
        else:
            chosen = args.summary.split(",")
            rows = read_study(args.out) if args.out.exists() else []
            rows = [row for row in rows if not args.summary or row["pack"] in chosen]
        for settings in dict.fromkeys(tuple(row["settings"].items()) for row in rows):
            print(", ".join(f"{name} {value}" for name, value in settings), "", sep="\n")
            mine = [row for row in rows if tuple(row["settings"].items()) == settings]
            print("\n".join(self.summary(mine, **more)), "", sep="\n")

    def _finished(self, args) -> Rows:
        """All rows of the log, once those that it lacks have been run."""
        network = load_backbone(args.backbone)
        datasets = {pack: open_dataset(pack, args.data) for pack in args.packs.split(",")}
        settings = {name: getattr(args, name) for name in self.settings}
        settings |= {"network": network.name, "backbone": network.digest, "code": code_hash()}
        jobs = self.jobs(args)
        with opened(args.out, study_row) if args.out else nullcontext() as log:
            rows = list(log.rows) if log else []
            names = jobs[0] if jobs else ()
            done = [{name: row[name] for name in names} for row in rows if row["settings"] == settings]
            left = [job for job in jobs if job not in done]
            for count, job in enumerate(left, 1):
                others = {name: value for name, value in job.items() if name != "pack"}
                found = self.run(network, datasets[job["pack"]], args, **others)
                rows.append({**job, "settings": settings, **found})
                if log:
                    log.append(rows[-1:])
                print(f"\r{count}/{len(left)} jobs", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
        return rows


def study_row(value) -> dict:
    row = any_row(value)
    tuple(row["settings"].items()), str(row["pack"])
    return row


def read_study(path: str | Path) -> Rows:
    """The rows of the log of a study. Raises InputError."""
    return read_log(path, study_row)


# Episodes and adaptations.


def decoded_episode(network: Network, dataset, args, episode: int = 0, **changes: int) -> Episode:
    """Episode number `episode` by the options of `task_options`, or `changes` of these, decoded."""
    way, shots, queries, seed = ({**vars(args), **changes}[name] for name in TASK)
    return decoded(sample_episode(dataset, way, shots, queries, seed, episode), network)


def support_alone(network: Network, args) -> Episode:
    """An episode without queries by the options --packs, --way, --shots and --seed, decoded for `network`."""
    return decoded_episode(network, open_dataset(args.packs, args.data), args, queries=0)


def adapted(network: Network, episode: Episode, args, seed: int, policy=None, **how) -> Report:
    """An adaptation by the options of ADAPTS, on one thread; `how`: `force` and `train` of `adapt`."""
    budget = Budget(parse_bytes(args.budget))
    return adapt(network, episode, budget, policy or args.policy, seed, Device(threads=1), **how)


def with_recipes(policy: Policy, change: Callable[[Recipe], Recipe]) -> Policy:
    """The policy whose recipes are those that `change` makes of its own."""
    return replace(policy, recipe=lambda *task: change(policy.recipe(*task)))


# Tables.


def values_of(rows: Rows, key: str) -> list:
    """The different values of a key, in the order in which they came up."""
    return list(dict.fromkeys(row[key] for row in rows))


def chosen(rows: Rows, **keys) -> Rows:
    return [row for row in rows if all(row[key] == value for key, value in keys.items())]


def by_pack(rows: Rows, every: str = "all") -> list[tuple[str, Rows]]:
    """Each pack with its rows, and then all rows."""
    return [*((pack, chosen(rows, pack=pack)) for pack in values_of(rows, "pack")), (every, rows)]


def strata(rows: Rows, value: Callable[[dict], float]) -> list[np.ndarray]:
    """A value of each row, by pack."""
    return [np.array([value(row) for row in chosen(rows, pack=p)]) for p in values_of(rows, "pack")]


def mean_of_packs(rows: Rows, value: Callable[[dict], float]) -> float:
    """The mean of the means, in which every pack weighs alike."""
    return float(np.mean([values.mean() for values in strata(rows, value)]))


def percent(values) -> str:
    return f"{100 * np.mean(values):.1f}"


def signed(differences: Sequence[float]) -> str:
    return mean_interval(differences).text(signed=True)


# Studies of forms: each is a name, and all of them adapt to the same episodes.


def fact(name: str, key: str) -> Callable[[dict], float]:
    """A function of a row: the fact `key` of the form `name`."""
    return lambda row: row["forms"][name][key]


def points_above(rows: Rows, name: str, base: str) -> Interval:
    """Points of accuracy of one form above those of another, paired by episode."""
    mine, others = (fact(form, "accuracy") for form in (name, base))
    return stratified(strata(rows, lambda row: 100 * (mine(row) - others(row))))


def form_table(
    rows: Rows, base: str, more: dict[str, Callable[[str], str]], first: str = "form", than: str | None = None
) -> list[str]:
    """For each form accuracy by pack in per cent, points above the form `base`, and cells of `more`."""

    def line(name: str) -> list[str]:
        means = [100 * values.mean() for values in strata(rows, fact(name, "accuracy"))]
        lead = points_above(rows, name, base).text(2, signed=True)
        return [
            name,
            *(f"{m:.1f}" for m in (*means, np.mean(means))),
            lead,
            *(cell(name) for cell in more.values()),
        ]

    header = (first, *values_of(rows, "pack"), "mean", f"above {than or base}", *more)
    return table(header, [line(name) for name in rows[0]["forms"]])


def each_form(form: Callable[[str], object], one: Callable[..., dict]) -> Callable[..., dict]:
    """A job that adapts to one episode by all --forms: each is ``one(network, drawn, args, form, seed)``."""

    def run_job(network: Network, dataset, args, episode: int) -> dict:
        drawn = decoded_episode(network, dataset, args, episode)
        found = {name: one(network, drawn, args, form(name), episode) for name in args.forms.split(",")}
        return {"forms": found}

    return run_job


def compared_with(rows: Rows, base: str | None) -> str:
    """`base`, or the first form where it is not among those of the rows."""
    names = list(rows[0]["forms"])
    return base if base in names else names[0]
