"""The images of `job.py`, drawn once and read on every machine: ``photos.py FOLDER PER_CLASS``."""

import sys

from tinytrain.datasets.generated.leaves import leaves
from tinytrain.datasets.preview import export

WAY, SIZE = 5, 128


def main(folder: str, per_class: int) -> int:
    """Write `per_class` images of each of WAY kinds of leaves as a folder per class; how many they are."""
    return export(leaves(range(WAY), per_class), folder, per_class, SIZE, range(WAY), seed=0)


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2])), "images drawn")
