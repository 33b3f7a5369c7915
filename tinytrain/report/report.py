"""The report of one adaptation, as `tinytrain.pipeline.adapt` returns it."""

from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.units import finite_or_none
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Episode
from tinytrain.guard.guard import Verdict
from tinytrain.network.network import Network
from tinytrain.plan.budget import Budget
from tinytrain.plan.scores import Scores
from tinytrain.policies.common import Policy
from tinytrain.program.program import Fit
from tinytrain.report import content
from tinytrain.report.executed_macs import executed


@dataclass(frozen=True, eq=False)
class Report:
    """Everything an adaptation found out. `to_json()` is what ``--json`` prints, `delta` the result itself.

    `before`, `before_cosine` and `after` are predicted labels of the query images. Where the guard kept the
    old weights, `after` is `before_cosine`, and `withheld` what the adapted network would have said.
    """

    network: Network
    episode: Episode
    budget: Budget
    policy: Policy
    seed: int
    lanes: int
    backend: str
    fit: Fit
    scores: Scores | None
    losses: list[float]
    before: np.ndarray
    before_cosine: np.ndarray
    after: np.ndarray
    seconds: dict[str, float]
    delta: Delta
    guard: Verdict
    withheld: np.ndarray | None = None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict:
        """The report as JSON values."""
        labels, left_out = self.episode.query.labels, self.delta.head.left_out
        stages = executed(self.fit.program, self.scores)
        return {
            "policy": self.policy.name,
            "backbone": self.network.name,
            "backbone_digest": self.network.digest,
            "seed": self.seed,
            "episode": content.describe_episode(self.episode),
            "unseen_domain": content.is_unseen(self.network, self.episode),
            "accuracy": {
                **content.accuracy(labels, self.before, self.before_cosine, self.after, left_out),
                "withheld": content.share_right(labels, self.withheld),
            },
            "guard": self.guard.to_json(),
            "memory": content.memory(self.network, self.episode, self.budget, self.fit, self.delta.nbytes),
            "macs": {
                **content.planned_macs(self.network, self.policy, self.budget, self.fit),
                "stages": stages,
                "total": sum(stages.values()),
            },
            "similarity": content.similarity(self.scores),
            "selection": content.selection(self.network, self.fit, self.scores),
            "seconds": {**self.seconds, "total": sum(self.seconds.values())},
            "threads": {"lanes": min(self.lanes, self.fit.resources.lanes), "blas": 1},
            "kernels": self.backend,
            "resources": content.describe_resources(self.fit),
            "losses": [finite_or_none(x) for x in self.losses],
            "arena_table": self.fit.program.table(),
            "warnings": list(self.warnings),
        }

    def with_warnings(self, *warnings: str) -> "Report":
        """The same report with more warnings, also in the one its delta carries."""
        return replace(self, warnings=(*self.warnings, *warnings)).sealed()

    def sealed(self) -> "Report":
        """The same report, its delta carrying all of it that the same seed gives again.

        Times and threads differ from run to run and have no place in a file that should not.
        """
        lasting = {key: value for key, value in self.to_json().items() if key not in ("seconds", "threads")}
        return replace(self, delta=replace(self.delta, report=lasting))
