"""Deltas in files: changed values, head and report in the safetensors layout, bound to one backbone.

Tensors are ``<layer>.<weight|bias>.channels`` (int32) with ``<layer>.<weight|bias>.values``, for weights
of some input channels alone ``<layer>.weight.inputs`` (int32), ``head.<name>`` for each tensor that
the method of the head declares (`HeadMethod.tensors`), and those of a replay memory (`delta.kept_features`),
which not every delta has; metadata holds kind, schema, digest and name of the backbone, classes, head and
report (JSON). Of a committee, ``<number>/`` stands before the tensors of each member, and metadata lists the
members. A changed byte is noticed by the checksum that `tinytrain.base.safetensors` adds; deltas from
before there was one are still read.

Layers are numbered as in `Network.all_layers`: lite residual modules lie behind the layers of the backbone,
and a reader that does not know them refuses the number.
"""

import json
import math
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from tinytrain.base.class_names import MAX_CLASSES, wrong_class_names
from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import refuse_other_kinds
from tinytrain.base.files import write_bytes
from tinytrain.base.safetensors import encode, parse_json, read_file
from tinytrain.delta.delta import Changes, Delta, Slice, damaged
from tinytrain.delta.kept_features import REPLAY_NAMES, read_replay, replay_tensors
from tinytrain.delta.reported import check_report
from tinytrain.heads.head import Head, HeadMethod
from tinytrain.heads.out_of_distribution import Limit
from tinytrain.heads.registry import HEADS
from tinytrain.network.codes_json import parsed_codes, written_codes
from tinytrain.network.committee import MOST_MEMBERS, joint_digest
from tinytrain.network.quantisation import Quantisation

KIND = "tinytrain-delta"
# The keys of the metadata by schema: the second is for int8, the third for a committee, the fourth for what
# neither of the first two is computed in.
METADATA = {"kind", "schema", "backbone", "backbone_name", "classes", "head", "report"}
SCHEMA, WITH_CODES, OF_COMMITTEE, NAMED = "1", "2", "3", "4"
KEYS = {
    SCHEMA: METADATA,
    WITH_CODES: METADATA | {"codes"},
    OF_COMMITTEE: METADATA | {"members"},
    NAMED: METADATA | {"arithmetic"},
}
MEMBER_FIELDS = {"backbone", "backbone_name", "codes"}  # and "arithmetic", where it is not float32 or int8
ARITHMETIC = re.compile(r"[a-z][a-z0-9-]{0,30}(:[0-9a-z.+-]{1,30}){0,4}")
HEAD_FIELDS = ("kind", "temperature", "left_out", "views")
OPTIONAL = {"limit"}  # not in deltas from before heads had one
SLICE_NAME = re.compile(r"(0|[1-9][0-9]{0,3})\.(?:(weight|bias)\.(channels|values)|(weight)\.(inputs))")
MAX_NAME = 100
MAX_VIEWS = 1000


def save_delta(path: str | os.PathLike, delta: Delta) -> None:
    """Write `delta` to `path`, all or nothing. Raises InputError (bad delta) or StorageError."""
    write_bytes(path, encode_delta(delta))


def load_delta(path: str | os.PathLike) -> Delta:
    """Delta of the file `path`; raises InputError unless every check passes.

    Whether it fits a backbone is checked when it is applied.
    """
    refuse_other_kinds(path, "delta")
    return decode_delta(*read_file(path), str(path))


def encode_delta(delta: Delta, heads: Mapping[str, HeadMethod] = HEADS) -> bytes:
    """Bytes of the file of `delta`; the same delta always gives the same bytes. Raises InputError.

    `heads` are the methods that its reader knows.
    """
    tensors, head = _tensors_of(delta), delta.head.stored()
    for number, part in enumerate(delta.members):
        tensors |= {f"{number}/{name}": values for name, values in _tensors_of(part).items()}
    tensors |= {f"head.{name}": values for name, values in head.tensors().items()}
    facts = {name: getattr(head, name) for name in HEAD_FIELDS}
    if head.limit is not None:
        facts["limit"] = {k: value for k, value in head.limit._asdict().items() if value is not None}
    texts = _json(facts, "head"), _json(delta.report, "report")
    metadata = metadata_of(delta.backbone, delta.backbone_name, delta.class_names, *texts, delta.codes)
    if delta.arithmetic:
        metadata |= {"schema": NAMED, "arithmetic": delta.arithmetic}
    if delta.members:
        members = [
            {
                "backbone": part.backbone,
                "backbone_name": _shown(part.backbone_name),
                "codes": written_codes(part.codes) if part.codes else None,
                **({"arithmetic": part.arithmetic} if part.arithmetic else {}),
            }
            for part in delta.members
        ]
        metadata |= {"schema": OF_COMMITTEE, "members": json.dumps(members)}
    # What could not be read back must not be written.
    decode_delta(tensors, metadata, "the delta to be written", heads)
    return encode(tensors, metadata)


