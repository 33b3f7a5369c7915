"""The nine target sets of the paper, in the layouts that they are downloaded in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinytrain.datasets.dataset import Dataset
from tinytrain.datasets.meta_dataset import drawings, photographs


@dataclass(frozen=True, kw_only=True)
class Download:
    """Where the `files` of a set come from; `size` is roughly what there is to fetch, for people."""

    address: str
    files: tuple[str, ...]
    size: str
    licence: str
    citation: str


@dataclass(frozen=True)
class Target:
    """What is known about a set before it is there.

    `meta_name` is Meta-Dataset's name. `folder` is what the files unpack to or what Meta-Dataset calls their
    folder; `mark` are patterns of which the root of the set holds one. `test` counts the classes and images
    that are tested on, as in Meta-Dataset's own specification of the set.
    """

    meta_name: str
    listing: Callable[[Path], Dataset]
    folder: str
    mark: tuple[str, ...]
    test: tuple[int, int]
    download: Download
    may_flip: bool = True
    alphabets: bool = False


OXFORD = "https://www.robots.ox.ac.uk/~vgg/data"
GBIF = "https://labs.gbif.org/fgvcx/2018"
RESEARCH = "non-commercial research"

TARGETS = {
    "omniglot": Target(
        "omniglot", drawings.omniglot, "omniglot", ("images_evaluation",), (659, 13_180),
        Download(
            address="https://github.com/brendenlake/omniglot/tree/master/python",
            files=("images_evaluation.zip",),
            size="6 MB", licence="MIT",
            citation="Lake, Salakhutdinov, Tenenbaum 2015",
        ),
        may_flip=False, alphabets=True,
    ),
    "gtsrb": Target(
        "traffic_sign", drawings.traffic_signs, "GTSRB", ("Final_Training/Images",), (43, 39_209),
        Download(
            address="https://benchmark.ini.rub.de/gtsrb_dataset.html",
            files=("GTSRB_Final_Training_Images.zip",),
            size="276 MB", licence="not stated by the source; research use",
            citation="Stallkamp et al. 2012, Man vs. computer",
        ),
        may_flip=False,
    ),
    "aircraft": Target(
        "aircraft", photographs.aircraft, "fgvc-aircraft-2013b", ("data/images_box.txt",), (15, 1_500),
        Download(
            address=f"{OXFORD}/fgvc-aircraft",
            files=("fgvc-aircraft-2013b.tar.gz",),
            size="2.75 GB", licence=RESEARCH,
            citation="Maji et al. 2013, Fine-grained visual classification of aircraft",
        ),
    ),
    "flowers": Target(
        "vgg_flower", photographs.flowers, "vgg_flower", ("imagelabels.mat", "jpg/image_00001.jpg"),
        (16, 1_425),
        Download(
            address=f"{OXFORD}/flowers/102",
            files=("102flowers.tgz", "imagelabels.mat"),
            size="345 MB", licence="not stated by the source; research use",
            citation="Nilsback, Zisserman 2008",
        ),
    ),
    "cub": Target(
        "cu_birds", photographs.birds, "CUB_200_2011", ("images.txt",), (30, 1_770),
        Download(
            address="https://www.vision.caltech.edu/datasets/cub_200_2011",
            files=("CUB_200_2011.tgz",),
            size="1.15 GB", licence=f"{RESEARCH} and education",
            citation="Wah et al. 2011, The Caltech-UCSD Birds-200-2011 dataset",
        ),
    ),
    "dtd": Target(
        "dtd", photographs.textures, "dtd", ("images/banded", "labels/labels_joint_anno.txt"), (7, 840),
        Download(
            address=f"{OXFORD}/dtd",
            files=("dtd-r1.0.1.tar.gz",),
            size="625 MB", licence="research",
            citation="Cimpoi et al. 2014, Describing textures in the wild",
        ),
    ),
    "quickdraw": Target(
        "quickdraw", drawings.quickdraw, "quickdraw", ("*.npy", "*.ndjson"), (52, 7_710_295),
        Download(
            address="https://github.com/googlecreativelab/quickdraw-dataset",
            files=("gs://quickdraw_dataset/full/numpy_bitmap/*.npy",),
            size="39 GB; the test classes 6 GB", licence="CC BY 4.0",
            citation="Jongejan et al. 2016, The Quick, Draw! dataset",
        ),
    ),
    "fungi": Target(
        "fungi", photographs.fungi, "fungi", ("train.json",), (200, 13_116),
        Download(
            address="https://github.com/visipedia/fgvcx_fungi_comp",
            files=(f"{GBIF}/fungi_train_val.tgz", f"{GBIF}/train_val_annotations.tgz"),
            size="13 GB", licence=f"{RESEARCH} and education; not to be passed on",
            citation="Schroeder, Cui 2018, FGVCx fungi",
        ),
    ),
    "mscoco": Target(
        "mscoco", photographs.objects, "mscoco", ("train2017", "instances_train2017.json"), (40, 346_980),
        Download(
            address="https://cocodataset.org/#download",
            files=("train2017.zip", "annotations_trainval2017.zip"),
            size="19.5 GB", licence="annotations CC BY 4.0; images: terms of Flickr",
            citation="Lin et al. 2014, Microsoft COCO",
        ),
    ),
}  # fmt: skip
