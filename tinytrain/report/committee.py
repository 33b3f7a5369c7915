"""The report of an adaptation of several networks: one result, with the costs of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from tinytrain.base.answer import with_old_keys
from tinytrain.network.committee import layer_numbers
from tinytrain.plan.plan import Plan
from tinytrain.plan.scores import Scores
from tinytrain.report import content
from tinytrain.report.report import NetworkReport, Report
from tinytrain.runtime.adaptation import RunFacts
from tinytrain.runtime.device import Clock


@dataclass(frozen=True, eq=False, repr=False)
class CommitteeReport(Report):
    """The report of the adaptation of a committee.

    `members` are the reports of its networks, `head` the bytes of the arena and the MACs of their common
    head. What belongs to one plan alone is that of the first member.
    """

    _: KW_ONLY
    members: tuple[NetworkReport, ...]
    head: tuple[int, int]

    @property
    def plan(self) -> Plan:
        return self.members[0].plan

    @property
    def scores(self) -> Scores | None:
        return self.members[0].scores

    def _lasting(self) -> dict:
        parts = [member._lasting() for member in self.members]
        stages = _merged([part["macs"]["stages"] for part in parts], sum)
        stages["heads"] += self.head[1]
        selection = []
        for part, member, numbers in zip(parts, self.members, layer_numbers(self.network), strict=True):
            if member.delta.slices:
                selection += [row | {"layer": numbers[row["layer"]]} for row in part["selection"]]
        largest = max(parts, key=lambda part: part["memory"]["arena"])
        return {
            **largest,
            "resources": {**largest["resources"], "steps": sum(part["resources"]["steps"] for part in parts)},
            "backbone": self.network.name,
            "backbone_digest": self.network.digest,
            "episode": content.describe_episode(self.episode),
            "unseen_domain": all(part["unseen_domain"] for part in parts),
            "accuracy": content.accuracy(self.episode.query.labels, self.answers, self.delta.head.left_out),
            "guard": self.guard.to_json(),
            "memory": self._memory([part["memory"] for part in parts]),
            "macs": {
                **_merged([part["macs"] for part in parts], sum),
                "stages": stages,
                "total": sum(stages.values()),
            },
            "selection": selection,
            "losses": [loss for part in parts for loss in part["losses"]],
            "warnings": list(self.warnings),
            "members": [_member(part, member) for part, member in zip(parts, self.members, strict=True)],
        }

    def _memory(self, parts: list[dict]) -> dict:
        """Members take turns in the same arena; their weights lie side by side."""
        found = _merged(parts, max)
        outside = _merged([part["outside"] for part in parts], sum)
        support = {key: n for key, n in found["outside"].items() if key.startswith("support")}
        facts = found | {
            "arena": max(found["arena"], self.head[0]),
            "delta": self.delta.nbytes,
            "trained_parameters": sum(part["trained_parameters"] for part in parts),
            "precision": " and ".join(dict.fromkeys(part["precision"] for part in parts)),
            "outside": outside | support,
        }
        return with_old_keys(facts)


def _member(part: dict, member: Report) -> dict:
    """What the report of a committee says of one of its networks."""
    return {
        "backbone": part["backbone"],
        "backbone_digest": part["backbone_digest"],
        "trained": bool(member.delta.slices),
        "arena": part["memory"]["arena"],
        "macs": part["macs"]["total"],
        "steps": len(part["losses"]),
        "similarity": part["similarity"],
        "reasons": part["guard"]["reasons"],
    }


def _merged(rows: list[dict], how: Callable) -> dict:
    """Each number of `rows`, which have the same keys, as ``how(numbers)``; what is none is the first one."""
    found = {}
    for key, first in rows[0].items():
        values = [row[key] for row in rows]
        if isinstance(first, dict):
            found[key] = _merged(values, how)
        else:
            numbers = all(isinstance(value, int | float) for value in values)
            found[key] = how(values) if numbers else first
    return found


def together(members: Sequence[NetworkReport], clock: Clock) -> RunFacts:
    """How `members` ran one after another; `clock` has the seconds of what came after them."""
    facts = [member.ran for member in members]
    stages = dict.fromkeys(stage for ran in (*facts, clock) for stage in ran.seconds)
    seconds = {stage: sum(ran.seconds.get(stage, 0.0) for ran in (*facts, clock)) for stage in stages}
    limited = facts[0].used is not None
    used = sum(ran.used for ran in facts) + clock.seconds["head"] if limited else None
    losses = [loss for ran in facts for loss in ran.losses]
    return replace(facts[0], losses=losses, seconds=seconds, used=used)
