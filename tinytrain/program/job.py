"""What a training run is: network, recipe, resources and task, and what follows from them."""

from dataclasses import dataclass

from tinytrain.heads.head import HeadBuffer, HeadMethod
from tinytrain.network.network import Network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.costs import n_hard, n_sampled, n_unlabelled, single_pass
from tinytrain.plan.recipe import Recipe, Resources
from tinytrain.program.backend import Backend
from tinytrain.program.calls import Buffer
from tinytrain.program.head_buffers import head_views


@dataclass(frozen=True, eq=False)
class Job:
    """What the buffers of a training run follow from."""

    network: Network
    recipe: Recipe
    resources: Resources
    task: TaskShape
    externals: dict[str, Buffer]
    start: int
    backend: Backend

    @property
    def trains(self) -> bool:
        return bool(self.recipe.updates)

    @property
    def alive(self) -> bool:
        """Whether the frozen part runs during training: not all features that it asks for are cached."""
        return n_unlabelled(self.recipe, self.resources, self.task) > 0 or self.resources.sets < 2

    @property
    def single_pass(self) -> bool:
        """Whether a step computes only the images that it back-propagates."""
        return self.trains and single_pass(self.recipe, self.resources)

    @property
    def hard(self) -> int:
        """Pseudo-queries that a step back-propagates."""
        r = self.resources
        return n_hard(self.recipe.options.hard_fraction, r.step_support, r.step_queries)

    @property
    def sampled(self) -> int:
        """Support images that a step back-propagates."""
        return n_sampled(self.recipe, self.resources.step_support, self.resources.step_queries)

    @property
    def shown(self) -> int:
        """Pseudo-queries and unlabelled images of one step."""
        return self.resources.step_queries + n_unlabelled(self.recipe, self.resources, self.task)

    def head_views(self, method: HeadMethod) -> range:
        """Views of every support image that a head of `method` is fitted to."""
        sizes = self.task.n_support, self.network.embedding_size
        return head_views(self.recipe, self.resources, method, *sizes)

    def head_form(self, method: HeadMethod) -> tuple[HeadBuffer, ...]:
        """The arrays of a head of `method`, fitted to its views of all support images."""
        embeddings = self.task.n_support * len(self.head_views(method))
        return method.buffers_for(self.task.n_way, self.network.embedding_size, embeddings)
