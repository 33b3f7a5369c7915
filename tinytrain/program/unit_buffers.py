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
        workers = [self._worker(k) for k in range(self.job.resources.workers)]
        return {stage: tuple(worker[stage] for worker in workers) for stage in workers[0]}

    def _worker(self, k: int) -> dict[str, Unit]:
        """The units of worker k, by stage: in the same bytes where possible, so that calls are bound once."""
        job, image = self.job, None
        if job.alive:
            image = self._image(f"worker {k}", FILL if job.resources.sets else BEFORE, PREDICT)
        of = job.externals["features"]
        features = self.table.add(
            f"features (worker {k})", (job.resources.micro, *of.shape), BEFORE, PREDICT, of.dtype
        )
        found = {"fill": self._filling(k, image)} if job.resources.sets else {}
        found["embed"] = self._embedding("embedding", k, features, image, BEFORE, EMBED)
        found["embed after"] = self._embedding("head after", k, features, image, AFTER, AFTER)
        if job.trains:
            found["backward"] = self._training(k, features, image)
        return found | {"queries": self._answering(k, features, image)}

    # ---- units ----------------------------------------------------------------------------------

    def _filling(self, k: int, image: Buffer | None) -> Unit:
        unit = f"fill, worker {k}"
        image = image or self._image(unit, FILL, FILL)
        return Unit(self._workspace(unit, FILL, FILL, "prefix"), None, image)

    def _embedding(self, stage: str, k: int, features: Buffer, image: Buffer | None, *life: int) -> Unit:
        return Unit(self._workspace(f"{stage}, worker {k}", *life, "embed", *self.frozen), features, image)

    def _training(self, k: int, features: Buffer, image: Buffer | None) -> Unit:
        kinds, life = ("backward", "forward", *self.frozen), (BACKWARD, BACKWARD)
        shape = features.shape[0], *self.job.externals["grad embedding"].shape
        gradient = self.table.add(f"embedding gradient (worker {k})", shape, *life)
        return Unit(self._workspace(f"backward, worker {k}", *life, *kinds), features, image, gradient)

    def _answering(self, k: int, features: Buffer, image: Buffer | None) -> Unit:
        unit, life = f"queries, worker {k}", (PREDICT, PREDICT)
        image = image or self._image(unit, *life)
        return Unit(self._workspace(unit, *life, "embed", "prefix"), features, image)

    # ---- buffers --------------------------------------------------------------------------------

    def _workspace(self, unit: str, first: int, last: int, *kinds: str) -> Buffer:
        """Room for values inside of segments of some kinds. The frozen part runs in it before the rest."""
        size = max((s.nbytes for s in self.segments if s.kind in kinds), default=0)
        return self.table.add(f"workspace ({unit})", (size,), first, last, "uint8")

    def _image(self, unit: str, first: int, last: int) -> Buffer | None:
        """The augmented image of a unit: it is made of what the decoder holds.

        None in int8, where bytes are few and a frozen part asks for some rows at a time.
        """
        image = self.job.externals["input"]
        if image.role is Role.SHOWN:
            return None
        return self.table.add(f"{AUGMENTED} ({unit})", image.shape, first, last, image.dtype, Role.IMAGE)
