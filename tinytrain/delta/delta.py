"""What an adaptation changed: replacement values of trained slices, and the head. Nothing else."""

import unicodedata
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from tinytrain.base.errors import InputError, one_line
from tinytrain.heads.head import Head, all_finite
from tinytrain.network.committee import Committee
from tinytrain.network.lite_residual import Module
from tinytrain.network.network import Network
from tinytrain.network.quantisation import Quantisation, int8_obstacle, int8_weights
from tinytrain.network.replay import Replay

NAMED = 10  # classes that a message lists


def damaged(what: str) -> InputError:
    return InputError("file-damaged", f"{what}; make the delta again")


@dataclass(frozen=True, eq=False)
class Slice:
    """New values of some output channels of one layer, by its number in `Network.all_layers`.

    A lite residual module that the backbone does not have is in a delta with all its values.
    `part` is "weight" with `values` (fan_in, k), or "bias" with `values` (k,); `channels` is (k,), rising.
    Where only the weights of some input channels of a pointwise layer changed, `inputs` (j,), rising,
    names them and `values` is (j, k).
    """

    layer: int
    part: str
    channels: np.ndarray
    values: np.ndarray
    inputs: np.ndarray | None = None

    def arrays(self) -> list[np.ndarray]:
        """All values and indices."""
        return [a for a in (self.channels, self.inputs, self.values) if a is not None]


@dataclass(frozen=True, eq=False)
class Changes:
    """What was trained of one network: slices, bound to the backbone with digest `backbone`.

    `replay` are features of some images of each class, for a later adaptation. With `codes` it was adapted in
    int8, and predicts so: these are the codes of the layers' outputs, and values of weights are int8.
    `arithmetic` names any other backend but float32 that it was adapted in, and predicts in. The arrays that
    `adapt` leaves here lie in its arena: of that memory only their pages are still held.
    """

    backbone: str
    backbone_name: str
    slices: tuple[Slice, ...]
    _: KW_ONLY
    replay: Replay | None = None
    codes: Quantisation | None = None
    arithmetic: str | None = None

    @property
    def precision(self) -> str:
        """The name of the backend that it was adapted in."""
        return self.arithmetic or ("int8" if self.codes else "float32")

    @property
    def backend_fields(self) -> dict:
        """The fields that say in what it is computed: those of a delta that is made of it."""
        return {"codes": self.codes, "arithmetic": self.arithmetic}

    def arrays(self) -> list[np.ndarray]:
        """All values and indices."""
        replayed = self.replay.arrays() if self.replay else []
        return [*(a for s in self.slices for a in s.arrays()), *replayed]

    def check_digest(self, network: Network | Committee) -> None:
        """Raise InputError unless `network` is the backbone this was trained for."""
        if network.digest != self.backbone:
            raise InputError(
                "backbone-mismatch",
                f"the delta belongs to {self.backbone_name} ({self.backbone[:12]}), "
                f"not to {network.name} ({network.digest[:12]}); give the backbone it was made from",
            )

    def check_backbone(self, network: Network) -> None:
        """Raise InputError unless `network` is the backbone this was trained for and everything fits."""
        self.check_digest(network)
        if self.codes:
            _check_int8(replace(network, quantisation=self.codes))
        for s in self.slices:
            _check_slice(network, s)
            if (s.values.dtype == np.int8) != (self.codes is not None and s.part == "weight"):
                raise damaged(
                    f"layer {s.layer} has {s.values.dtype} {s.part} values, which a delta for"
                    f" {self.precision} does not have"
                )
        if self.replay:
            self.replay.check(network, min((s.layer for s in self.slices), default=len(network.layers)))
        for module in self.modules(network):
            _check_module(self.slices, module)

    def modules(self, network: Network) -> tuple[Module, ...]:
        """The lite residual modules that are changed or added."""
        return network.modules_of(s.layer for s in self.slices)


