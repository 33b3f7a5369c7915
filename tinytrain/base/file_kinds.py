"""What a file is that was given for a backbone, a delta or a folder of images, and what to do then."""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.base.files import open_without_waiting

HEAD = 2**20  # bytes read to find out; the metadata of our files lie in them
IMPORT = "tinytrain import model.onnx -o net.safetensors"
TORCH_EXPORT = "torch.onnx.export(model.eval(), (torch.zeros(1, 3, 128, 128),), 'model.onnx')"
JOIN = "onnx.save_model(onnx.load('model.onnx'), 'joined.onnx', save_as_external_data=False)"
PRODUCER = "tinytrain"  # as exported models name it, near their start
EXPORTED = (
    "a model that 'tinytrain export' wrote for other programs",
    "give the delta that it was made of, or make a network of that with"
    " 'tinytrain export DELTA -o net.safetensors'",
)
DELTAS = "give the file that 'tinytrain adapt DIR --out FILE' wrote"

# What systems and programs leave in folders.
LITTER = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir", "$recycle.bin",
          "system volume information", "lost+found"}  # fmt: skip
SIGNS = "#@$~"  # one of these begins the names of bins and snapshots on network drives: #recycle, ~snapshot

TABLES = (".csv", ".tsv")  # may be a table of texts, which stands for a folder of them

# Role of a file -> the error code if it is of another kind, and the remedy if that kind has none of its own.
ROLES = {
    "backbone": ("file-kind", "give a network file, or a name that 'tinytrain backbones' lists"),
    "delta": ("file-kind", DELTAS),
    "images": ("file-missing", "give a folder that contains one folder of images per class"),
}


def is_litter(name: str) -> bool:
    """Whether a file or folder of this name is hidden, or left by a system."""
    return name.startswith(".") or name.lower() in LITTER


def may_be_bin(name: str) -> bool:
    """Whether a folder of this name may be a bin of a system: it is no class, and that is said."""
    return name.startswith(tuple(SIGNS))


@dataclass(frozen=True)
class FileKind:
    """What files with these suffixes or first bytes are. `remedies` has those of single roles."""

    what: str
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...]
    remedies: dict[str, str]


PYTORCH = f"export the model in PyTorch with {TORCH_EXPORT}, then run: {IMPORT}"
KINDS = [
    FileKind("a PyTorch file", (".pt", ".pth", ".ckpt", ".bin"), (), {"backbone": PYTORCH}),
    FileKind("an ONNX model", (".onnx",), (), {"backbone": f"import it first: {IMPORT}"}),
    FileKind(
        "the second file of an ONNX model", (".data",), (),
        {"backbone": f"it is read with the .onnx file beside it: {IMPORT}"},
    ),
    FileKind(
        "a TensorFlow or Keras model", (".tflite", ".h5", ".hdf5", ".keras", ".pb"), (b"\x89HDF",),
        {"backbone": f"convert it to ONNX, for example with tf2onnx, then run: {IMPORT}"},
    ),
    FileKind(
        "a model for another program",
        (".mlmodel", ".engine", ".trt", ".caffemodel", ".xml", ".gguf", ".param"), (b"GGUF",),
        {"backbone": f"import the ONNX model that it was made from: {IMPORT}"},
    ),
    FileKind(
        "an image",
        (
            ".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".pbm", ".bmp", ".webp", ".avif", ".gif", ".tif",
            ".tiff", ".heic",
        ),
        (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"WEBP", b"II*\0", b"MM\0*"),
        {"delta": "the delta comes before the images: tinytrain predict DELTA IMAGE"},
    ),
    FileKind(
        "a published checkpoint", (".pkl",), (), {"delta": f"a checkpoint goes to --backbone; {DELTAS}"}
    ),
    FileKind("a web page", (".html", ".htm"), (b"<!DOCTYPE", b"<!doctype", b"<html"), {}),
    FileKind("an archive", (".zip", ".npz", ".gz", ".xz"), (b"PK\x03\x04",), {}),
    FileKind("text", (".txt", ".csv", ".yaml", ".yml", ".md", ".py"), (), {}),
]  # fmt: skip


def add_input(noun: str, plural: str, suffixes: tuple[str, ...]) -> None:
    """Name files of a kind of input as such from now on."""
    what = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
    remedy = f"the delta comes before the {plural}: tinytrain predict DELTA {noun.upper()}"
    KINDS.insert(0, FileKind(what, suffixes, (), {"delta": remedy}))


# Our files by the kind in their metadata: the right role, what one is, and the remedy in another role.
OURS = {
    "tinytrain-network": ("backbone", "a network", f"a network goes to --backbone; {DELTAS}"),
    "tinytrain-delta": (
        "delta", "a delta",
        "'tinytrain predict DELTA IMAGE' uses it; 'tinytrain adapt --from DELTA --add DIR' extends it",
    ),
}  # fmt: skip


def refuse_other_kinds(path: str | os.PathLike, role: str) -> None:
    """Raise InputError if the file `path` is known to be something else than its `role`, a key of ROLES.

    The error says what the file is and what to do. A file of no known kind passes, and so does one that
    cannot be read.
    """
    head = first_bytes(path)
    suffix = Path(path).suffix.lower()
    table = role == "images" and suffix in TABLES
    found = _described(head, suffix, role) if head and not table else None
    if found:
        code, usual = ROLES[role]
        raise InputError(code, f"{path} is {found[0]}; {found[1] or usual}")


def _described(head: bytes, suffix: str, role: str) -> tuple[str, str | None] | None:
    """What a file with these first bytes is and the remedy, if it has one; None if `role` may be right."""
    if head[4:8] == b"\0\0\0\0":  # a safetensors file begins with the length of its header, in 8 bytes
        metadata = _metadata(head)
        its_role, what, remedy = OURS.get(metadata.get("kind"), (None, None, None))
        if its_role == role:
            return None
        if what:
            return what, remedy
        if metadata and role == "backbone":
            return "a file of weights without their network", PYTORCH
    elif head[:1] == b"{":
        return _json_file(head, role)
    elif suffix in (".onnx", ".tflite") and PRODUCER.encode() in head[:200]:
        return EXPORTED
    start = head[8:] if head[:4] == b"RIFF" else head  # what it is comes behind its size
    for kind in KINDS:
        if suffix in kind.suffixes or any(map(start.startswith, kind.magic)):
            return kind.what, kind.remedies.get(role)
    return None


def _json_file(head: bytes, role: str) -> tuple[str, str | None]:
    """What a JSON file is, a plan or a report perhaps, and the remedy."""
    if b'"backbone_digest"' in head:
        return "a report or a plan as --json prints it", None
    if b'"recipe"' in head and b'"resources"' in head:
        remedy = "run 'tinytrain adapt DIR --plan PLAN --out FILE', which writes a delta"
        return "a plan", remedy if role == "delta" else None
    return "a JSON file", None


def _metadata(head: bytes) -> dict:
    """The metadata of a safetensors file; empty if there are none or they are damaged."""
    length = int.from_bytes(head[:8], "little")
    try:
        metadata = json.loads(head[8 : 8 + length])["__metadata__"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def first_bytes(path, most: int = HEAD) -> bytes:
    """The first bytes of a regular file, `most` of them at most; none if it cannot be read."""
    try:
        with open(path, "rb", opener=open_without_waiting) as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
        return b""
