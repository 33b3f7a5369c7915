"""Accuracy of policies on paired episodes: the same pictures, seeds and backbone for each of them.

    python -m tinytrain.meta.accuracy --backbone mcunet-5fps.pkl --data packs --episodes 60 --out runs.jsonl

Every finished episode is a line of the log; a run that was stopped goes on where it stopped. A
policy is written NAME or NAME@MACS, for example ``tinytrain@30%``.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

from tinytrain.adapt import adapt
from tinytrain.datasets import Dataset, open_dataset, sample_episode, sample_meta_dataset_episode
from tinytrain.episode import Episode
from tinytrain.modelfile import load_backbone
from tinytrain.plan import Budget
from tinytrain.units import parse_bytes, parse_share

PACKS = ("gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch")
POLICIES = ("tinytrain_published", "tinytrain", "tinytrain@30%")


def run_episode(network, episode, policy: str, memory: int, seed: int) -> dict:
    """Accuracy and cost of one policy on one episode."""
    name, _, share = policy.partition("@")
    budget = Budget(memory, parse_share(share or "15%"))
    report = adapt(network, episode, budget, name, seed=seed, lanes=1).to_json()
    return {
        **{k: report["accuracy"][k] for k in ("before_cosine", "before", "after")},
        "arena": report["memory"]["arena"],
        "macs": report["macs"]["backward_per_query"] / report["macs"]["full_backward"],
        "selection": {s["layer"]: s["n_channels"] for s in report["selection"] if s["n_channels"]},
        "seconds": report["seconds"]["total"],
    }


def draw(dataset: Dataset, args: argparse.Namespace, index: int) -> Episode:
    """Episode `index` of the stream that the command line asks for."""
    if args.max_support:
        return sample_meta_dataset_episode(dataset, args.seed, index, args.max_support)
    return sample_episode(dataset, args.way, args.shots, args.queries, args.seed, index)


def mean_interval(values) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval (normal approximation)."""
    values = np.asarray(values, float)
    return float(values.mean()), 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))


def summary(rows: list[dict], packs, policies) -> list[str]:
    """Lines of a table in per cent: a row for each policy, then paired differences between policies."""
    table = {(r["pack"], r["episode"], r["policy"]): r for r in rows}
    unadapted = [r for r in rows if r["policy"] == policies[0]]
    lines = ["| policy | " + " | ".join(packs) + " | mean | arena | backward MACs |"]
    lines.append("|---" * (len(packs) + 4) + "|")
    for name in ("before_cosine", "before"):
        cells = [mean_interval([100 * r[name] for r in unadapted if r["pack"] == p]) for p in packs]
        total = mean_interval([100 * r[name] for r in unadapted if r["pack"] in packs])
        shown = " | ".join(f"{m:.1f} ±{h:.1f}" for m, h in [*cells, total])
        lines.append(f"| {name} of {policies[0]} | {shown} | | |")
    for policy in policies:
        mine = [r for r in rows if r["policy"] == policy and r["pack"] in packs]
        cells = [mean_interval([100 * r["after"] for r in mine if r["pack"] == p]) for p in packs]
        total = mean_interval([100 * r["after"] for r in mine])
        shown = " | ".join(f"{m:.1f} ±{h:.1f}" for m, h in [*cells, total])
        macs = 100 * float(np.mean([r["macs"] for r in mine]))
        lines.append(f"| {policy} | {shown} | {max(r['arena'] for r in mine):,} | {macs:.1f} % |")
    lines.append("")
    for k, policy in enumerate(policies):
        for other in policies[:k]:
            pairs = [
                100 * (r["after"] - table[key]["after"])
                for r in rows
                if r["policy"] == policy and (key := (r["pack"], r["episode"], other)) in table
            ]
            m, h = mean_interval(pairs)
            lines.append(f"{policy} - {other}: {m:+.2f} ±{h:.2f} ({len(pairs)} paired episodes)")
    return lines


def read_log(path: Path | None) -> list[dict]:
    """Finished rows; a line cut off by a kill is dropped."""
    rows = []
    for line in path.read_text().splitlines() if path and path.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m tinytrain.meta.accuracy", description=__doc__.split("\n")[0])
    p.add_argument("--backbone", required=True, help="model file or published checkpoint")
    p.add_argument("--data", default=None, help="folder of the packs (default: $TINYTRAIN_DATA)")
    p.add_argument("--packs", default=",".join(PACKS), help="comma-separated packs, domains or folders")
    p.add_argument("--policies", default=",".join(POLICIES))
    p.add_argument("--episodes", type=int, default=60, help="per pack")
    p.add_argument("--way", type=int, default=5)
    p.add_argument("--shots", type=int, default=5)
    p.add_argument("--queries", type=int, default=10, help="per class")
    p.add_argument(
        "--max-support", type=int, default=None, metavar="N",
        help="variable ways and shots as in Meta-Dataset, with N support pictures at most",
    )  # fmt: skip
    p.add_argument("--budget", default="1MB")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=Path, default=None, help="log of finished episodes (JSON lines)")
    return p


def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    network = load_backbone(args.backbone)
    packs, policies = args.packs.split(","), args.policies.split(",")
    rows = read_log(args.out)
    done = {(r["pack"], r["episode"], r["policy"]) for r in rows}
    datasets = {pack: open_dataset(pack, args.data) for pack in packs}
    for k in range(args.episodes):
        for pack in packs:
            episode = draw(datasets[pack], args, k)
            for policy in policies:
                if (pack, k, policy) in done:
                    continue
                row = {"pack": pack, "episode": k, "policy": policy}
                row |= run_episode(network, episode, policy, parse_bytes(args.budget), seed=k)
                rows.append(row)
                if args.out:
                    with args.out.open("a") as log:
                        log.write(json.dumps(row) + "\n")
        print(f"episode {k + 1}/{args.episodes}", file=sys.stderr)
    print("\n".join(summary(rows, packs, policies)))


if __name__ == "__main__":
    main()
