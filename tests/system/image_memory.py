"""Hostile images read in a fresh process, as the operating system sees it; prints one JSON object.

Arguments: a folder to write files to and the start of the names in `hostileimages.HOSTILE` to read. The
result maps each name, and "largest" for an honest image, to [bytes that the process grew by at most, bytes
of the process that decodes for it at most, seconds of processor time of both, what came out] of
`load_image`, of the same with a box where the kind of pixel matters, and of `check_image`.
"""

import json
import os
import re
import resource
import sys
import time
from pathlib import Path

import hostileframes
import hostileimages
import osview
from hostileimages import encoded, jpeg, largest, write
from PIL import Image

from tinytrain.base import confined
from tinytrain.base.errors import InputError
from tinytrain.episode.decode import check_image, load_image

HOSTILE = hostileimages.HOSTILE | hostileframes.HOSTILE
confined.SECONDS = 3  # for endless loops, which cost as much
SIZE = 256
WAYS = {
    "load": lambda path: load_image(path, SIZE),
    "box": lambda path: load_image(path, SIZE, box=(0, 0, 10**9, 10**9)),
    "check": check_image,
}


def seconds() -> float:
    """Processor time of this process and of the one that decodes for it."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + (child("seconds") or 0)


def child(what: str) -> float | None:
    """Of the process that decodes: its highest mark of memory in bytes, or its processor time."""
    if confined._child is None:
        return None
    folder = Path("/proc") / str(confined._child.process.pid)
    if what == "seconds":
        fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return int(re.search(r"VmHWM:\s+(\d+)", (folder / "status").read_text())[1]) * 1024


def measured(read, path: Path) -> list:
    confined.end()
    before, start = osview.settled(), seconds()
    try:
        read(path)
        outcome = "read"
    except InputError as error:
        outcome = error.code
    return [osview.status("VmHWM") - before, child("memory"), round(seconds() - start, 3), outcome]


def main() -> None:
    path = Path(sys.argv[1]) / "image"
    image = Image.new("RGBA", (9, 9))
    others = (encoded(image, kind) for kind in ("PNG", "GIF"))
    for data in (*others, jpeg(900, 900)):  # code is loaded
        path.write_bytes(data)
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
