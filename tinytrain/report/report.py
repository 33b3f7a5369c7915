"""The report of one adaptation, as `tinytrain.pipeline.adapt` returns it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from html import escape

from tinytrain.base.errors import one_line
from tinytrain.base.units import finite_or_none
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Episode
from tinytrain.guard.estimate import Estimate
from tinytrain.guard.guard import Verdict
from tinytrain.network.committee import Committee
from tinytrain.network.network import Network
from tinytrain.plan.plan import Plan
from tinytrain.plan.scores import Scores
from tinytrain.program.program import Program
from tinytrain.report import content
from tinytrain.report.conclusion import conclude
from tinytrain.report.page.thumbnails import Thumbnails
from tinytrain.runtime.adaptation import RunFacts
from tinytrain.runtime.answers import Answers

KEPT = {"adapted": "kept", "head": "a new head alone"}


@dataclass(frozen=True, eq=False, repr=False)
class Report(ABC):
    """Everything an adaptation found out; `delta` is the result, `to_json()` what ``--json`` prints.

    `network` is a `Network` or a `Committee`, `episode` what it was adapted to, `plan` what was trained.
    `ran` says how that went, `answers` what it says of the queries, `guard` whether it was kept, and
    `warnings` what to know besides.
    """

    network: Network | Committee
    episode: Episode
    ran: RunFacts
    answers: Answers
    delta: Delta
    guard: Verdict
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        facts = self.to_json()
        names = one_line(f"{facts['backbone']}, policy {facts['policy']}, {self.episode.n_way} classes", 200)
        kept = KEPT[self.guard.kept] if self.guard.accepted else "not kept"
        return f"<Report: {names}, {_accuracy_in_words(facts)}, {kept}>"

    def __str__(self) -> str:
        return "\n".join(conclude(self.to_json()))

    def _repr_html_(self) -> str:
        """The page, for notebooks: in a frame, so that its style stays its own."""
        from tinytrain.report.html import render_html  # late, as commands start faster without

        page = escape(render_html(self.to_json(), self.thumbnails()))
        return f'<iframe sandbox srcdoc="{page}" style="width: 100%; height: 40rem; border: 0"></iframe>'

    def to_json(self, command: Sequence[str] | None = None) -> dict:
        """The report as JSON values. `command` is the command line that made it, None for a call."""
        return {
            **self._lasting(),
            "estimate": self.estimate.to_json(),
            "seconds": {**self.ran.seconds, "total": sum(self.ran.seconds.values())},
            **content.time_given(self.plan, self.ran.used),
            "threads": {"lanes": min(self.ran.threads, self.plan.resources.workers)},
            "queries": content.queries(self.episode, self.answers),
            "layers": content.layers(self.network),
            "skipped": [skipped.to_json() for skipped in self.episode.skipped],
            "duplicates": [duplicate.to_json() for duplicate in self.episode.duplicates],
            "command": None if command is None else list(command),
            "versions": content.versions(),
        }

    @abstractmethod
    def _lasting(self) -> dict:
        """The part that a delta carries: the same seed repeats it, and it says nothing of the machine."""

    @property
    def estimate(self) -> Estimate:
        """How often the result is expected to be right on new images of its classes."""
        return content.estimate(self.episode.query.labels, self.answers, self.delta, self.guard)

    def thumbnails(self) -> Thumbnails:
        """The images for a page: pass them with the JSON to `render_html`."""
        return Thumbnails(self.episode, self.network.input)

    def with_warnings(self, *warnings: str) -> "Report":
        """The same report with more warnings, also in the one its delta carries."""
        return replace(self, warnings=(*self.warnings, *warnings)).sealed()

    def sealed(self) -> "Report":
        """The same report, with all of it that the same seed gives again in its delta.

        Times, threads and versions differ from run to run and have no place in a file that should not; nor
        have names of images and a command line, which tell where it was made. The estimate follows from
        the rest; files that were left out have no part in it. That classes were forgotten stays.
        """
        forgotten = {key: value for key, value in self.delta.report.items() if key == "forgotten"}
        return replace(self, delta=replace(self.delta, report=self._lasting() | forgotten))


@dataclass(frozen=True, eq=False, repr=False)
class NetworkReport(Report):
    """The report of the adaptation of one network by `plan`, which `scores` led to; `program` did it."""

    _: KW_ONLY
    plan: Plan
    program: Program
    scores: Scores | None

    def _lasting(self) -> dict:
        stages = content.executed_macs(self.program, self.scores, self.ran)
        return {
            "policy": self.plan.policy,
            "backbone": self.network.name,
            "backbone_digest": self.network.digest,
            "seed": self.ran.seed,
            "episode": content.describe_episode(self.episode),
            "unseen_domain": content.is_unseen(self.network, self.episode),
            "accuracy": content.accuracy(self.episode.query.labels, self.answers, self.delta.head.left_out),
            **content.normal(self.delta),
            "guard": self.guard.to_json(),
            "memory": content.memory(self.network, self.plan, self.program, self.delta.nbytes),
            "macs": {
                **content.planned_macs(self.network, self.plan),
                "stages": stages,
                "total": sum(stages.values()),
            },
            "similarity": content.similarity(self.scores),
            "selection": content.selection(self.network, self.plan.recipe, self.scores),
            "kernels": self.ran.backend,
            "resources": content.describe_resources(self.plan),
            "losses": [finite_or_none(x) for x in self.ran.losses],
            "arena_table": self.program.table(),
            "warnings": list(self.warnings),
            # What a later adaptation trains again with what was remembered.
            **({"recipe": self.plan.to_json()["recipe"]} if self.plan.task.replay else {}),
        }


def _accuracy_in_words(facts: dict) -> str:
    """The accuracy of unseen images, before and after if images were held out, in the report `facts`."""
    accuracy, estimate = facts["accuracy"], facts["estimate"]
    if "normal" in facts:
        return f"unknown above a score of {facts['normal']['threshold']:.2f}"
    if accuracy["n_query"]:
        change = f"{accuracy['before']:.1%} to {accuracy['after']:.1%}"
        return f"accuracy {change} of {accuracy['n_query']} images"
    if estimate["accuracy"] is not None:
        return f"accuracy about {estimate['accuracy']:.1%} ({estimate['method']})"
    return "accuracy unknown"