def _tensors_of(changes: Changes) -> dict[str, np.ndarray]:
    """Tensors by name of what was trained of one network, and of its replay memory."""
    tensors = {}
    for s in changes.slices:
        tensors[f"{s.layer}.{s.part}.channels"] = s.channels
        if s.inputs is not None:
            tensors[f"{s.layer}.{s.part}.inputs"] = s.inputs
        tensors[f"{s.layer}.{s.part}.values"] = s.values
    return tensors | replay_tensors(changes.replay)


def _shown(name: str) -> str:
    """The name of a backbone as files hold it."""
    return "".join(c for c in name if c.isprintable())[:MAX_NAME]


def metadata_of(
    backbone: str, name: str, classes: Sequence[str], head: str, report: str, codes: Quantisation | None
) -> dict[str, str]:
    """The metadata of a file: digest and name of the backbone, names of classes, JSON of head and report."""
    metadata = {
        "kind": KIND,
        "schema": WITH_CODES if codes else SCHEMA,
        "backbone": backbone,
        "backbone_name": _shown(name),
        "classes": json.dumps(classes),
        "head": head,
        "report": report,
    }
    return metadata | ({"codes": written_codes(codes)} if codes else {})


def _json(value, what: str) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise InputError(
            "delta-not-finite", f"the {what} holds NaN or infinity; nothing was saved"
        ) from error


def decode_delta(
    tensors: dict, metadata: dict[str, str], source: str = "file", heads: Mapping[str, HeadMethod] = HEADS
) -> Delta:
    """Delta of what `safetensors.decode` returned; `source` names the file in messages.

    Raises InputError ``file-kind``, ``file-damaged`` or ``delta-not-finite``.
    """
    _check_metadata(metadata, source)
    classes = _classes(metadata["classes"], source)
    facts = _head_facts(metadata["head"], len(classes), source, heads)
    method = heads[facts.pop("kind")]
    if len(classes) < method.least_classes:
        raise _too_few(source)
    report = parse_json(metadata["report"], f"{source}: report", floats=True)
    if not isinstance(report, dict) or not _finite_json(report):
        raise damaged(f"{source}: the report must be an object of finite values")
    check_report(report, f"{source}: report")
    own = {name: a for name, a in tensors.items() if name.startswith("head.")}
    current = method.current({name.removeprefix("head."): a for name, a in own.items()})
    tensors = {name: a for name, a in tensors.items() if name not in own}
    tensors |= {f"head.{name}": a for name, a in current.items()}
    # The tensors themselves say how long an embedding is, and which form the head has.
    sizing = current.get(method.sized_by)
    size = sizing.shape[-1] if sizing is not None and sizing.ndim > 1 else 0
    declared = method.tensors_like(len(classes), size, current)
    needed = {f"head.{b.name}" for b in declared}
    if missing := sorted(needed - tensors.keys()):
        raise damaged(f"{source}: tensor {missing[0]} is missing")
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError("delta-not-finite", f"{source}: tensor {name[:80]!r} holds NaN or infinity")
    rest = {name: array for name, array in tensors.items() if name not in needed}
    members, parts = _members(metadata, source), {}
    for number in range(len(members)):
        prefix = f"{number}/"
        names = [name for name in rest if name.startswith(prefix)]
        parts[number] = {name.removeprefix(prefix): rest.pop(name) for name in names}
    if members and rest:
        raise damaged(f"{source}: tensor {min(rest)[:80]!r} belongs to no member")
    return Delta(
        metadata["backbone"],
        metadata["backbone_name"],
        head=_head(method, facts, tensors, declared, source),
        class_names=classes,
        report=report,
        codes=_codes(metadata.get("codes"), source),
        arithmetic=metadata.get("arithmetic"),
        members=tuple(
            Changes(
                member["backbone"],
                member["backbone_name"],
                codes=_codes(member["codes"], source),
                arithmetic=member.get("arithmetic"),
                **_changed(parts[number], len(classes), f"{source}: member {number}"),
            )
            for number, member in enumerate(members)
        ),
        **_changed(rest, len(classes), source),
    )


