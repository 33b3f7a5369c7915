"""What studies share: options, and a log with a line for each job, so that a run that was stopped goes on."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import Parser, at_least
from tinytrain.base.errors import StorageError
from tinytrain.base.files import read_bytes
from tinytrain.datasets import open_dataset, sample_episode
from tinytrain.episode.episode import Episode
from tinytrain.meta.bench.codehash import code_hash
from tinytrain.meta.run_log import JsonLines, whole_lines
from tinytrain.network.network import Network

LARGEST_LOG = 10**9  # bytes


def study_parser(name: str, description: str, backbone: str, packs: str) -> Parser:
    """A parser with the options of every study; `backbone` and comma-separated `packs` are defaults."""
    p = Parser(prog=f"python -m tinytrain.meta.studies.{name}", description=description)
    p.add_argument("--backbone", default=backbone, help="model file, published checkpoint or name")
    p.add_argument("--data", default=None, help="folder of the packs (default: $TINYTRAIN_DATA)")
    p.add_argument("--packs", default=packs, help="comma-separated packs, domains or folders")
    return p


def add_log(parser: Parser, adapts: bool = True) -> None:
    """The options of a study whose jobs are logged, and `adapts` networks."""
    if adapts:
        parser.add_argument("--policy", default="tinytrain")
        parser.add_argument("--budget", default="1MB")
    parser.add_argument("--out", type=Path, default=None, help="log of finished jobs (JSON lines)")
    parser.add_argument(
        "--summary",
        nargs="?",
        const="",
        metavar="PACKS",
        help="only print the figures of the log, of all packs in it",
    )


def add_episodes(parser: Parser, count: int) -> None:
    """The options of a study of random episodes; `count` of them per pack is the default."""
    parser.add_argument("--way", type=at_least(2), default=5)
    parser.add_argument("--shots", type=at_least(1), default=5, help="per class (default: %(default)s)")
    parser.add_argument("--queries", type=at_least(1), default=10, help="per class (default: %(default)s)")
    parser.add_argument("--episodes", type=at_least(1), default=count, help="per pack (default: %(default)s)")
    parser.add_argument("--seed", type=at_least(0), default=7)


EPISODES = ("way", "shots", "queries", "seed")  # what all rows of a run have in common


def episode_jobs(args) -> list[dict]:
    """A job for every episode of every pack, the first episodes of all packs first."""
    return [{"pack": pack, "episode": k} for k in range(args.episodes) for pack in args.packs.split(",")]


def decoded_episode(network: Network, dataset, args, episode: int) -> Episode:
    """Episode number `episode` by the options of `add_episodes`, with all images decoded for `network`."""
    drawn = sample_episode(dataset, args.way, args.shots, args.queries, args.seed, episode)
    shape = network.input.shape
    return replace(drawn, support=drawn.support.held(shape), query=drawn.query.held(shape))


def support_alone(network: Network, args) -> Episode:
    """An episode without queries by the options --packs, --way, --shots and --seed, decoded for `network`."""
    episode = sample_episode(open_dataset(args.packs, args.data), args.way, args.shots, 0, args.seed)
    return replace(episode, support=episode.support.held(network.input.shape))


def run_study(
    args,
    jobs: Callable[..., list[dict]],
    settings: Sequence[str],
    job: Callable[..., dict],
    summary: Callable[[list[dict]], list[str]],
) -> None:
    """Run those of ``jobs(args)`` that the log ``args.out`` lacks, and print the `summary` of all its rows.

    A job is a dict with "pack" and other keys; ``job(network, dataset, args, **others)``
    returns its findings. `settings` are the options that all rows of a run
    have in common: rows that differ in one of them belong to other runs.
    """
    rows = read_log(args.out)
    if args.summary is None:
        network = load_backbone(args.backbone)
        datasets = {pack: open_dataset(pack, args.data) for pack in args.packs.split(",")}
        given = {name: getattr(args, name) for name in settings}
        given |= {"backbone": network.digest, "code": code_hash()}

        def of_pack(pack: str, **others) -> dict:
            return job(network, datasets[pack], args, **others)

        _run_left(jobs(args), given, rows, args.out, of_pack)
    shown = [row for row in rows if not args.summary or row["pack"] in args.summary.split(",")]
    _print_summaries(shown, summary)


def read_log(path: Path | None, required: bool = False) -> list[dict]:
    """Finished rows; a line cut off by a kill is dropped. Without a file there are none.

    If it is `required`, that raises InputError ``file-missing``.
    """
    there = path and (required or path.exists())
    found = whole_lines(read_bytes(path, LARGEST_LOG, least=0)) if there else []
    return [json.loads(line) for line in found]


def _run_left(
    jobs: Sequence[dict], settings: dict, rows: list[dict], path: Path | None, job: Callable[..., dict]
) -> None:
    """Run those of `jobs` that `rows` lacks with these `settings`; their rows are added, also to `path`."""
    names = jobs[0] if jobs else ()
    done = [{name: row[name] for name in names} for row in rows if row["settings"] == settings]
    left = [row for row in jobs if row not in done]
    busy = StorageError("log-in-use", f"another run is writing {path}; let it end or name another")
    with JsonLines(path, busy) if path else nullcontext() as log:
        for number, row in enumerate(left, 1):
            rows.append({**row, "settings": settings, **job(**row)})
            if log:
                log.append(rows[-1:])
            print(f"\r{number}/{len(left)} jobs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _print_summaries(rows: list[dict], summary: Callable[[list[dict]], list[str]]) -> None:
    """The lines of `summary` for the rows of each set of settings, in the order in which those came up."""
    found: dict[tuple, list[dict]] = {}
    for row in rows:
        found.setdefault(tuple(row["settings"].items()), []).append(row)
    for settings, mine in found.items():
        print(", ".join(f"{name} {value}" for name, value in settings), "", sep="\n")
        print("\n".join(summary(mine)), "", sep="\n")
