"""What tests of going on share: images of known and of new classes, adaptations, and what a delta holds."""

from dataclasses import replace

import numpy as np
from int8nets import toy8
from toydevices import ONE

from tinytrain.base.safetensors import decode
from tinytrain.delta.file import encode_delta
from tinytrain.episode.episode import Episode, Images
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.continual import continued_episode, continued_policy
from tinytrain.pipeline.toy import toy_episode, toy_images, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.common import Policy

SHOTS = 4  # images of each class


def episode(way: int = 4, replay: int = SHOTS) -> Episode:
    """The images of class k are the same whatever the number of classes."""
    whole = toy_episode(way=4, shots=SHOTS, queries=0)
    support = whole.support.take(range(way * SHOTS))
    return replace(whole, support=support, class_names=whole.class_names[:way], replay=replay)


def new_images(label: int, count: int = 4) -> Images:
    """Toy images of class `label`, as those of the first class."""
    images = toy_images(np.full(count, label, np.int32), seed=9)
    return replace(images, labels=np.zeros(count, np.int32))


def stored(delta) -> dict[str, bytes]:
    """The bytes of all tensors of a delta, by name."""
    return {name: array.tobytes() for name, array in decode(encode_delta(delta))[0].items()}


class Replaying:
    """Adaptations of a network in a precision that remember images, and others that go on from them."""

    def __init__(self, network, precision: str, *updates: Update):
        self.network, self.precision = network, precision
        self.budget = Budget(2**22, precision=precision)
        self.recipe = Recipe("test", updates, ((1e-2, 1e-2),) * 2, steps=4, head="lda", views=3)

    def policy(self, recipe: Recipe | None = None) -> Policy:
        shrinks = self.precision == "float32"
        return Policy("test", lambda *_: recipe or self.recipe, "none", shrinks=shrinks, macs_limited=False)

    def adapted(self, way=4, replay=SHOTS, recipe=None, budget=None):
        budget = budget or self.budget
        return adapt(self.network, episode(way, replay), budget, self.policy(recipe), device=ONE, force=True)

    def continued(self, delta, *more, budget=None):
        found, policy = continued_episode(delta, *more), continued_policy(delta)
        return adapt(self.network, found, budget or self.budget, policy, device=ONE, force=True)


FLOAT32 = Replaying(
    toy_network(), "float32", Update(6, (1, 4, 7), bias=True), Update(9, tuple(range(24)), bias=True)
)
INT8 = Replaying(toy8(), "int8", Update(6, (0, 2, 3), bias=True), Update(14, (1, 2, 5), bias=True))
