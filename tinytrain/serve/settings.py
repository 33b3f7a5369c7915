"""How a project is served: what the options of the command say of learning."""

from dataclasses import dataclass, replace
from functools import cache

from tinytrain.backbones.catalogue import AUTO, ENCODERS, is_here
from tinytrain.backbones.load import open_backbone
from tinytrain.base.units import parse_fraction
from tinytrain.episode.kinds import KINDS
from tinytrain.serve.project import Project


@dataclass(frozen=True)
class Settings:
    """The `backbone` as ``--backbone`` takes it, bytes of `memory` (None: what is usual), `threads`."""

    backbone: str | None = None
    memory: int | None = None
    threads: int | None = None

    @property
    def one_backbone(self) -> str | None:
        """The network that checks images; of "auto" the usual one."""
        return None if self.backbone == AUTO else self.backbone

    def clip_seconds(self) -> float:
        """How long a clip is that the encoder hears; of several that are here, the longest."""
        given = (self.one_backbone,) if self.one_backbone else tuple(filter(is_here, ENCODERS["sound"]))
        return max(map(_heard_seconds, given))

    def budget(self, memory: str | int | None = None, macs: str | float | None = None):
        """The Budget of what was asked for. Raises UsageError and InputError."""
        from tinytrain.api.opening import open_budget

        if memory is None and macs is None and self.memory is None and self.backbone == AUTO:
            return None
        budget = open_budget(self.memory if memory is None else memory, self.one_backbone)
        return budget if macs is None else replace(budget, macs=parse_fraction(str(macs)))

    def adapt_words(self, project: Project) -> tuple[str, ...]:
        """The command line that learns the same."""
        place = str(project.images), "--store", str(project.state)
        return ("tinytrain", "adapt", *place, *self.options(self.backbone))

    def options(self, backbone: str | None) -> tuple[str, ...]:
        """Those of a command that takes `backbone` and has the same memory."""
        network = () if backbone is None else ("--backbone", backbone)
        return (*network, *(() if self.memory is None else ("--budget", str(self.memory))))


@cache
def _heard_seconds(name: str) -> float:
    return KINDS["sound"].seconds(open_backbone(name).input)
