"""Miniature downloads of the nine target sets: the layout of the originals, a few images of plain colours.

Every class has a grey of its own (`grey_of`), so that a test can tell whose image it was given.
"""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

GREYS = {}


def grey_of(name: str) -> int:
    """Steps of 8 in the order of first use: far enough apart to survive JPEG."""
    return 8 * (GREYS.setdefault(name, len(GREYS)) % 32)


def plain(path: Path, name: str, size=(12, 10)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (grey_of(name),) * 3).save(path)


def boxed(path: Path, name: str, box) -> None:
    """A white image of 60 x 40 with the colour of the class inside `box`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (60, 40), "white")
    image.paste((grey_of(name),) * 3, box)
    image.save(path, quality=95)


def omniglot(root: Path) -> Path:
    for alphabet, characters in (("Angelic", 5), ("Tengwar", 6)):
        for c in range(1, characters + 1):
            for drawer in range(1, 9):
                file = f"{alphabet}/character{c:02d}/{100 * len(alphabet) + c:04d}_{drawer:02d}.png"
                plain(root / "images_evaluation" / file, f"{alphabet}/character{c:02d}")
    plain(root / "images_background/Greek/character01/0001_01.png", "Greek")
    return root


def gtsrb(root: Path) -> Path:
    for sign in (0, 7, 14, 33, 42):
        folder = root / "Final_Training" / "Images" / f"{sign:05d}"
        for track in range(4):
            for frame in range(3):
                plain(folder / f"{track:05d}_{frame:05d}.ppm", f"{sign:05d}")
        (folder / f"GT-{sign:05d}.csv").write_text(
            "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n"
        )
    return root


def aircraft(root: Path) -> Path:
    variants = ("737-400", "Boeing 717", "Spitfire", "MD-90", "Saab 2000", "A380", "F-16A/B")
    lines = {"trainval": [], "test": []}
    boxes = []
    for v, variant in enumerate(variants):
        for k in range(6):
            name = f"{1000 * v + k:07d}"
            boxed(root / "data" / "images" / f"{name}.jpg", variant, (10, 5, 40, 25))
            boxes.append(f"{name} 10 5 40 25")
            lines["test" if k % 3 == 2 else "trainval"].append(f"{name} {variant}")
    for part, part_lines in lines.items():
        (root / "data" / f"images_variant_{part}.txt").write_text("\n".join(part_lines) + "\n")
    (root / "data" / "images_box.txt").write_text("\n".join(boxes) + "\n")
    return root


def flowers(root: Path) -> Path:
    labels = np.array([5, 9, 90, 15, 19, 35, 9, 5] * 4, np.uint8)
    for k, label in enumerate(labels, 1):
        plain(root / "jpg" / f"image_{k:05d}.jpg", f"{label:03d}")
    (root / "imagelabels.mat").write_bytes(mat_bytes("labels", labels[None]))
    return root


def cub(root: Path) -> Path:
    names = (
        "001.Black_footed_Albatross",
        "008.Rhinoceros_Auklet",
        "046.Gadwall",
        "103.Sayornis",
        "194.Cactus_Wren",
    )
    files = [f"{name}/{name[4:]}_{k:04d}_1.jpg" for name in (*names, "085.Horned_Lark") for k in range(4)]
    for file in files:
        plain(root / "images" / file, file.partition("/")[0])
    (root / "images.txt").write_text("".join(f"{k} {file}\n" for k, file in enumerate(files, 1)))
    return root


def dtd(root: Path) -> Path:
    for name in ("banded", "bumpy", "braided", "crosshatched", "knitted", "woven", "waffled"):
        for k in range(4):
            plain(root / "images" / name / f"{name}_{k:04d}.jpg", name)
    (root / "images" / "waffled" / ".directory").write_text("left over")
    (root / "labels").mkdir()
    (root / "labels" / "labels_joint_anno.txt").write_text("banded/banded_0000.jpg banded\n")
    return root


def quickdraw(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name in ("angel", "hot air balloon", "palm tree", "yoga"):
        rows = np.full((6, 784), grey_of(name), np.uint8)
        rows[:, 0] = np.arange(6)
        np.save(root / f"{name}.npy", rows)
    for name in ("full_simplified_bat", "wheel"):
        (root / f"{name}.ndjson").write_text("".join(drawing(k) + "\n" for k in range(6)))
    return root


def drawing(k: int) -> str:
    """A thick horizontal stroke at height 40 k + 20, and a dot."""
    strokes = [[[0, 255], [40 * k + 20] * 2], [[128], [128]]]
    return json.dumps({"word": "x", "key_id": str(k), "recognized": True, "drawing": strokes})


def fungi(root: Path) -> Path:
    species = {
        8: "Agaricus campestris",
        9: "Twin",
        10: "Twin",
        19: "Agaricus sylvicola",
        38: "Panther",
        44: "Grisette",
    }
    categories = [{"id": k, "name": name, "supercategory": "x"} for k, name in species.items()]
    sides = {"train.json": ([], []), "val.json": ([], [])}
    for c, name in species.items():
        for k in range(6):
            file, number = f"images/svampe/{c}_{name}/{k}.jpg", 100 * c + k
            plain(root / file, f"{c:04d}.{name}")
            images, annotations = sides["val.json" if k == 5 else "train.json"]
            images.append({"id": number, "file_name": file, "width": 12, "height": 10})
            annotations.append({"id": number, "image_id": number, "category_id": c})
    for file, (images, annotations) in sides.items():
        content = {"info": {}, "images": images, "categories": categories, "annotations": annotations}
        (root / file).write_text(json.dumps(content))
    return root


def mscoco(root: Path) -> Path:
    names = {1: "person", 2: "bicycle", 3: "car", 47: "cup", 52: "banana", 90: "scissors"}
    annotations = []
    for number in range(1, 9):
        image = Image.new("RGB", (100, 60), "white")
        for k, (category, name) in enumerate(names.items()):
            x, y = 5 + 30 * (k % 3), 5 + 30 * (k // 3)
            image.paste((grey_of(name),) * 3, (x, y, x + 20, y + 20))
            annotations.append(
                {"id": 10 * number + k, "image_id": number, "category_id": category, "iscrowd": 0,
                 "bbox": [x + 2.5, y + 2.5, 15.0, 15.0], "segmentation": [[x, y, x, y + 20]]}
            )  # fmt: skip
        path = root / "train2017" / f"{number:012d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=95)
    (root / "annotations").mkdir()
    content = {"categories": [{"id": k, "name": n} for k, n in names.items()], "annotations": annotations}
    (root / "annotations" / "instances_train2017.json").write_text(json.dumps(content))
    return root


FOLDERS = {
    "omniglot": omniglot, "gtsrb": gtsrb, "aircraft": aircraft, "flowers": flowers, "cub": cub, "dtd": dtd,
    "quickdraw": quickdraw, "fungi": fungi, "mscoco": mscoco,
}  # fmt: skip


def mat_bytes(name: str, array: np.ndarray, order="<", compressed=True, small=False, flags=9) -> bytes:
    """A MATLAB 5 file with one uint8 array, made by the format's description alone.

    `small` packs what has four bytes at most into the tag. `flags` are the array's class (9: uint8) and bits.
    """

    def element(kind: int, content: bytes) -> bytes:
        if small and len(content) <= 4:
            return struct.pack(order + "I", len(content) << 16 | kind) + content.ljust(4, b"\0")
        return struct.pack(order + "II", kind, len(content)) + content + b"\0" * (-len(content) % 8)

    matrix = element(
        14,
        element(6, struct.pack(order + "II", flags, 0))
        + element(5, struct.pack(order + "ii", *array.shape))
        + element(1, name.encode())
        + element(2, array.tobytes("F")),
    )
    if compressed:
        packed = zlib.compress(matrix)
        matrix = struct.pack(order + "II", 15, len(packed)) + packed
    header = b"MATLAB 5.0 MAT-file".ljust(124, b" ") + struct.pack(order + "H", 0x0100)
    return header + {"<": b"IM", ">": b"MI"}[order] + matrix
