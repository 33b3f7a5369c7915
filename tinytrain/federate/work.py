"""What a client does in a round, with its own images: it trains layers, or fits a head."""

from dataclasses import dataclass, replace

from tinytrain.base.errors import InputError, UsageError
from tinytrain.delta.delta import Delta, apply
from tinytrain.episode.episode import Episode
from tinytrain.federate.task import Arrays, Task, changes_of, check_arrays, encode_head, encode_layers
from tinytrain.network.committee import Committee, alone
from tinytrain.network.network import Network
from tinytrain.pipeline.committee import adapt
from tinytrain.pipeline.continual import policy_of_recipe
from tinytrain.plan.budget import Budget
from tinytrain.runtime.device import Device


@dataclass(frozen=True, eq=False)
class Client:
    """A device with images that takes part in rounds."""

    network: Network | Committee
    episode: Episode
    budget: Budget
    device: Device
    seed: int = 0

    def answer(self, task: Task, arrays: Arrays) -> bytes:
        """The bytes that answer `task`, with `arrays` the layers so far.

        Raises InputError for a task of another network or other layers, UsageError for images with a
        background, BudgetError if the recipe does not fit the budget, AdaptationRefusedError if embeddings
        are NaN or infinite.
        """
        if self.episode.background is not None:
            text = "there is a background, whose limit sums do not give; leave it out, then adapt with it"
            raise UsageError("unsupported", text)
        if task.backbone != self.network.digest:
            text = f"the rounds are for a network with digest {task.backbone[:12]}, {self.network.name} has"
            text += f" {self.network.digest[:12]}; give that one with --backbone"
            raise InputError("backbone-mismatch", text)
        if task.of_layers:
            return encode_layers(self.trained(task, arrays), len(self.episode.support))
        return encode_head(self.head(task, arrays))

    def trained(self, task: Task, arrays: Arrays) -> Arrays:
        """The layers after training them from `arrays` on; those of `task.recipe`, in as many steps."""
        delta = self._adapted(task, arrays, policy_of_recipe(task.recipe), train=True)
        found = {f"{s.layer}.{s.part}": s.values for s in delta.slices}
        check_arrays(found, arrays, "what was trained")
        return found

    def head(self, task: Task, arrays: Arrays) -> Delta:
        """A delta with the head of all images of this client, for the network with `arrays`."""
        delta = self._adapted(task, arrays, f"none+{task.head}", train=False)
        return replace(delta, backbone=self.network.digest, backbone_name=self.network.name)

    def _adapted(self, task: Task, arrays: Arrays, policy, train: bool) -> Delta:
        network = self.network
        if task.recipe:
            network = apply(alone(network, "layers"), changes_of(network, task.recipe, arrays, task.name))
        options = {"seed": self.seed + task.number, "force": True, "train": train}
        return adapt(network, self.episode, self.budget, policy, device=self.device, **options).delta
