"""Which classes of each set are tested on: those of Meta-Dataset (Triantafillou et al. 2020).

The sets whose names start with a number are given by number. Where a set is not listed, all of its classes
are tested on. Source: the files ``meta_dataset/dataset_conversion/splits/<name>_splits.json`` of
https://github.com/google-research/meta-dataset (Apache-2.0), for fungi the second of two versions, the one
that the published specifications of the records agree with. Such a file, put into the folder of the data
under its own name, takes the place of this list and adds the parts ``train`` and ``valid``.
"""

from collections.abc import Sequence
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.datasets.meta_dataset.listing import broken, read_json

SOURCE = "meta_dataset/dataset_conversion/splits of https://github.com/google-research/meta-dataset"
PARTS = ("test", "valid", "train", "all")

TEST_CLASSES: dict[str, tuple[str | int, ...]] = {
    "aircraft": (
        "737-400", "737-800", "757-200", "767-400", "ATR-42", "BAE-125", "Beechcraft 1900", "Boeing 717",
        "CRJ-200", "CRJ-700", "E-170", "L-1011", "MD-90", "Saab 2000", "Spitfire",
    ),
    "vgg_flower": (5, 9, 15, 19, 35, 40, 41, 42, 45, 46, 65, 85, 89, 94, 96, 98),
    "cu_birds": (
        8, 9, 15, 20, 28, 30, 35, 39, 45, 46, 82, 85, 94, 101, 103, 112, 118, 122, 128, 133, 134, 137, 147,
        148, 163, 168, 169, 170, 193, 194,
    ),
    "dtd": ("banded", "bumpy", "crosshatched", "knitted", "sprinkled", "stratified", "woven"),
    "quickdraw": (
        "angel", "animal migration", "axe", "bat", "beard", "bee", "bridge", "broom", "bucket", "butterfly",
        "cactus", "campfire", "cookie", "couch", "cow", "diving board", "donut", "drill", "eraser",
        "feather", "finger", "fire hydrant", "flashlight", "frying pan", "giraffe", "goatee", "hammer",
        "helicopter", "helmet", "hockey stick", "hourglass", "house", "kangaroo", "lantern", "mailbox",
        "mouse", "palm tree", "parrot", "rabbit", "rollerskates", "saw", "saxophone", "snowman", "spider",
        "stitches", "streetlight", "sweater", "table", "umbrella", "wheel", "wine bottle", "yoga",
    ),
    "fungi": (
        8, 9, 19, 38, 44, 53, 55, 62, 63, 69, 70, 78, 93, 96, 99, 103, 105, 118, 129, 132, 141, 151, 153,
        156, 165, 175, 176, 179, 184, 190, 205, 220, 223, 232, 234, 247, 277, 279, 289, 291, 316, 321, 326,
        356, 359, 381, 382, 390, 393, 395, 397, 408, 413, 431, 433, 444, 453, 457, 460, 462, 472, 479, 482,
        484, 491, 492, 498, 501, 502, 505, 517, 535, 536, 539, 541, 574, 580, 584, 587, 596, 600, 604, 609,
        616, 618, 620, 627, 637, 651, 661, 674, 677, 680, 688, 695, 703, 713, 722, 724, 726, 727, 729, 742,
        760, 764, 765, 784, 787, 790, 792, 799, 803, 805, 807, 812, 817, 820, 826, 834, 838, 849, 853, 857,
        871, 885, 893, 904, 907, 909, 914, 915, 917, 935, 937, 938, 940, 947, 955, 960, 963, 966, 971, 976,
        987, 989, 997, 999, 1012, 1018, 1024, 1030, 1031, 1032, 1033, 1034, 1062, 1076, 1077, 1084, 1086,
        1094, 1096, 1098, 1104, 1105, 1107, 1111, 1115, 1117, 1120, 1129, 1133, 1157, 1165, 1169, 1194,
        1231, 1234, 1238, 1249, 1250, 1253, 1262, 1264, 1265, 1273, 1280, 1299, 1305, 1314, 1318, 1344,
        1348, 1352, 1362, 1366, 1373, 1376, 1382, 1388,
    ),
    "mscoco": (
        "bicycle", "car", "airplane", "bus", "truck", "boat", "stop sign", "bench", "bird", "horse",
        "sheep", "cow", "giraffe", "tie", "frisbee", "skis", "baseball bat", "tennis racket", "bottle",
        "wine glass", "cup", "fork", "spoon", "bowl", "banana", "apple", "orange", "hot dog", "pizza",
        "chair", "couch", "potted plant", "bed", "mouse", "keyboard", "toaster", "sink", "refrigerator",
        "vase", "scissors",
    ),
}  # fmt: skip


def key_of(name: str | int) -> str | int:
    """What a class is known by: its number, as in ``008.Rhinoceros_Auklet`` or ``00014``, or its name."""
    number = str(name).partition(".")[0]
    return int(number) if number.isdigit() else name.strip()


def classes_of(meta_name: str, root: Path, part: str, found: Sequence[str]) -> tuple[list[int], list[str]]:
    """Indices into `found` of the classes of a part, in the order of the names, and names of absent ones.

    `meta_name` is what Meta-Dataset calls the set. Raises InputError for a part that needs a splits file.
    """
    file = root / f"{meta_name}_splits.json"
    if part == "all":
        wanted = None
    elif file.is_file():
        wanted = read_splits(file)[part]
    elif part == "test":
        wanted = TEST_CLASSES.get(meta_name)
    else:
        raise InputError(
            "file-missing",
            f"part {part!r} needs {file.name} in {str(root)!r}; get it from {SOURCE}",
        )
    if wanted is None:
        return list(range(len(found))), []
    number = {key_of(name): k for k, name in enumerate(found)}
    keys = [key_of(name) for name in wanted]
    return sorted(number[k] for k in keys if k in number), [str(k) for k in keys if k not in number]


def read_splits(file: Path) -> dict[str, list[str | int]]:
    """The lists ``train``, ``valid`` and ``test`` of an official splits file. Raises InputError."""
    splits = read_json(file)
    for part in ("train", "valid", "test"):
        names = splits.get(part)
        if not isinstance(names, list) or not all(type(name) in (str, int) for name in names):
            raise broken(file, f"holds no list {part!r} of class names")
    return splits
