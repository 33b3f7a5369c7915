"""The known packs: their licence, their classes, and how to make one of a public download."""

from dataclasses import dataclass

from tinytrain.datasets import free_emoji, free_photos


@dataclass(frozen=True)
class Pack:
    """What is known about a pack beyond its arrays.

    `group` names the array of what must not be on both sides of an episode, `split` the value of
    `class_split` whose classes are used. ``tinytrain data pack`` makes such a pack by `source` and `options`
    of the public download, `subset` says what the one that RESULTS.md was measured with holds.
    """

    file: str
    may_flip: bool
    licence: str
    citation: str
    group: str | None = None
    split: int | None = None
    source: str = ""
    options: str = ""
    subset: str = ""

    @property
    def command(self) -> str:
        """How to make it; empty if no command does."""
        words = ["tinytrain data pack", self.file, self.source, self.options]
        return " ".join(word for word in words if word) if self.source else ""


OMNIGLOT = "Lake, Salakhutdinov, Tenenbaum 2015, Human-level concept learning through program induction"
PACS = "Li et al. 2017, Deeper, broader and artier domain generalization"
IMAGENET = "ImageNet terms: non-commercial research"
TINY = "Tiny ImageNet (Stanford CS231N), from Deng et al. 2009, ImageNet"
UNSTATED = "not stated by the source; research use"

WHOLE_OMNIGLOT = {
    "source": "omniglot:DIR", "options": "--raw --grey",
    "subset": "all of images_background and images_evaluation",
}  # fmt: skip
DRAWN = "which ones was not recorded: others are drawn"
PACS_PART = {"options": "--per-class 80", "subset": f"80 images of each class; {DRAWN}"}
TINY_PART = {
    "source": "DIR/train", "options": "--size 64 --per-class 100",
    "subset": f"100 images of each class; {DRAWN}; first move them from train/CLASS/images to train/CLASS",
}  # fmt: skip

PACKS = {
    "gtsrb": Pack(
        "gtsrb.npz", False, UNSTATED, "Stallkamp et al. 2012, Man vs. computer (GTSRB)", group="track",
        source="gtsrb:DIR", options="--per-class 50",
        subset=f"50 images of each class, from all tracks in turn; {DRAWN}",
    ),
    "omniglot": Pack("omniglot.npz", False, "MIT", OMNIGLOT, split=1, **WHOLE_OMNIGLOT),
    "omniglot_background": Pack("omniglot.npz", False, "MIT", OMNIGLOT, split=0, **WHOLE_OMNIGLOT),
    "flowers12": Pack(
        "flowers12.npz", True, UNSTATED, "Nilsback, Zisserman 2006, Oxford-17 (part)",
        source="DIR/flowers12",
        subset="all 80 images of each class but cowslip, crocus, daffodil, snowdrop and tulip; first put the "
        "80 images of each class, which follow each other in the download, into a folder",
    ),
    "dtd10": Pack(
        "dtd10.npz", True, "research use", "Cimpoi et al. 2014, Describing textures (part)",
        source="DIR/dtd/images", options="--classes 10",
        subset="all 120 images of the first ten classes",
    ),
    "caltech101": Pack(
        "caltech101.npz", True, "CC BY 4.0", "Li, Andreeto, Ranzato, Perona 2003, Caltech 101",
        source="DIR/101_ObjectCategories", options="--per-class 50",
        subset=f"at most 50 images of each class but Faces_easy and BACKGROUND_Google; {DRAWN}",
    ),
    free_photos.NAME: Pack(
        f"{free_photos.NAME}.npz", True, free_photos.LICENCES, free_photos.CITATIONS,
        source=f"{free_photos.NAME}:DIR",
        subset="all 19,366; without the clones of four repositories in DIR, the command says how to get them",
    ),
    free_emoji.NAME: Pack(
        f"{free_emoji.NAME}.npz", True, free_emoji.LICENCES, free_emoji.CITATIONS,
        source=f"{free_emoji.NAME}:DIR",
        subset="all 982 classes; without four packages of npm in DIR, the command says how to get them",
    ),
    "pacs_photo": Pack("pacs_photo.npz", True, UNSTATED, PACS, source="DIR/photo", **PACS_PART),
    "pacs_sketch": Pack("pacs_sketch.npz", True, UNSTATED, PACS, source="DIR/sketch", **PACS_PART),
    "tiny_imagenet200": Pack("tiny_imagenet200.npz", True, IMAGENET, TINY, **TINY_PART),
    "tiny_imagenet200_b": Pack(
        "tiny_imagenet200_b.npz", True, IMAGENET, TINY,
        **TINY_PART | {
            "options": "--size 64 --per-class 100 --seed 1",
            "subset": f"100 more images of each class; {DRAWN}, some of them those of tiny_imagenet200",
        },
    ),
    "fsdd_logmel": Pack(
        "fsdd_logmel.npz", False, "CC BY-SA 4.0", "Jackson et al., Free Spoken Digit Dataset",
        group="speaker",
        subset="spoken digits as log-mel spectrograms of 40 x 64; no command makes it",
    ),
}  # fmt: skip