def _changed(tensors: dict, way: int, source: str) -> dict:
    """Slices and replay memory of one network."""
    replay = {name: tensors[name] for name in tensors.keys() & REPLAY_NAMES}
    slices = _slices({k: v for k, v in tensors.items() if k not in replay}, source)
    return {"slices": slices, "replay": read_replay(replay, way, source)}


def _members(metadata: dict[str, str], source: str) -> list[dict]:
    """Digest, name and codes of each member; none unless the delta is of a committee."""
    if "members" not in metadata:
        return []
    members = parse_json(metadata["members"], f"{source}: members")
    well_formed = isinstance(members, list) and 2 <= len(members) <= MOST_MEMBERS
    well_formed = well_formed and all(isinstance(m, dict) for m in members)
    if not well_formed or any(m.keys() - {"arithmetic"} != MEMBER_FIELDS for m in members):
        raise damaged(
            f"{source}: members must be a list of 2 to {MOST_MEMBERS}, each with "
            f"{', '.join(sorted(MEMBER_FIELDS))}"
        )
    for member in members:
        _check_backbone_facts(member, source)
    if joint_digest(member["backbone"] for member in members) != metadata["backbone"]:
        raise damaged(f"{source}: the digest of the committee is not that of its members")
    return members


def _check_metadata(metadata: dict[str, str], source: str) -> None:
    if metadata.get("kind") != KIND:
        raise InputError(
            "file-kind", f"{source} is not a delta of ours; make one with: tinytrain adapt --out"
        )
    if metadata.get("schema") not in KEYS:
        raise InputError(
            "file-kind",
            f"{source} has schema {metadata.get('schema', 'none')[:20]!r}, this version reads"
            f" {SCHEMA!r} to {NAMED!r}; use the version that wrote it",
        )
    if metadata.keys() != KEYS[metadata["schema"]]:
        raise damaged(f"{source}: metadata must be exactly {', '.join(sorted(METADATA))}")
    _check_backbone_facts(metadata, source)


def _check_backbone_facts(facts: dict, source: str) -> None:
    digest, name, codes = (facts.get(key) for key in ("backbone", "backbone_name", "codes"))
    # The name is shown to people: it must not be able to steer their terminal.
    if (
        not all(isinstance(text, str) for text in (digest, name, codes or ""))
        or not re.fullmatch("[0-9a-f]{64}", digest)
        or len(name) > MAX_NAME
        or not name.isprintable()
    ):
        raise damaged(
            f"{source}: the backbone must be a sha256 digest, its name {MAX_NAME} printable letters or less"
        )
    named = facts.get("arithmetic")
    if named is not None and not (isinstance(named, str) and ARITHMETIC.fullmatch(named)):
        raise damaged(f"{source}: the arithmetic must be the name of a backend with its options")


def _codes(text: str | None, source: str) -> Quantisation | None:
    """Codes of an int8 delta, all of which are valid; that they fit a network is checked with it."""
    if text is None:
        return None
    codes = parsed_codes(text, source)
    outputs_missing = None in codes.outputs
    if outputs_missing or not all(c.is_valid for c in (*codes.outputs, *codes.sums) if c is not None):
        raise damaged(f"{source}: a code has no valid scale or zero")
    return codes


def _classes(text: str, source: str) -> tuple[str, ...]:
    names = parse_json(text, f"{source}: classes")
    if not isinstance(names, list) or not 1 <= len(names) <= MAX_CLASSES:
        raise _too_few(source)
    if wrong := wrong_class_names(names):
        raise damaged(f"{source}: {wrong}")
    # As names of folders are read: letters that another system took apart are put together.
    return tuple(unicodedata.normalize("NFC", name) for name in names)


def _too_few(source: str) -> InputError:
    return damaged(f"{source}: classes must be a list of 2 to {MAX_CLASSES} names")


