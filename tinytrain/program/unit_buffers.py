"""Buffers of the units of an adaptation: each is a worker of a stage, with bytes of its own."""

from collections.abc import Sequence

from tinytrain.program.calls import AFTER, BACKWARD, BEFORE, EMBED, FILL, PREDICT, Buffer, Role, Segment
from tinytrain.program.job import Job
from tinytrain.program.program import BufferTable
from tinytrain.program.segments import Size
from tinytrain.program.stages import Unit

AUGMENTED = "augmented image"
Units = tuple[Unit, ...]


def add_units(table: BufferTable, job: Job, segments: Sequence[Segment | Size]) -> dict[str, Units]:
    """Put the buffers of all units but gradients into `table`; the units, by stage."""
    return _UnitBuffers(table, job, segments).all()


class _UnitBuffers:
    """Adds units to a table. What a unit is for names its buffers."""

    def __init__(self, table: BufferTable, job: Job, segments: Sequence[Segment | Size]):
        self.table, self.job, self.segments = table, job, segments
        self.frozen = ("prefix",) if job.alive else ()

    def all(self) -> dict[str, Units]:
        job, workers = self.job, range(self.job.resources.workers)
        images = [self._image(f"worker {k}", BEFORE, AFTER) if job.alive else None for k in workers]
        return {
            "fill": tuple(map(self._filling, workers)) if job.resources.sets else (),
            "embed": tuple(self._embedding("embedding", k, images[k], BEFORE, EMBED) for k in workers),
            "embed after": tuple(self._embedding("head after", k, images[k], AFTER, AFTER) for k in workers),
            "backward": tuple(self._training(k, images[k]) for k in workers) if job.trains else (),
            "queries": tuple(map(self._answering, workers)),
        }

    # ---- units ----------------------------------------------------------------------------------

    def _filling(self, k: int) -> Unit:
        unit = f"fill, worker {k}"
        return Unit(self._workspace(unit, FILL, FILL, "prefix"), None, self._image(unit, FILL, FILL))

    def _embedding(self, stage: str, k: int, image: Buffer | None, first: int, last: int) -> Unit:
        unit = f"{stage}, worker {k}"
        work = self._workspace(unit, first, last, "embed", *self.frozen)
        return Unit(work, self._features(unit, self.job.resources.micro, first, last), image)

    def _training(self, k: int, image: Buffer | None) -> Unit:
        unit, micro = f"backward, worker {k}", self.job.resources.micro
        work = self._workspace(unit, BACKWARD, BACKWARD, "backward", "forward", *self.frozen)
        features = self._features(unit, micro, BACKWARD, BACKWARD)
        shape = (micro, *self.job.externals["grad embedding"].shape)
        gradient = self.table.add(f"embedding gradient (worker {k})", shape, BACKWARD, BACKWARD)
        return Unit(work, features, image, gradient)

    def _answering(self, k: int) -> Unit:
        unit, life = f"queries, worker {k}", (PREDICT, PREDICT)
        work = self._workspace(unit, *life, "embed", "prefix")
        return Unit(work, self._features(unit, 1, *life), self._image(unit, *life))

    # ---- buffers --------------------------------------------------------------------------------

    def _workspace(self, unit: str, first: int, last: int, *kinds: str) -> Buffer:
        """Room for values inside of segments of some kinds. The frozen part runs in it before the rest."""
        size = max((s.nbytes for s in self.segments if s.kind in kinds), default=0)
        return self.table.add(f"workspace ({unit})", (size,), first, last, "uint8")

    def _features(self, unit: str, count: int, first: int, last: int) -> Buffer:
        features = self.job.externals["features"]
        return self.table.add(f"features ({unit})", (count, *features.shape), first, last, features.dtype)

    def _image(self, unit: str, first: int, last: int) -> Buffer | None:
        """The augmented image of a unit: it is made of what the decoder holds.

        None in int8, where bytes are few and a frozen part asks for some rows at a time.
        """
        image = self.job.externals["input"]
        if image.role is Role.SHOWN:
            return None
        return self.table.add(f"{AUGMENTED} ({unit})", image.shape, first, last, image.dtype, Role.IMAGE)
