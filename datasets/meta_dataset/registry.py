"""The nine target sets of the paper, in the layouts that they are downloaded in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinytrain.datasets.meta_dataset import drawings, photographs
from tinytrain.datasets.meta_dataset.listing import Listing


@dataclass(frozen=True)
class Target:
    """What is known about a set before it is there.

    `meta_name` is Meta-Dataset's name. `files` are the downloads and `folder` is what they unpack to or what
    Meta-Dataset calls their folder; `mark` are patterns of which the root of the set holds one. `test` counts
    the classes and images that are tested on, as in Meta-Dataset's own specification of the set. `size` is
    roughly what there is to download; nothing depends on it.
    """

    meta_name: str
    listing: Callable[[Path], Listing]
    folder: str
    mark: tuple[str, ...]
    address: str
    files: tuple[str, ...]
    size: str
    licence: str
    citation: str
    test: tuple[int, int]
    may_flip: bool = True
    alphabets: bool = False


OXFORD = "https://www.robots.ox.ac.uk/~vgg/data"
GBIF = "https://labs.gbif.org/fgvcx/2018"
RESEARCH = "non-commercial research"

TARGETS = {
    "omniglot": Target(
        "omniglot", drawings.omniglot, "omniglot", ("images_evaluation",),
        "https://github.com/brendenlake/omniglot/tree/master/python", ("images_evaluation.zip",),
        "6 MB", "MIT", "Lake, Salakhutdinov, Tenenbaum 2015", (659, 13_180), False, True,
    ),
    "gtsrb": Target(
        "traffic_sign", drawings.traffic_signs, "GTSRB", ("Final_Training/Images",),
        "https://benchmark.ini.rub.de/gtsrb_dataset.html", ("GTSRB_Final_Training_Images.zip",),
        "276 MB", "not stated by the source; research use", "Stallkamp et al. 2012, Man vs. computer",
        (43, 39_209), False,
    ),
    "aircraft": Target(
        "aircraft", photographs.aircraft, "fgvc-aircraft-2013b", ("data/images_box.txt",),
        f"{OXFORD}/fgvc-aircraft", ("fgvc-aircraft-2013b.tar.gz",),
        "2.75 GB", RESEARCH, "Maji et al. 2013, Fine-grained visual classification of aircraft", (15, 1_500),
    ),
    "flowers": Target(
        "vgg_flower", photographs.flowers, "vgg_flower", ("imagelabels.mat", "jpg/image_00001.jpg"),
        f"{OXFORD}/flowers/102", ("102flowers.tgz", "imagelabels.mat"),
        "345 MB", "not stated by the source; research use", "Nilsback, Zisserman 2008", (16, 1_425),
    ),
    "cub": Target(
        "cu_birds", photographs.birds, "CUB_200_2011", ("images.txt",),
        "https://www.vision.caltech.edu/datasets/cub_200_2011", ("CUB_200_2011.tgz",),
        "1.15 GB", f"{RESEARCH} and education", "Wah et al. 2011, The Caltech-UCSD Birds-200-2011 dataset",
        (30, 1_770),
    ),
    "dtd": Target(
        "dtd", photographs.textures, "dtd", ("images/banded", "labels/labels_joint_anno.txt"),
        f"{OXFORD}/dtd", ("dtd-r1.0.1.tar.gz",),
        "625 MB", "research", "Cimpoi et al. 2014, Describing textures in the wild", (7, 840),
    ),
    "quickdraw": Target(
        "quickdraw", drawings.quickdraw, "quickdraw", ("*.npy", "*.ndjson"),
        "https://github.com/googlecreativelab/quickdraw-dataset", ("gs://quickdraw_dataset/full/numpy_bitmap/*.npy",),
        "39 GB; the test classes 6 GB", "CC BY 4.0", "Jongejan et al. 2016, The Quick, Draw! dataset",
        (52, 7_710_295),
    ),
    "fungi": Target(
        "fungi", photographs.fungi, "fungi", ("train.json",),
        "https://github.com/visipedia/fgvcx_fungi_comp",
        (f"{GBIF}/fungi_train_val.tgz", f"{GBIF}/train_val_annotations.tgz"),
        "13 GB", f"{RESEARCH} and education; not to be passed on", "Schroeder, Cui 2018, FGVCx fungi",
        (200, 13_116),
    ),
    "mscoco": Target(
        "mscoco", photographs.objects, "mscoco", ("train2017", "instances_train2017.json"),
        "https://cocodataset.org/#download", ("train2017.zip", "annotations_trainval2017.zip"),
        "19.5 GB", "annotations CC BY 4.0; images: terms of Flickr", "Lin et al. 2014, Microsoft COCO",
        (40, 346_980),
    ),
}  # fmt: skip