def _head_facts(text: str, way: int, source: str, heads: Mapping[str, HeadMethod]) -> dict:
    facts = parse_json(text, f"{source}: head", floats=True)
    if not isinstance(facts, dict) or facts.keys() - OPTIONAL != set(HEAD_FIELDS):
        raise damaged(f"{source}: the head must have exactly {', '.join(sorted(HEAD_FIELDS))}")
    kind, temperature, left_out, views = (facts[k] for k in HEAD_FIELDS)
    numbers = (temperature, 0 if left_out is None else left_out)
    if (
        not (isinstance(kind, str) and kind in heads)
        or not all(type(x) in (int, float) and math.isfinite(x) for x in numbers)
        or not (2**-126 <= temperature < 2**128 and 0 <= numbers[1] <= 1)
        or not (type(views) is int and 1 <= views <= MAX_VIEWS)
    ):
        raise damaged(
            f"{source}: the head must be {' or '.join(heads)}, its temperature above 0 in float32,"
            f" left_out a share, views 1 to {MAX_VIEWS}"
        )
    if "limit" in facts:
        facts["limit"] = _limit(facts["limit"], way, source)
    return facts


def _limit(given, way: int, source: str) -> Limit:
    numbers = isinstance(given, dict) and {"scale", "least"} <= given.keys() <= set(Limit._fields)
    numbers = numbers and all(type(x) in (int, float) and math.isfinite(x) for x in given.values())
    if not numbers or given["scale"] <= 0:
        raise damaged(f"{source}: the limit of the head needs a finite scale above 0 and a finite least")
    label = given.get("background", 0)
    if type(label) is not int or not 0 <= label < way:
        raise damaged(f"{source}: the background of the limit must be one of {way} classes")
    return Limit(**given)


def _finite_json(value) -> bool:
    """False if a number as large as 1e999, which JSON allows, became an infinity."""
    if isinstance(value, dict):
        return all(_finite_json(v) for v in value.values())
    if isinstance(value, list):
        return all(_finite_json(v) for v in value)
    return not isinstance(value, float) or math.isfinite(value)


def _head(method: HeadMethod, facts: dict, tensors: dict, declared: tuple, source: str) -> Head:
    sizing, found = tensors[f"head.{method.sized_by}"], {}
    for buffer in declared:
        name, shape, dtype = f"head.{buffer.name}", buffer.shape, np.dtype(buffer.dtype)
        array = found[buffer.name] = tensors[name]
        if sizing.ndim < 2 or not sizing.shape[-1] or array.shape != shape or array.dtype != dtype:
            raise damaged(f"{source}: {name} is {array.dtype} {array.shape}, must be {dtype} {shape}")
    head = method.head(method, **found, **facts)
    if problem := head.problem():
        raise damaged(f"{source}: {problem}")
    return head


def _slices(tensors: dict, source: str) -> tuple[Slice, ...]:
    """Slices in layer order, weights before biases."""
    pairs: dict[tuple[int, str], dict] = {}
    for name, array in tensors.items():
        match = SLICE_NAME.fullmatch(name)
        if not match:
            raise damaged(f"{source}: tensor {name[:80]!r} is no part of a delta")
        layer, *names = (group for group in match.groups() if group)
        pairs.setdefault((int(layer), names[0]), {})[names[1]] = array
    # "weight" before "bias", as training lays them out.
    ordered = sorted(pairs.items(), key=lambda item: (item[0][0], item[0][1] != "weight"))
    return tuple(_slice(layer, part, pair, source) for (layer, part), pair in ordered)


def _slice(layer: int, part: str, pair: dict, source: str) -> Slice:
    where = f"{source}: {layer}.{part}"
    if not pair.keys() >= {"channels", "values"}:
        raise damaged(f"{where} must have channels and values")
    channels, values, inputs = pair["channels"], pair["values"], pair.get("inputs")
    _check_indices(channels, f"{where}: channels")
    if inputs is not None:
        _check_indices(inputs, f"{where}: inputs")
    if values.dtype not in (np.dtype("f4"), np.dtype("i1")) or values.ndim != (2 if part == "weight" else 1):
        raise damaged(f"{where}: values must be float32 or int8, a column per channel")
    if values.shape[-1] != len(channels):
        raise damaged(f"{where}: {values.shape[-1]} values for {len(channels)} channels")
    if inputs is not None and len(values) != len(inputs):
        raise damaged(f"{where}: {len(values)} rows of values for {len(inputs)} inputs")
    return Slice(layer, part, channels, values, inputs)


def _check_indices(indices: np.ndarray, what: str) -> None:
    if indices.dtype != np.dtype("i4") or indices.ndim != 1 or not len(indices):
        raise damaged(f"{what} must be a row of int32, at least one")
    if indices[0] < 0 or (indices[1:] <= indices[:-1]).any():
        raise damaged(f"{what} must rise and be at least 0")
