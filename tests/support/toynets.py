"""Small networks, images and trainers for tests of the engine."""

import zlib
from copy import copy
from dataclasses import replace

import numpy as np
from oracle import Oracle

from tinytrain import kernels
from tinytrain.base.arena import Arena
from tinytrain.network.chain import nodes_of
from tinytrain.network.network import InputSpec, Network
from tinytrain.network.node import ACTIVATIONS, Node
from tinytrain.network.validation import check_network
from tinytrain.plan.budget import TaskShape
from tinytrain.plan.recipe import Recipe, Resources, Update
from tinytrain.program.compile import compile_training
from tinytrain.runtime.bind import WorkingCopy
from tinytrain.runtime.stage_runner import Source
from tinytrain.runtime.trainer import Trainer

SIZE = 16

# Rows of a network: (kind, output channels, kernel, stride, relu6, block, residual).
BLOCKS = (  # every kernel size and stride, residual blocks, a first block without an expand convolution
    ("conv", 8, 3, 2, True, 0, False),
    ("depthwise", 8, 3, 1, True, 1, False),
    ("pointwise", 6, 1, 1, False, 1, False),
    ("pointwise", 12, 1, 1, True, 2, False),
    ("depthwise", 12, 5, 2, True, 2, False),
    ("pointwise", 8, 1, 1, False, 2, False),
    ("pointwise", 18, 1, 1, True, 3, False),
    ("depthwise", 18, 7, 1, True, 3, False),
    ("pointwise", 8, 1, 1, False, 3, True),
    ("pointwise", 16, 1, 1, True, 4, False),
    ("depthwise", 16, 3, 1, True, 4, False),
    ("pointwise", 8, 1, 1, False, 4, True),
    ("pointwise", 17, 1, 1, True, 5, False),
    ("depthwise", 17, 3, 2, True, 5, False),
    ("pointwise", 10, 1, 1, False, 5, False),
)
HEADED = (  # a residual block without an expand convolution, a lone head convolution with ReLU6
    ("conv", 6, 3, 2, True, 0, False),
    ("depthwise", 6, 5, 1, True, 1, False),
    ("pointwise", 6, 1, 1, False, 1, True),
    ("pointwise", 14, 1, 1, True, 2, False),
    ("depthwise", 14, 7, 2, True, 2, False),
    ("pointwise", 9, 1, 1, False, 2, False),
    ("pointwise", 20, 1, 1, True, 3, False),
)
DENSE = (  # dense convolutions of both strides behind the first one, one of them residual, as MobileNetV4 has
    ("conv", 8, 3, 2, True, 0, False),
    ("conv", 9, 3, 1, True, 1, False),
    ("pointwise", 7, 1, 1, False, 1, False),
    ("conv", 12, 5, 2, True, 2, False),
    ("pointwise", 8, 1, 1, False, 2, False),
    ("conv", 10, 3, 1, True, 3, False),
    ("conv", 8, 3, 1, False, 3, True),
    ("pointwise", 14, 1, 1, True, 4, False),
    ("depthwise", 14, 3, 1, True, 4, False),
    ("pointwise", 9, 1, 1, False, 4, False),
    ("conv", 11, 1, 2, True, 5, False),
)
# Beyond these seven numbers: the activation instead of ReLU6, "shortcut" or "max_pool".
RESIDUAL = (  # as ResNets are: dense convolutions, max pooling, ReLU behind sums, a shortcut of its own
    ("conv", 7, 7, 2, False, 0, False, "relu", "max_pool"),
    ("conv", 7, 5, 1, False, 1, False, "relu"),
    ("conv", 7, 3, 1, False, 1, True, "relu"),
    ("pointwise", 9, 1, 1, False, 2, False, "relu"),
    ("conv", 9, 3, 1, False, 2, False),
    ("pointwise", 9, 1, 1, False, 2, False, "relu", "shortcut"),
    ("conv", 12, 3, 2, False, 3, False, "relu"),
    ("conv", 8, 3, 1, False, 3, False),
    ("conv", 8, 1, 2, False, 3, False, "shortcut"),
)
EXCITED = (  # as MobileNetV3 and V4 are: hard-swish, squeeze and excitation, depthwise layers at the start
    ("conv", 8, 3, 2, False, 0, False, "hard-swish"),
    ("depthwise", 8, 3, 1, False, 1, False, "relu"),
    ("squeeze", 4, 1, 1, False, 1, False, "relu"),
    ("excite", 8, 1, 1, False, 1, False, "hard-sigmoid"),
    ("pointwise", 8, 1, 1, False, 1, True),
    ("depthwise", 8, 5, 1, False, 2, False),
    ("pointwise", 14, 1, 1, False, 2, False, "relu"),
    ("depthwise", 14, 3, 2, False, 2, False, "relu"),
    ("pointwise", 9, 1, 1, False, 2, False),
    ("pointwise", 16, 1, 1, False, 3, False, "hard-swish"),
    ("depthwise", 16, 5, 1, False, 3, False, "hard-swish"),
    ("squeeze", 5, 1, 1, False, 3, False, "relu"),
    ("excite", 16, 1, 1, False, 3, False, "hard-sigmoid"),
    ("pointwise", 9, 1, 1, False, 3, True),
    ("pointwise", 10, 1, 1, False, 4, False),
)
UNBOUNDED = {"residual": RESIDUAL, "excited": EXCITED}
ROWS = {"blocks": BLOCKS, "headed": HEADED, **UNBOUNDED}
# 20,480 weights behind 4 x 4 positions of an image of 16 x 16.
WIDE = (
    ("conv", 8, 3, 2, True, 0, False), ("pointwise", 128, 1, 1, True, 1, False),
    ("depthwise", 128, 3, 2, True, 1, False), ("pointwise", 160, 1, 1, False, 1, False),
)  # fmt: skip


