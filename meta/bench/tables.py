"""From records to the figures of a report, as JSON values. Everything that a page shows is in here."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.meta.bench.statistics import mean_interval, paired, stratified

AT_BATCH_100 = ("full", "tinytl")  # what the published tables count at batch 100
COMPARISONS = 200_000  # a hundred times those of the results; takes ten seconds
LDA_UNADAPTED = "none + LDA head"
Values = dict[str, dict[tuple, float]]  # by pack, then by (episode, seed): accuracy in per cent


# What one label of one backbone is run with; a mean over runs with different settings is a mean of nothing.
SETTINGS = ("policy", "rate_scale", "budget", "macs_share", "backbone_digest")


def tables(records: Iterable[dict], starts: Mapping[str, str] = MappingProxyType({})) -> dict:
    """All figures. Of the runs of a label on an episode the last one counts.

    `starts` names the backbone from which another was trained, for both to be compared.
    Raises InputError where those of a label were not all run with the same settings, and for more labels
    than can be compared with each other.
    """
    records = list({_run_of(record): record for record in records}.values())
    _check_settings(records)
    groups = defaultdict(list)
    for record in records:
        groups[record["backbone"], record["sampler"]].append(record)
    made = [_Group(name, sampler, rows) for (name, sampler), rows in groups.items()]
    _check_width(made)
    return {
        "runs": len(records),
        "refused": sum("refused" in record for record in records),
        "code": dict(Counter(record["code"] for record in records)),
        "episodes": max((record["episode"] + 1 for record in records), default=0),
        "groups": [group.facts() for group in made],
        "between": _between(made, starts),
    }


def _run_of(record: dict) -> tuple:
    names = ("backbone", "sampler", "label", "pack", "episode", "seed")
    return tuple(record[name] for name in names)


def _check_settings(records: Iterable[dict]) -> None:
    first: dict[tuple, dict] = {}
    for record in records:
        group = record["backbone"], record["sampler"], record["label"]
        other = first.setdefault(group, record)
        for name in SETTINGS:
            if record[name] != other[name]:
                raise InputError(
                    "run-mismatch",
                    f"{record['label']} on {record['backbone']} was run with {name} {other[name]} and with "
                    f"{record[name]}; run all its episodes with one of them, or report from another log",
                )


def _check_width(groups: Iterable["_Group"]) -> None:
    count = sum(len(group.rows) ** 2 * len(group.packs) for group in groups)
    if count > COMPARISONS:
        raise InputError(
            "unsupported",
            f"{count:,} pairs of policies on a pack are to be compared, at most {COMPARISONS:,} are; give "
            "--packs or report from logs with fewer policies",
        )


class _Group:
    """Records of one backbone and one sampler: their methods can be compared episode by episode."""

    def __init__(self, backbone: str, sampler: str, rows: list[dict]):
        self.backbone, self.sampler = backbone, sampler
        self.packs = list(dict.fromkeys(row["pack"] for row in rows))
        self.rows: dict[str, list[dict]] = defaultdict(list)
        for row in rows:
            self.rows[row["label"]].append(row)
        self.after = {label: values(found, "after") for label, found in self.rows.items()}

    def facts(self) -> dict:
        methods = [self._method(label) for label in self.rows]
        # Of one method: how many views the head was fitted to depends on the plan. A refused run has no head,
        # and a method whose head depends on the task does not show what LDA alone does.
        fitted = ([row for row in rows if "head" in row] for rows in self.rows.values())
        if lda := next((rows for rows in fitted if rows and {row["head"] for row in rows} == {"lda"}), None):
            methods.insert(1, {"label": LDA_UNADAPTED, **self._accuracy(values(lda, "before"))})
        return {
            "backbone": self.backbone,
            "digest": next(iter(self.rows.values()))[0]["backbone_digest"],
            "sampler": self.sampler,
            "packs": self.packs,
            "methods": methods,
            "differences": [
                {"a": a, "b": b, **difference(self.after[a], self.after[b], self.packs)}
                for a in self.after
                for b in self.after
                if a != b
            ],
        }

    def _method(self, label: str) -> dict:
        rows = self.rows[label]
        first, costly = rows[0], [row for row in rows if "memory" in row]
        return {
            "label": label,
            "policy": first["policy"],
            "rate_scale": first["rate_scale"],
            "budget": first["budget"],
            **self._accuracy(self.after[label]),
            "cost": _cost(costly) if costly else None,
        }

    def _accuracy(self, found: Values) -> dict:
        means = {pack: mean_interval(list(of.values())) for pack, of in found.items()}
        whole = set(found) == set(self.packs)
        mean = stratified([list(of.values()) for of in found.values()]) if whole else None
        return {"accuracy": means, "mean": mean}


def difference(a: Values, b: Values, packs: Iterable[str]) -> dict:
    """Paired differences by pack, and their mean if no pack is missing."""
    pairs = {pack: paired(a.get(pack, {}), b.get(pack, {})) for pack in packs}
    mean = stratified(pairs.values()) if pairs and all(pairs.values()) else None
    return {"packs": {pack: mean_interval(p) for pack, p in pairs.items() if p}, "mean": mean}


def values(rows: list[dict], name: str) -> Values:
    found: Values = defaultdict(dict)
    for row in rows:
        found[row["pack"]][row["episode"], row["seed"]] = 100 * row["accuracy"][name]
    return found


def _cost(rows: list[dict]) -> dict:
    """Bytes at their most over the episodes, MACs and seconds on average."""
    memory, macs = [row["memory"] for row in rows], [row["macs"] for row in rows]
    published = "batch_100" if rows[0]["policy"] in AT_BATCH_100 else "paper"
    full = macs[0]["full_backward"]
    per_sample = float(np.mean([m["backward_per_sample"] for m in macs]))
    if rows[0]["policy"] == "full":
        per_sample = full  # the published count charges the gradient of the first layer's input too
    stages = [stage for stage in rows[0]["seconds"] if stage not in ("total", "wall")]
    return {
        "arena": max(m["arena"] for m in memory),
        "published": max(m[published] for m in memory),
        "batch_1": max(m["batch_1"] for m in memory),
        "trained_parameters": max(m["trained_parameters"] for m in memory),
        "backward_per_sample": per_sample,
        "backward_per_query": float(np.mean([m["backward_per_query"] for m in macs])),
        "full_backward": full,
        "total": float(np.mean([m["total"] for m in macs])),
        "seconds": {
            stage: float(np.mean([row["seconds"].get(stage, 0.0) for row in rows])) for stage in stages
        },
    }


def _between(groups: list[_Group], starts: Mapping[str, str]) -> list[dict]:
    """Every backbone against the one it was trained from, else the first one, with the same sampler."""
    rows, first = [], {}
    found = {(group.backbone, group.sampler): group for group in groups}
    for group in groups:
        reference = first.setdefault(group.sampler, group)
        reference = found.get((starts.get(group.backbone), group.sampler), reference)
        common = set(reference.packs)
        packs = [pack for pack in group.packs if pack in common]
        shared = [label for label in group.after if label in reference.after]
        if group is not reference and packs and shared:
            methods = [
                {"label": label, **difference(group.after[label], reference.after[label], packs)}
                for label in shared
            ]
            names = {"backbone": group.backbone, "reference": reference.backbone, "sampler": group.sampler}
            rows.append({**names, "packs": packs, "methods": methods})
    return rows
