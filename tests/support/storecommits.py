"""A process that commits to a store until it is killed: ``python storecommits.py FOLDER FIRST``.

After each commit that returned it prints its number. Imports nothing heavy, so that it starts at once.
"""

import itertools
import random
import sys

from tinytrain.store.folder import Folder
from tinytrain.store.slots import Slots


def payload(number: int) -> bytes:
    """The delta of commit `number`: 1 kB to 200 kB."""
    draw = random.Random(number)
    return draw.randbytes(draw.choice((1_000, 20_000, 200_000)))


def main(folder: str, first: int) -> None:
    slots = Slots(Folder(folder))
    for number in itertools.count(first):
        slots.commit(payload(number))
        print(number, flush=True)
        slots.confirm()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
