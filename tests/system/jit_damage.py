"""What processes with damaged kernels compute: ``python jit_damage.py CACHE SCRATCH < DAMAGES``.

CACHE is a cache folder as a run left it, DAMAGES a JSON list of ``[file inside, "cut", length]`` or
``[file inside, "flip", bit]``. Each damage meets a process of its own, forked after numba was imported and
before any kernel was, which runs two kernels. Prints one JSON object per line: digest of the result, and what
was said.
"""

import hashlib
import json
import logging
import os
import shutil
import sys
from pathlib import Path

import jit_run
import numba  # noqa: F401 - so that forks need not


class Said(logging.Handler):
    """Keeps the lines instead of printing them."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def damage(path: Path, kind: str, at: int) -> None:
    data = bytearray(path.read_bytes())
    if kind == "cut":
        del data[at:]
    else:
        data[at // 8] ^= 1 << at % 8
    path.write_bytes(data)


def found() -> dict:
    """Result of a process that finds a damaged cache."""
    said = Said()
    logging.getLogger("tinytrain").addHandler(said)
    digest = hashlib.sha256(b"".join(a.tobytes() for a in jit_run.few())).hexdigest()
    return {"digest": digest, "said": said.lines}


def main(cache: str, scratch: str) -> None:
    os.environ["TINYTRAIN_CACHE"] = scratch
    for name, kind, at in json.load(sys.stdin):
        shutil.copytree(cache, scratch)
        damage(Path(scratch) / name, kind, at)
        if not (child := os.fork()):
            print(json.dumps(found()), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print(json.dumps({"digest": "the process died", "said": []}), flush=True)
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main(*sys.argv[1:])
