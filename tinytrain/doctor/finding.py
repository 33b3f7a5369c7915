"""One line of the doctor's report."""

from dataclasses import dataclass, field

OK, WARNING, BAD = STATES = ("ok", "warning", "bad")


@dataclass(frozen=True)
class Line:
    """A check's result; `remedy` is dropped if the state is ok, `facts` are for ``--json``."""

    name: str
    state: str
    value: str
    remedy: str | None = None
    facts: dict = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "value", " ".join(self.value.split()))  # texts may have several lines
        if self.state == OK:
            object.__setattr__(self, "remedy", None)

    def to_json(self) -> dict:
        shown = {"name": self.name, "state": self.state, "value": self.value, "remedy": self.remedy}
        return {**shown, **({"facts": self.facts} if self.facts else {})}


def worst(lines: list[Line]) -> str:
    return max((line.state for line in lines), key=STATES.index, default=OK)


def render(lines: list[Line]) -> str:
    """The report as text: one row per line, with its remedy below."""
    rows = []
    for line in lines:
        rows.append(f"{line.state:<8} {line.name:<12} {line.value}")
        if line.remedy:
            rows.append(f"{'':<8} {'':<12} -> {line.remedy}")
    return "\n".join(rows)
