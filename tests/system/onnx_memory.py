"""Hostile ONNX files imported in a fresh process, as the operating system sees it; prints one JSON object.

Argument: a folder to write files to. Maps each name of the tables of `hostilemodels` to [bytes that the
process grew by at most, seconds of processor time, code of the error or None]. Networks are compared with
onnxruntime where it is installed, as `tinytrain import` does.
"""

import contextlib
import json
import sys
import time
from pathlib import Path

import osview
from hostilemodels import HARMLESS, HOSTILE, convolutions

from tinytrain.backbones.onnx.check import SkippedError, compare
from tinytrain.backbones.onnx.convert import import_onnx
from tinytrain.base.errors import InputError


def imported(path: Path) -> None:
    with contextlib.suppress(SkippedError):
        compare(import_onnx(path))


def measured(path: Path) -> list:
    before, start = osview.settled(), time.process_time()
    try:
        imported(path)
        code = None
    except InputError as error:
        code = error.code
    seconds = time.process_time() - start
    return [osview.status("VmHWM") - before, round(seconds, 3), code]


def main() -> None:
    path = Path(sys.argv[1]) / "model.onnx"
    path.write_bytes(convolutions(1, 2))
    imported(path)  # code is loaded
    results = {}
    for name, make in (HOSTILE | HARMLESS).items():
        path.write_bytes(make())
        results[name] = measured(path)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
