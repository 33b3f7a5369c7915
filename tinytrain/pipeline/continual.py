"""Adaptation that goes on with new classes, without the images of the old ones.

The delta has a replay memory: features of some images of each class at the cut, that is, at the input of the
first block that training changes. They stand for the old images: `continued_episode` puts them beside the new
images, and `continued_policy` trains the same layers and channels as before. Training begins at the backbone
again, not where the last one ended. So no error adds up, and nothing of a class that was forgotten is left.
"""

import unicodedata
from dataclasses import replace

import numpy as np

from tinytrain.base.class_names import wrong_more_names
from tinytrain.base.errors import InputError, one_line
from tinytrain.base.schema import parsed
from tinytrain.delta.delta import Delta
from tinytrain.episode.episode import Episode, Images, episode_type
from tinytrain.plan.budget import AUTO, Budget
from tinytrain.plan.plan import recipe_check
from tinytrain.plan.recipe import Recipe
from tinytrain.policies.common import Policy
from tinytrain.report.report import Report

NO_IMAGES = Images(np.empty(0, np.int32), (), lambda i, size: None)
REMEDY = "adapt to images of all classes with --replay"


def continued_episode(
    delta: Delta,
    images: Images = NO_IMAGES,
    class_names: tuple[str, ...] = (),
    may_flip: bool = False,
    source: str = "",
) -> Episode:
    """An episode of `images`, whose labels count in `class_names`, and of what `delta` remembers.

    A name that the delta knows adds images to that class, any other name adds a class. Without images the
    result is to adapt again to what is remembered, as after `forget`. As many images of each class are
    remembered afterwards as before. Raises InputError ``no-replay``, ``class-names``, or what `Episode` does.
    """
    memory = delta.replay
    if memory is None:
        raise InputError(
            "no-replay", f"the delta remembers no image of its {len(delta.class_names)} classes; {REMEDY}"
        )
    given = tuple(unicodedata.normalize("NFC", name) for name in class_names)
    names = (*delta.class_names, *(name for name in given if name not in delta.class_names))
    if wrong := wrong_more_names(delta.class_names, given):
        raise InputError("class-names", f"{wrong}; leave it out or call it otherwise")
    counts = np.bincount(memory.labels, minlength=len(delta.class_names))
    new = np.array([names.index(name) for name in given], np.int32)[images.labels]
    for name, count, added in zip(
        delta.class_names, counts, np.bincount(new, minlength=len(names)), strict=False
    ):
        if not count + added:
            raise InputError(
                "no-replay", f"class {one_line(name, 100)!r} has 0 images in the replay memory; {REMEDY}"
            )
    remembered = tuple(f"{delta.class_names[k]} (remembered, {i})" for i, k in enumerate(memory.labels))
    support = Images(
        np.concatenate([new, memory.labels]).astype(np.int32),
        (*images.names, *remembered),
        _reader(images),
        images.kind,
    )
    return episode_type(delta.head.method.least_classes)(
        support,
        NO_IMAGES,
        names,
        may_flip,
        source,
        remembered=memory,
        replay=int(counts.max()),
    )


def with_forgotten(report: Report, before: Delta) -> Report:
    """The `report` of an adaptation that went on from `before`, whose delta says that classes were forgotten.

    It carries no traces of them; a store still has to remove what was there before.
    """
    forgotten = before.report.get("forgotten")
    if forgotten is None:
        return report
    facts = {**report.delta.report, "forgotten": {**forgotten, "traces": []}}
    return replace(report, delta=replace(report.delta, report=facts))


def continued_policy(delta: Delta) -> Policy:
    """The policy that trains what the adaptation of `delta` trained, in the same way.

    Raises InputError ``no-replay`` if the delta does not say how.
    """
    facts = delta.report.get("recipe")
    if facts is None:
        raise InputError("no-replay", f"the delta does not say what was trained; {REMEDY}")
    recipe = parsed(recipe_check(), facts, "the recipe in the delta", "file-damaged")
    return policy_of_recipe(recipe)


def policy_of_recipe(recipe: Recipe) -> Policy:
    """The policy that trains by `recipe`, whatever the images are."""
    return Policy(recipe.policy, lambda *_: recipe, "this project", shrinks=False, macs_limited=False)


def continued_budget(delta: Delta, budget: Budget) -> Budget:
    """`budget`; in the arithmetic of `delta` if it names none, and `auto` would not take that one."""
    own = delta.parts[0].arithmetic
    return replace(budget, precision=own) if own and budget.precision == AUTO else budget


def _reader(images: Images):
    def read(i: int, size) -> np.ndarray:
        if i >= len(images):
            raise InputError("file-missing", f"image {i} is remembered by its features alone")
        return images.read(i, size)

    return read
