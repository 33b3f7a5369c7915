"""Sums that only their total shows: every member of a round adds masks that cancel, modulo 2^64.

A round is a folder that all members see: a stick that goes round, or a share. Each has a key of its own for
one round and one delta (X25519 of RFC 7748). Two members derive the same mask from their keys; whose
public key is less adds it, the other takes it off. After Bonawitz et al., "Practical secure
aggregation for privacy-preserving machine learning", CCS 2017, with files in place of a server, and without
its second masks and shares: whoever has joined and given nothing is let go by all of the others, who publish
the masks that they share with it. These are of no use unless its part turns up. So no part is given after
that, nobody is let go whose part is there, and whoever shows different folders to different members could
read a part.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tinytrain.base.class_names import wrong_class_names
from tinytrain.base.errors import InputError, StorageError, one_line
from tinytrain.base.files import check_writable, read_bytes, write_bytes
from tinytrain.base.safetensors import decode, encode, parse_json
from tinytrain.base.shell import quoted
from tinytrain.delta.delta import Delta
from tinytrain.delta.merge import check_lengths, classes_of_all, digest_of, head_of, report_of, source_of
from tinytrain.heads.moments import MOST as EVER
from tinytrain.heads.moments import UNIT, Moments
from tinytrain.heads.registry import HEADS
from tinytrain.network.input_spec import IMAGE
from tinytrain.trust.keys import crypto, read_signed, write_secret
from tinytrain.trust.noise import check_sums_alone

MEMBER, PART, WITHOUT = ".member", ".part", ".without"  # what names of files in a round end with
KEY = ".key"
# What each file says beside its bytes.
FACTS = {
    MEMBER: ("members", "backbone", "backbone_name", "head", "size", "classes"),
    PART: ("members",),
    WITHOUT: ("members", "dropped"),
    KEY: ("sums", "given"),
}
INPUT = "input"  # a fact of a member, if its delta is for other inputs than images
KINDS = {ending: f"tinytrain-{ending[1:]}" for ending in FACTS} | {KEY: "tinytrain-mask-key"}
LEAST = 3  # of two, each knows the part of the other from the sum
MOST = 2**26  # bytes of a file
KEY_BYTES = 32  # of a private or a public key
BEHIND = 3  # numbers behind the sums: see `_numbers`


class _Member(NamedTuple):
    """Who takes part: the `key` is public, and the rest is what a delta is for."""

    key: bytes
    backbone: str
    backbone_name: str
    head: str
    size: int
    kind: str
    classes: tuple[str, ...]


class Round:
    """The round in `folder`. Its members are called as the files of their keys, without the ending.

    With `signed_by`, a file of public keys, every member must be signed by one of these: whoever
    carries the folder could have put other keys there. Methods raise InputError for files that do not fit
    together or are damaged, and StorageError.
    """

    def __init__(self, folder: str | os.PathLike, signed_by: str | os.PathLike | None = None):
        self.folder, self.members, content = Path(folder), {}, hashlib.sha256()
        if not self.folder.is_dir():
            raise InputError("file-missing", f"{folder} is no folder; make one that all members can see")
        names = sorted(os.listdir(folder))
        for file in (name for name in names if name.endswith(MEMBER)):
            path, name = self.folder / file, file.removesuffix(MEMBER)
            data = read_signed(path, MOST, signed_by)
            content.update(hashlib.sha256(os.fsencode(file) + data).digest())
            self.members[name] = self._like_others(name, *_decoded(MEMBER, data, str(path)), str(path))
        self.digest = content.hexdigest()
        self.given = [n for n in self.members if f"{n}{PART}" in names]
        let_go = (n for n in self.members if f"{n}{WITHOUT}" in names)
        self.let_go = {n: _names(self._read(n, WITHOUT)[1]["dropped"], f"{n}{WITHOUT}") for n in let_go}

    def join(self, delta: Delta, key: str | os.PathLike) -> str:
        """Make a `key`, which nobody else may read, and put its public half and the names of classes here.

        Returns what the member is called, as the other steps do.
        """
        check_sums_alone(delta)
        _, x25519, _ = crypto()
        name, private = Path(key).stem, x25519.X25519PrivateKey.generate()
        if Path(key).resolve().parent == self.folder.resolve():
            raise InputError("bad-value", f"all members see {self.folder}; keep the key in another folder")
        if name in self.members:
            raise StorageError("write-failed", f"{self.folder} has a member {name} already; name another key")
        if self.given:
            text = f"{', '.join(self.given)} gave parts for {len(self.members)} members already"
            raise InputError("bad-value", f"{text}; join another round")
        facts = {"backbone": delta.backbone, "backbone_name": delta.backbone_name, "head": delta.head.kind}
        facts |= {"size": str(delta.head.embedding_size), "classes": json.dumps(delta.class_names)}
        if (kind := delta.report.get("episode", {}).get("kind", IMAGE)) != IMAGE:
            facts[INPUT] = kind
        public = private.public_key().public_bytes_raw()
        self.members[name] = self._like_others(name, public, facts, "the delta")
        check_writable(self.folder / f"{name}{MEMBER}")
        sums = digest_of(delta.head.moments)
        write_secret(key, _encoded(KEY, private.private_bytes_raw(), sums=sums, given=""))
        return self._write(name, MEMBER, public, **facts)

    def give(self, delta: Delta, key: str | os.PathLike) -> str:
        """Put the masked sums of `delta` here, with which this `key` has joined. All members must have."""
        check_sums_alone(delta)
        name, private, facts = self._own(key)
        if digest_of(delta.head.moments) != facts["sums"]:
            text = f"{key} has joined with another delta: masks hide one; join again with a new key"
            raise InputError("bad-value", text)
        if letting := ", ".join(other for other, dropped in self.let_go.items() if name in dropped):
            text = f"{letting} has let {name} go, so its masks hide nothing; join another round"
            raise InputError("bad-value", text)
        if facts["given"] not in ("", self.digest):
            text = f"{key} has given its part for other members, and the difference of both sums would show"
            text += " who came or left in between; begin another round with new keys"
            raise InputError("bad-value", text)
        self._check_enough(len(self.members))
        facts["given"] = self.digest
        write_bytes(key, _encoded(KEY, private.private_bytes_raw(), **facts), 0o600)
        total = _numbers(delta, self.classes) + self._masks(name, private, self.members)
        self._write(name, PART, total.tobytes())
        self.given = sorted({*self.given, name})
        return name

    def without(self, dropped: Sequence[str], key: str | os.PathLike) -> str:
        """Let go of members that have joined and given nothing: publish what masks were shared with them.

        Who was let go before stays so, as these masks were seen.
        """
        name, private, _ = self._own(key)
        gone = sorted({*dropped, *self.let_go.get(name, ())})
        others = self.members.keys() - {name, *self.given}
        if wrong := [other for other in gone if other not in others]:
            text = f"{wrong[0]} is no member, or its part is here and would be shown"
            raise InputError("bad-value", f"{text}; {', '.join(sorted(others)) or 'nobody'} can be let go")
        self._check_enough(len(self.members) - len(gone))
        masks = self._masks(name, private, gone)
        return self._write(name, WITHOUT, masks.tobytes(), dropped=json.dumps(gone))

    def total(self, kernels) -> Delta:
        """The delta of all parts: that of `merge`, whose one source are the sums of all."""
        self._check_enough(len(self.members))
        dropped = sorted(self.members.keys() - self.given)
        left = [n for n in self.given if dropped and self.let_go.get(n) != dropped]
        if left or not self.given:
            words = " ".join(map(quoted, (str(self.folder), *dropped)))  # names are those of others
            text = f"{len(dropped)} of {len(self.members)} members have given no part: {', '.join(dropped)};"
            text += " wait, or "
            if len(self.given) < LEAST:  # too few would remain
                text += f"begin another round: at least {LEAST} must give one"
            else:
                text += f"let each of {', '.join(left)} run: tinytrain mask without {words} --key KEY"
            raise InputError("too-few-images", text)
        self._check_enough(len(self.given))
        total = sum(self._values(name, PART) for name in self.given)
        total -= sum((self._values(name, WITHOUT) for name in self.given if dropped), np.uint64(0))
        return self._delta(kernels, total.view(np.int64))

    @property
    def classes(self) -> tuple[str, ...]:
        return classes_of_all(member.classes for member in self.members.values())

    def _delta(self, kernels, numbers: np.ndarray) -> Delta:
        way, member = len(self.classes), next(iter(self.members.values()))
        counts, rest = numbers[:way], numbers[way:-BEHIND]
        images, warmth, unknown = numbers[-BEHIND:].tolist()
        moments = Moments(counts, rest[: way * member.size].reshape(way, -1), rest[way * member.size :])
        # Of int64 the lowest number is its own absolute value.
        largest = max(counts.max(), abs(rest.astype(float)).max() / UNIT)
        fit = counts.min() > 0 and counts.sum() >= images > 0 and largest <= EVER
        if not fit or not (unknown or 0 < warmth / UNIT / images < EVER):
            text = f"the parts in {self.folder} add to no sums; begin another round"
            raise InputError("file-damaged", text)
        check_lengths(f"the sum of {self.folder}", moments)
        warmth = None if unknown else warmth / UNIT / images
        sources = [{"sums": digest_of(moments), "images": images, "warmth": warmth}]
        name = min(member.backbone_name for member in self.members.values())
        head, report = head_of(kernels, HEADS[member.head], moments, sources), report_of(moments, sources)
        # Some members may be of an earlier version, which did not say it.
        if kinds := {member.kind for member in self.members.values()} - {IMAGE}:
            report["episode"] = {"kind": min(kinds)}
        return Delta(member.backbone, name, (), head, self.classes, report)

    def _masks(self, name: str, private, others) -> np.ndarray:
        """The sum of the masks that `name` shares with `others`, modulo 2^64."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        _, x25519, _ = crypto()
        mine, found = self.members[name].key, np.zeros(self._size, np.uint64)
        for other in sorted({*others} - {name}):
            theirs = self.members[other].key
            try:
                shared = private.exchange(x25519.X25519PublicKey.from_public_bytes(theirs))
            except ValueError as error:
                raise InputError("file-damaged", f"the key of {other} in {self.folder} is none") from error
            pair = HKDF(hashes.SHA256(), 32, None, f"tinytrain mask {self.digest}".encode()).derive(shared)
            cipher = Cipher(algorithms.ChaCha20(pair, bytes(16)), None).encryptor()
            mask = np.frombuffer(cipher.update(bytes(found.nbytes)), "<u8")
            found = found + mask if mine < theirs else found - mask
        return found

    @property
    def _size(self) -> int:
        way, size = len(self.classes), next(iter(self.members.values())).size
        return way + way * size + size * (size + 1) // 2 + BEHIND

    def _own(self, key) -> tuple[str, object, dict[str, str]]:
        """Name and key of a member of this round, and the digests of what it masks and has given it for."""
        _, x25519, _ = crypto()
        data, facts = _decoded(KEY, read_bytes(key, MOST), str(key))
        private = x25519.X25519PrivateKey.from_private_bytes(data)
        public = private.public_key().public_bytes_raw()
        for name, member in self.members.items():
            if member.key == public:
                return name, private, facts
        raise InputError("file-missing", f"{key} has not joined {self.folder}; run: tinytrain mask join")

    def _check_enough(self, number: int) -> None:
        if number < LEAST:
            text = f"{number} members take part in {self.folder}, and of two each knows the other's part"
            raise InputError("too-few-images", f"{text} from the sum; {LEAST} must take part")

    def _like_others(self, name: str, key: bytes, facts: dict, source: str) -> _Member:
        """The member of these `facts`. Raises InputError unless it goes together with the others."""
        classes = _names(facts["classes"], f"{source}: classes")
        kind = one_line(facts.get(INPUT, IMAGE), 100)
        fit = facts["head"] in HEADS and re.fullmatch("[1-9][0-9]{0,4}", facts["size"])
        if not fit or wrong_class_names([name]):
            raise InputError("file-damaged", f"{source}: no key with classes and a head; join again")
        rest = facts["backbone"], one_line(facts["backbone_name"], 100), facts["head"], int(facts["size"])
        found = _Member(key, *rest, kind, tuple(classes))
        for other in self.members.values():
            if (found.backbone, found.head, found.size) != (other.backbone, other.head, other.size):
                text = f"{source} is for {found.backbone_name} with head {found.head}, {self.folder} for"
                text += f" {other.backbone_name} with {other.head}"
                raise InputError("backbone-mismatch", f"{text}; adapt with those")
        classes_of_all([*(other.classes for other in self.members.values()), found.classes])
        return found

    def _values(self, name: str, ending: str) -> np.ndarray:
        """(n,) uint64 of a part, or of masks. Raises InputError if they are for another round."""
        data, facts = self._read(name, ending)
        if facts["members"] != self.digest or len(data) != 8 * self._size:
            text = f"{name}{ending} is for other members than {self.folder} has now; begin another round"
            raise InputError("bad-value", text)
        return np.frombuffer(data, "<u8").astype(np.uint64)

    def _read(self, name: str, ending: str) -> tuple[bytes, dict[str, str]]:
        path = self.folder / f"{name}{ending}"
        return _decoded(ending, read_bytes(path, MOST), str(path))

    def _write(self, name: str, ending: str, data: bytes, **facts: str) -> str:
        write_bytes(self.folder / f"{name}{ending}", _encoded(ending, data, members=self.digest, **facts))
        return name