def rng(*key):
    return np.random.default_rng([zlib.crc32(str(k).encode()) for k in key])


def layers(rows, spec) -> tuple[Node, ...]:
    made, (*hw, cin) = [], spec.shape
    for kind, cout, kernel, stride, relu6, block, residual, *more in rows:
        activation = next((word for word in more if word in ACTIVATIONS), None)
        if "shortcut" in more:
            first = next(row for row in made if row["block"] == block)
            cin, hw = first["cin"], first["in_hw"]
        out = [(side + 2 * ((kernel - 1) // 2) - kernel) // stride + 1 for side in hw]
        if "max_pool" in more:
            out = [(side + 1) // 2 for side in out]
        out = {"squeeze": (1, 1), "excite": made and made[-1]["in_hw"]}.get(kind, out)
        name = f"{len(made)}.{kind}"
        row = {"name": name, "kind": kind, "cin": cin, "cout": cout, "kernel": kernel, "stride": stride}
        row |= {"in_hw": tuple(hw), "out_hw": tuple(out), "relu6": relu6, "block": block}
        row |= {"residual": residual, "activation": activation}
        made.append(row | {"shortcut": "shortcut" in more, "max_pool": "max_pool" in more})
        cin, hw = cout, out
    return nodes_of(made, "3", "row")


def toy(name="blocks", size=SIZE, seed=0, spec=None) -> Network:
    """A toy network, by name or by its rows, whose activations meet both ends of ReLU6."""
    spec = spec or InputSpec((size, size, 3))
    rows = (ROWS | {"dense": DENSE})[name] if isinstance(name, str) else name
    r, made = rng(name, size, seed), layers(rows, spec)
    name = name if isinstance(name, str) else "rows"
    network = drawn(name, made, r, spec)
    return centred(network) if name in UNBOUNDED else network


def drawn(name, nodes, r, spec) -> Network:
    """A network of `nodes` with random weights and biases."""
    layers = [node for node in nodes if node.is_layer]
    weights = tuple(
        (r.standard_normal((x.fan_in, x.cout)) * (3 / x.fan_in) ** 0.5).astype("f") for x in layers
    )
    biases = tuple((0.5 + 0.7 * r.standard_normal(x.cout)).astype("f") for x in layers)
    network = Network(name, nodes, weights, (None,) * len(layers), biases, spec)
    check_network(network)
    return network


def centred(network) -> Network:
    """`network`, its last bias so that embeddings of random images point in all directions.

    Without an upper bound of its activations they would be nearly parallel, and gradients of cosines sums of
    large numbers that nearly cancel.
    """
    mean = Oracle(network).forward(images_of(network.input.shape, 8)).embeddings.mean(axis=0)
    last = max(i for i, layer in enumerate(network.layers) if layer.cout == len(mean))
    biases = list(network.biases)
    biases[last] = (biases[last] - 0.9 * mean).astype("f")
    return replace(network, biases=tuple(biases))


def images(count, size=SIZE, seed=0):
    return images_of((size, size, 3), count, seed)


def images_of(shape, count, seed=0):
    return rng("pictures", seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def features_of(network, first, count=1, seed=0):
    """Random input of layer `first`: images, or numbers as a layer before it leaves them."""
    if first == 0:
        images = images_of(network.input.shape, count, seed)
        return images.astype(network.input.dtype)
    layer = network.layers[first]
    return rng("features", seed).standard_normal((count, *layer.in_hw, layer.cin)).astype("f")


def random_updates(network, key, share=0.6) -> tuple[Update, ...]:
    """Some layers, some of their channels in any order, some input channels of these, some biases."""
    r, made = rng("updates", key), []
    for i, layer in enumerate(network.layers):
        if r.random() < share:
            count = int(r.integers(0, layer.cout + 1))
            channels = tuple(int(c) for c in r.permutation(layer.cout)[:count])
            bias, inputs = bool(r.random() < 0.5 or not channels), None
            if layer.op == "pointwise" and r.random() < 0.6:
                inputs = tuple(int(c) for c in r.permutation(layer.cin)[: r.integers(1, layer.cin + 1)])
            made.append(Update(i, channels, bias, inputs))
    return tuple(made) or (Update(len(network.layers) - 1, (0,)),)


def everything(network, bias=True) -> tuple[Update, ...]:
    return tuple(Update(i, tuple(range(x.cout)), bias) for i, x in enumerate(network.layers))


def recipe(updates, **changes) -> Recipe:
    updates = tuple(updates)
    fields = {"optimizer": "sgd", "step": "both", "head": "cosine", "steps": 4, "views": 3, **changes}
    return Recipe("test", updates, ((0.01, 0.02),) * len(updates), **fields)


def watched(watch, backend="auto", only=kernels.NAMES):
    """Kernels that call ``watch(name, args)`` after each of their calls."""
    table = kernels.load(backend)
    made = copy(table)

    def wrap(name, kernel):
        def wrapped(*args):
            result = kernel(*args)
            watch(name, args)
            return result

        return wrapped

    for name in only:
        setattr(made, name, wrap(name, getattr(table, name)))
    return made


def calls_of():
    """(kernels, list of the (name, args) that they were called with)."""
    calls = []
    return watched(lambda name, args: calls.append((name, args))), calls


def trainer(network, recipe, images, labels, sets=0, micro=1, workers=1, table=None, **more):
    """A trainer whose step sees every image once as support and once as pseudo-query.

    `workers` are those of the program, and threads. `more` may give `augmentation(view, i)`, the `arena`, the
    size of a step (`step`), how many images of it are looked at (`shown`), the number of query images behind
    the support in `images` (`queries`), or fewer `threads`.
    """
    task = TaskShape(len(labels), int(labels.max()) + 1, more.get("queries", 0))
    step = more.get("step", len(labels))
    resources = Resources(sets, micro, step, more.get("shown", step), workers)
    program = compile_training(network, recipe, resources, task)
    arena = more.get("arena", Arena)(program.nbytes)
    augmentation = more.get("augmentation", lambda view, i: None)
    return Trainer(
        program, arena, WorkingCopy(program.network), table or kernels.load(),
        Source(lambda i: images[i], augmentation, labels.astype(np.int32)),
        more.get("threads", workers),
    )  # fmt: skip


def items(count, view=0):
    return [(view, i) for i in range(count)]


def selected(array, slot):
    """The part of a whole weight (fan_in, cout) or bias (cout,) that a slot trains."""
    array = array[..., list(slot.channels)]
    return array if slot.inputs is None else array[list(slot.inputs)]


def gradient_of(made, layer, part):
    """The gradient of one trained array after `compute_gradients`, in the shape of its slot."""
    slot = next(s for s in made.slots if (s.layer, s.part) == (layer, part))
    return made.gradients[slot.start : slot.start + slot.size].reshape(slot.shape)


def relative(a, b, least=1e-30):
    """Norm of the difference as a share of the norm of b, or of `least` if b may be nothing but zeros."""
    return float(np.linalg.norm(np.asarray(a, float) - b) / max(np.linalg.norm(b), least))


def modules_of(network, chosen=None, seed=0):
    """`network` with the modules number `chosen` (None: all it can have), their values at random."""
    r, possible = rng("modules", seed), network.possible_modules
    added = {}
    for k in range(len(possible)) if chosen is None else chosen:
        for index, layer in enumerate(possible[k].layers, possible[k].index):
            weight = (r.standard_normal((layer.fan_in, layer.cout)) * (2 / layer.fan_in) ** 0.5).astype("f")
            added[index] = weight, (0.5 * r.standard_normal(layer.cout)).astype("f")
    return replace(network, added=added)


def module_updates(network, chosen=None) -> tuple[Update, ...]:
    """Updates that train the modules number `chosen` (None: all the network can have)."""
    possible = network.possible_modules
    picked = possible if chosen is None else [possible[k] for k in chosen]
    layers = [(i, layer) for m in picked for i, layer in enumerate(m.layers, m.index)]
    return tuple(Update(i, tuple(range(layer.cout)), bias=True) for i, layer in layers)
