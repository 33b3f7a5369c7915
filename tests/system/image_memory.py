"""Hostile images read in a fresh process, as the operating system sees it; prints one JSON object.

Arguments: a folder to write files to and the start of the names in `hostileimages.HOSTILE` to read. The
result maps each name, and "largest" for an honest image, to [bytes that the process grew by at most, seconds
of processor time, what came out] of `load_image`, of the same with a box where the kind of pixel matters,
and of `check_image`.
"""

import json
import sys
import time
from pathlib import Path

import hostileavif
import hostileframes
import hostileheic
import hostileimages
import osview
from hostileimages import encoded, jpeg, largest, write
from PIL import Image

from tinytrain.base.errors import InputError
from tinytrain.episode.decode import check_image, load_image

HOSTILE = hostileimages.HOSTILE | hostileframes.HOSTILE | hostileavif.HOSTILE | hostileheic.HOSTILE
SIZE = 256
WAYS = {
    "load": lambda path: load_image(path, SIZE),
    "box": lambda path: load_image(path, SIZE, box=(0, 0, 10**9, 10**9)),
    "check": check_image,
}


def measured(read, path: Path) -> list:
    before, start = osview.settled(), time.process_time()
    try:
        read(path)
        outcome = "read"
    except InputError as error:
        outcome = error.code
    seconds = time.process_time() - start
    return [osview.status("VmHWM") - before, round(seconds, 3), outcome]


def main() -> None:
    path = Path(sys.argv[1]) / "image"
    image = Image.new("RGBA", (9, 9))
    others = (encoded(image, kind) for kind in ("PNG", "GIF", "WEBP", "TIFF", "AVIF"))
    for data in (*others, jpeg(900, 900), b"P5 1 1 9 1"):  # code is loaded
        path.write_bytes(data)
        load_image(path, SIZE)
    if sys.argv[2] == "heic":
        path.write_bytes(hostileheic.flat(0.01))
        load_image(path, SIZE)
    path.write_bytes(largest())
    results = {"largest": {"load": measured(WAYS["load"], path)}}
    for name, make in HOSTILE.items():
        if name.startswith(sys.argv[2]):
            write(path, make())
            results[name] = {
                way: measured(read, path) for way, read in WAYS.items() if way != "box" or " of kind " in name
            }
    print(json.dumps(results))


if __name__ == "__main__":
    main()
