"""What a server asks of its clients in a round, what they answer, and both as bytes.

A round of layers trains those that a recipe names: the same arrays everywhere, from the values that the
server sends, so that strategies can put them together. The last round is one of heads: each client fits one
to the layers that were agreed on, and as they are the same everywhere then, their sums add exactly.
"""

import hashlib
import json
import re
from dataclasses import dataclass, replace

import numpy as np

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.safetensors import decode, encode, parse_json
from tinytrain.base.schema import choice, count, parsed, table, text
from tinytrain.delta.delta import Changes, Delta, Slice
from tinytrain.delta.file import decode_delta, encode_delta
from tinytrain.delta.merge import source_of
from tinytrain.federate import HEADS
from tinytrain.network.network import Network
from tinytrain.plan.plan import Plan, plain, recipe_check
from tinytrain.plan.recipe import Recipe, check_recipe
from tinytrain.program.trained_arrays import slots

MOST_IMAGES = 10**9
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")

Arrays = dict[str, np.ndarray]  # "<layer>.weight" and "<layer>.bias": values as in `Slice`


def check_name(name: str) -> None:
    """Raise InputError unless a client may be called so; files that hold its answers are called so, too."""
    if not NAME.fullmatch(name):
        text = f"{name!r:.80} is no name of a client; give up to 64 letters, digits, - and _ to --name"
        raise InputError("bad-value", text)


@dataclass(frozen=True)
class Task:
    """Round `number` of `rounds`, for the network with the digest `backbone`.

    Layers are trained by `recipe`, None if none are; in the last round a head of the kind `head` is fitted.
    """

    number: int
    rounds: int
    backbone: str
    head: str
    recipe: Recipe | None = None

    @property
    def of_layers(self) -> bool:
        return self.number < self.rounds

    @property
    def name(self) -> str:
        return f"round {self.number} of {self.rounds}, {'layers' if self.of_layers else 'heads'}"


_FIELDS = {"backbone": text, "head": choice(*HEADS), "recipe": recipe_check()}
_CHECK = table(Task, _FIELDS | dict.fromkeys(("number", "rounds"), count(1, 1000)))


def encode_task(task: Task, arrays: Arrays) -> bytes:
    """The bytes of a task, with the values of the layers so far."""
    return encode(arrays, {"task": json.dumps(plain(task), allow_nan=False)})


def decode_task(data: bytes, source: str) -> tuple[Task, Arrays]:
    """What `encode_task` was given. Raises InputError ``file-damaged``."""
    arrays, metadata = decode(data, source)
    facts = parse_json(metadata.get("task", "null"), source, floats=True)
    return parsed(_CHECK, facts, source, "file-damaged"), arrays


def encode_layers(arrays: Arrays, images: int) -> bytes:
    """The answer to a round of layers, which were trained on so many images."""
    return encode(arrays, {"images": str(images)})


def decode_layers(data: bytes, like: Arrays, source: str) -> tuple[Arrays, int]:
    """What `encode_layers` was given: arrays like those `like`. Raises InputError."""
    arrays, metadata = decode(data, source)
    images = metadata.get("images", "")
    if not (images.isascii() and images.isdigit() and len(images) < 12 and 1 <= int(images) <= MOST_IMAGES):
        raise InputError("file-damaged", f"{source}: images must be 1 to {MOST_IMAGES:,}; train again")
    check_arrays(arrays, like, source)
    return arrays, int(images)


def check_arrays(arrays: Arrays, like: Arrays, source: str) -> None:
    """Raise InputError unless `arrays` have the names, shapes and dtypes of `like`, and finite values."""
    given, wanted = ({name: (a.shape, a.dtype) for name, a in x.items()} for x in (arrays, like))
    if given != wanted:
        wrong = sorted(given.items() ^ wanted.items(), key=str)[0][0][:80]
        raise InputError("run-mismatch", f"{source}: {wrong!r} is not as the plan says; train by that plan")
    if not all(np.isfinite(a).all() for a in arrays.values()):
        raise InputError("delta-not-finite", f"{source} holds NaN or infinity; train again")


def to_sign(asked: bytes, name: str, answer: bytes) -> bytes:
    """What the client `name` signs: this answer to the task `asked`, and none in another round or place."""
    return b"tinytrain answer " + hashlib.sha256(asked).digest() + name.encode() + b"\0" + answer


def decode_head(data: bytes, task: Task, network: Network, source: str) -> Delta:
    """A delta that answers a round of heads: a head of the task for `network`, and nothing else.

    It can be merged: otherwise one answer would end all rounds. Raises InputError and UsageError.
    """
    delta = decode_delta(*decode(data, source), source)
    delta.check_backbone(network)
    alone = not (delta.is_trained or delta.replay) and delta.report == delta.report_of_kind
    if not alone or delta.head.kind != task.head:
        raise InputError("run-mismatch", f"{source} is no head {task.head} alone; answer what is asked")
    source_of(delta, source)
    return delta


def encode_head(delta: Delta) -> bytes:
    """The head of `delta` alone, as bytes: of its report only the kind of input, for what the result says."""
    return encode_delta(replace(delta, slices=(), replay=None, report=delta.report_of_kind))


def recipe_of(plan: Plan, network: Network, steps: int | None = None) -> Recipe:
    """The recipe of a plan for `network` as all clients can follow it, whatever their images are.

    The layers and channels are those of the plan, in each round `steps` are made. Raises InputError for
    another network, UsageError ``unsupported`` for layers whose averages mean nothing.
    """
    if plan.digest != network.digest:
        text = f"the plan is for {plan.network} ({plan.digest[:12]}), not for {network.name}"
        raise InputError("backbone-mismatch", f"{text} ({network.digest[:12]}); give the network of the plan")
    options = replace(plan.recipe.options, quotas=False, resample_channels=False, last_step=None)
    recipe = replace(plan.recipe, options=options, steps=steps or plan.recipe.steps)
    check_recipe(network, recipe)
    if not recipe.updates:
        what = "no layers"
    elif recipe.precision != "float32":
        what = f"layers in {recipe.precision}"
    elif any(update.layer >= len(network.layers) for update in recipe.updates):
        what = "layers that the network does not have"
    else:
        return recipe
    text = f"the plan trains {what}; make one with --precision float32 and a policy for layers of the network"
    raise UsageError("unsupported", text)


def arrays_of(network: Network, recipe: Recipe) -> Arrays:
    """The values that `network` has where `recipe` trains."""
    found = {}
    for slot in slots(network, recipe):
        if slot.part == "bias":
            values = network.biases[slot.layer]
        else:
            values = network.float_weight(slot.layer)[:, list(slot.channels)]
            values = values if slot.inputs is None else values[list(slot.inputs)]
        found[f"{slot.layer}.{slot.part}"] = np.ascontiguousarray(values, np.float32)
    return found


def changes_of(network: Network, recipe: Recipe, arrays: Arrays, source: str) -> Changes:
    """`arrays` as changes of `network`. Raises InputError unless they are those that `recipe` trains."""
    check_arrays(arrays, arrays_of(network, recipe), source)
    slices = []
    for s in slots(network, recipe):
        inputs = None if s.inputs is None else np.array(s.inputs, np.int32)
        values, channels = arrays[f"{s.layer}.{s.part}"], np.array(s.channels, np.int32)
        slices.append(Slice(s.layer, s.part, channels, values, inputs))
    return Changes(network.digest, network.name, tuple(slices))