@dataclass(frozen=True, eq=False)
class Delta(Changes):
    """What an adaptation changed, and the head.

    `report` is what the report of the adaptation says, as JSON values. Of a `Committee` the backbone is the
    committee, and `members` are the changes of each network, in its order; there are no slices, codes or
    replay memory beside them, and the head takes the embeddings side by side.
    """

    head: Head
    class_names: tuple[str, ...]
    report: dict
    _: KW_ONLY
    members: tuple[Changes, ...] = ()

    def __repr__(self) -> str:
        changed = sum(s.values.size for part in self.parts for s in part.slices)
        facts = f"{len(self.class_names)} classes, {changed:,} changed parameters, head {self.head.kind}"
        return f"<Delta for {one_line(self.backbone_name, 100)!r}: {facts}>"

    @property
    def parts(self) -> tuple[Changes, ...]:
        """The changes of each network: those of the members, or this delta itself."""
        return self.members or (self,)

    @property
    def is_trained(self) -> bool:
        """Whether any weight or bias was changed."""
        return any(part.slices for part in self.parts)

    @property
    def report_of_kind(self) -> dict:
        """Of the report what kind of input the delta is for, if it says so."""
        kind = self.report.get("episode", {}).get("kind")
        return {"episode": {"kind": kind}} if kind else {}

    @property
    def views(self) -> int:
        """Views (clean and augmented) of each image that the head was fitted to."""
        return self.head.views

    def arrays(self) -> list[np.ndarray]:
        changes = (a for part in self.members for a in part.arrays())
        return [*self.head.arrays(), *super().arrays(), *changes]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.arrays())

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinite."""
        return all(map(all_finite, self.arrays()))

    def label_of(self, name: str) -> int:
        """The label of class `name`, however its letters are composed. Raises InputError (unknown-class)."""
        name = unicodedata.normalize("NFC", name)
        if name not in self.class_names:
            way = len(self.class_names)
            known = ", ".join(one_line(known, 100) for known in self.class_names[:NAMED])
            more = f" and {way - NAMED} more" if way > NAMED else ""
            raise InputError(
                "unknown-class",
                f"the delta has no class {one_line(name, 100)!r}; it has {way}: {known}{more}",
            )
        return self.class_names.index(name)

    def check_backbone(self, network: Network | Committee) -> None:
        self.check_digest(network)
        if self.head.embedding_size != network.embedding_size:
            raise damaged(
                f"the head takes {self.head.embedding_size} values, {network.name} gives"
                f" {network.embedding_size}"
            )
        if not self.members:
            return super().check_backbone(network)
        for part, member in zip(self.members, network.members, strict=True):
            part.check_backbone(member)


def _check_slice(network: Network, s: Slice) -> None:
    if s.layer >= len(network.all_layers):
        raise damaged(f"layer {s.layer} is changed, {network.name} ends before it")
    layer = network.all_layers[s.layer]
    if s.inputs is not None and (not layer.row.by_input or s.inputs[-1] >= layer.cin):
        raise damaged(
            f"input channels up to {s.inputs[-1]} are changed, {layer.name} is a {layer.op} layer with"
            f" {layer.cin} of them"
        )
    fan_in = layer.fan_in if s.inputs is None else len(s.inputs)
    rows = (fan_in,) if s.part == "weight" else ()
    if s.channels[-1] >= layer.cout or s.values.shape != (*rows, len(s.channels)):
        raise damaged(
            f"the {s.part} values {s.values.shape} up to channel {s.channels[-1]} do not fit {layer.name}"
            f" with {layer.cout} channels of {layer.fan_in} weights"
        )


def _check_module(slices: tuple[Slice, ...], module: Module) -> None:
    """Every value of a module must be there: what it started from is in no file."""
    for index, layer in enumerate(module.layers, module.index):
        found = {s.part: len(s.channels) if s.inputs is None else 0 for s in slices if s.layer == index}
        if found != {"weight": layer.cout, "bias": layer.cout}:
            raise damaged(
                f"weights and biases of all {layer.cout} channels of {layer.name} must be in the delta"
            )


def apply(network: Network | Committee, delta: Changes) -> Network | Committee:
    """A network with the trained values written over the backbone's; changed layers become float32.

    Those of a delta for int8 stay int8, and the network gets its codes. Of a committee it is one of adapted
    members. There is no inverse to compute: the backbone itself never changes. Raises InputError for a delta
    of another backbone.
    """
    delta.check_backbone(network)
    if isinstance(network, Committee):
        return Committee(tuple(map(apply, network.members, delta.members)))
    if delta.codes:
        network = replace(network, quantisation=delta.codes)
    weights, scales, biases = list(network.weights), list(network.scales), list(network.biases)
    added = dict(network.added)
    for module in delta.modules(network):
        for index in module.indices:
            part = {s.part: s.values for s in delta.slices if s.layer == index}
            added[index] = part["weight"].copy(), part["bias"].copy()
    for s in delta.slices:
        if s.layer >= len(network.layers):
            continue
        if s.part == "weight":
            weight, scale = _writable(network, s.layer, delta.codes is not None)
            rows = slice(None) if s.inputs is None else s.inputs[:, None]
            weight[rows, s.channels] = s.values
            weights[s.layer], scales[s.layer] = weight, scale
        else:
            bias = biases[s.layer].copy()
            bias[s.channels] = s.values
            biases[s.layer] = bias
    arrays = {"weights": tuple(weights), "scales": tuple(scales), "biases": tuple(biases)}
    adapted = replace(network, **arrays, added=added)
    if delta.codes:
        _check_int8(adapted)  # a bias may be too large
    return adapted


def _check_int8(network: Network) -> None:
    """Raise InputError unless `network`, with the codes of a delta, can run in int8."""
    if obstacle := int8_obstacle(network):
        raise damaged(f"the delta is for int8, which {network.name} cannot run: {obstacle}")


def _writable(network: Network, layer: int, int8: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """A copy of the weights of a layer as float32, or as the int8 that an int8 program takes, and scales."""
    if int8:
        return int8_weights(network, layer)[:2]
    return network.float_weight(layer).copy(), None


def trained_slices(slots, working, room: np.ndarray) -> tuple[Slice, ...]:
    """What a working copy of the network now holds where `slots` say that something was trained.

    Written one after another into `room` (numbers,) float32: values, int8 ones four to a number, and indices
    as int32.
    """
    slices = []
    for slot in slots:
        slices.append(_slice_of(slot, working, room))
        room = room[sum(-(-a.nbytes // 4) for a in slices[-1].arrays()) :]
    return tuple(slices)


def _slice_of(slot, working, room: np.ndarray) -> Slice:
    values = working.part(slot.layer, slot.part)
    channels, room = _indices(slot.channels, room)
    if slot.part == "bias":
        np.take(values[0], channels, out=room[: len(channels)], mode="clip")
        return Slice(slot.layer, slot.part, channels, room[: len(channels)])
    inputs = None
    if slot.inputs is not None:
        inputs, room = _indices(slot.inputs, room)
    rows = range(len(values)) if inputs is None else inputs
    picked = room.view(values.dtype)[: len(rows) * len(channels)].reshape(len(rows), len(channels))
    for row, i in zip(picked, rows, strict=True):  # indexing with two arrays takes several times the memory
        row[:] = values[i, channels]
    return Slice(slot.layer, slot.part, channels, picked, inputs)


def _indices(numbers: tuple[int, ...], room: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`numbers` as int32 at the beginning of `room`, and the room behind them."""
    indices = room[: len(numbers)].view(np.int32)
    indices[:] = numbers
    return indices, room[len(numbers) :]