def _numbers(delta: Delta, classes: Sequence[str]) -> np.ndarray:
    """All that is added, (n,) uint64: counts, sums and products, images, and how sure the head is.

    That is the product of `warmth` and images in units of 2^-20; or 0, and 1 behind it, if it is not known.
    """
    moments = delta.head.moments.at([classes.index(name) for name in delta.class_names], len(classes))
    row = source_of(delta)
    facts = [row["images"], round((row["warmth"] or 0) * row["images"] * UNIT), int(row["warmth"] is None)]
    parts = moments.counts, moments.sums.ravel(), moments.products, facts
    return np.concatenate(parts).astype(np.int64).view(np.uint64)


def _names(text: str, source: str) -> list[str]:
    """The names in a list as JSON. Raises InputError."""
    names = parse_json(text, source)
    if not isinstance(names, list) or wrong_class_names(names):
        raise InputError("file-damaged", f"{source}: this is no list of names; make the file again")
    return names


def _encoded(ending: str, data: bytes, **facts: str) -> bytes:
    return encode({"values": np.frombuffer(data, np.uint8)}, {"kind": KINDS[ending], **facts})


def _decoded(ending: str, data: bytes, source: str) -> tuple[bytes, dict[str, str]]:
    """The bytes of a file, and its facts. Raises InputError."""
    tensors, facts = decode(data, source)
    values = tensors.get("values", np.empty(0))
    size = KEY_BYTES if ending in (MEMBER, KEY) else values.size
    row = values.dtype == np.uint8 and values.shape == (size,)
    if facts.pop("kind", None) != KINDS[ending] or facts.keys() - {INPUT} != {*FACTS[ending]} or not row:
        raise InputError("file-kind", f"{source} is no file of a round that ends in {ending}; make it again")
    return values.tobytes(), facts
