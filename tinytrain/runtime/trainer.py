"""Training by the stages of a Program, which are bound to the arena beforehand."""

from collections.abc import Sequence

import numpy as np

from tinytrain.base.arena import Arena
from tinytrain.plan.costs import single_pass
from tinytrain.program.calls import Role
from tinytrain.program.program import Program
from tinytrain.program.stages import Items, Load, nodes
from tinytrain.program.trained_arrays import columns_of, resampled, slots, union
from tinytrain.runtime.bind import Binder, WorkingCopy
from tinytrain.runtime.schedule import CleanImages, Item, dealt
from tinytrain.runtime.stage_runner import Runner, Source

OF_A_STEP = Items.SUPPORT, Items.SHOWN, Items.SAMPLED, Items.HARD, Items.BATCH
NOTHING = dict.fromkeys(OF_A_STEP, ())  # a reset with them allocates nothing


class Trainer(Runner):
    """One training run in one arena; `order` is that of the support images whose classes take turns.

    Query images lie behind the support images of the source, if the recipe looks at them. At most as many
    `threads` run as the plan has workers.
    """

    def __init__(
        self, program: Program, arena: Arena, working: WorkingCopy, kernels, source: Source, threads: int = 1
    ):
        self.working, self.recipe, self.resources = working, program.recipe, program.resources
        self.slots = self.changed = slots(program.network, self.recipe)
        self.workers = min(threads, self.resources.workers)
        self.single_pass = single_pass(self.recipe, self.resources)
        self.labels, self.order, n = source.labels, dealt(source.labels), len(source.labels)
        super().__init__(
            Binder(program, arena, working, kernels, columns_of(self.slots)), source, self.workers
        )
        self.class_sizes, self.cached = self.host.class_sizes, max(1, self.resources.sets)
        self.lists[Items.IMAGES] = CleanImages(range(self.n_images))
        self.lists[Items.BATCHES] = CleanImages(self.order)
        self.lists[Items.QUERIES] = CleanImages(range(n, n + program.task.n_query))
        heads = nodes(program.stage("head before").body)
        self.stages["load"] = self.actions([next(node for node in heads if isinstance(node, Load))])
        self._bind_step()

    def _bind_step(self) -> None:
        array = self.bind.array
        self.support = array("embeddings of support")
        self.sums, self.counts = array("class sums"), array("class counts")
        self.prototypes = array("prototypes")
        if not self.recipe.updates:
            return
        self.grad, self.loss = array("gradient of embeddings"), array("loss")
        self.trained = array("trained parameters")
        self.gradients = array("gradients")
        tables = self.bind.tables
        tables[Role.STARTS][:] = [*(s.start for s in self.slots), len(self.trained)]
        rates = {u.layer: r for u, r in zip(self.recipe.updates, self.recipe.rates, strict=True)}
        self.full_rates = np.array([rates[s.layer][s.part == "bias"] for s in self.slots], np.float32)
        self.rates = tables[Role.RATES]
        np.copyto(self.rates, self.full_rates)

    def embed(self, items: Sequence[Item], out: np.ndarray, units: str = "embed") -> None:
        """Embeddings of `items` into the rows of `out`, by the `units` of a stage."""
        self.over_images((self.segment("embed", out),), items, units)

    def over_images(self, body: Sequence, items: Sequence[Item], units: str) -> None:
        """Load the features of `items`, and do `body` with them, in the `units` of a stage."""
        body, workers = (*self.stages["load"], *body), self.bound_of(self.program.units[units])
        self.spread([(body, items, self.resources.micro)], workers)

    def resample(self, rng: np.random.Generator) -> None:
        """Other channels of every layer, drawn at random, from the values that the network now has.

        `changed` keeps all that was ever trained.
        """
        self.slots = tuple(resampled(s, self.program.network, rng) for s in self.slots)
        self.changed = tuple(map(union, self.changed, self.slots))
        for columns, drawn in columns_of(self.slots).items():
            np.copyto(self.bind.columns[columns], drawn)  # the arrays that the bound calls read
        self.run("start")

    def scale_rates(self, factor: float) -> None:
        """Learning rates of the next steps: `factor` times those of the recipe."""
        np.multiply(self.full_rates, np.float32(factor), out=self.rates)

    def step(
        self,
        number: int,
        support: Sequence[Item],
        queries: Sequence[Item],
        unlabelled: Sequence[Item] = (),
        sampled: Sequence[int] | None = None,
    ) -> float:
        """Step `number` (from 1) on clean support items and pseudo-queries; the mean loss before it.

        `unlabelled` are query images, for a recipe with `entropy`. `sampled`: positions in `support` of the
        images that the gradient of the prototypes goes through; None for all. Without effect on a recipe
        whose prototypes are constant.
        """
        loss = self.compute_gradients(support, queries, unlabelled, sampled)
        self.update(number)
        return loss

    def compute_gradients(
        self,
        support: Sequence[Item],
        queries: Sequence[Item],
        unlabelled: Sequence[Item] = (),
        sampled: Sequence[int] | None = None,
    ) -> float:
        """Gradient of the loss into `gradients`; the loss: its mean over all pseudo-queries.

        If a step computes only some of them, the latest loss stands for each of the others.
        """
        shown = [*queries, *unlabelled] if unlabelled else queries
        self.lists[Items.SUPPORT], self.lists[Items.SHOWN] = support, shown
        if self.recipe.step == "both":
            self.lists[Items.SAMPLED] = support if sampled is None else [support[k] for k in sampled]
        self.run("loss")
        self.run("gradients")
        self.lists.update(NOTHING)  # what a step needs is gone with it
        self.places.clear()
        if self.single_pass:
            return mean_loss(self.bind.array("latest losses"))
        loss = float(self.loss[: len(queries)].mean())
        if not unlabelled:
            return loss
        return loss + self.recipe.options.entropy * float(self.loss[len(queries) :].mean())

    def update(self, number: int) -> None:
        """One optimizer step, then the new values into the working copy."""
        self.number = number
        self.run("update")
        self.working.settle()


def mean_loss(latest: np.ndarray) -> float:
    """Mean of the losses that are known; the others are infinite."""
    known = [float(loss) for loss in latest if loss != np.inf]
    return float(np.float32(sum(known) / len(known)))
