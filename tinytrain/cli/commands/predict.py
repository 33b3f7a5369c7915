"""``tinytrain predict``: predict class and calibrated confidence of images."""

import os

from tinytrain.backbones.load import open_backbone
from tinytrain.base.console import confidence
from tinytrain.base.errors import InputError, visible
from tinytrain.cli.commands.common import add_backbone, add_json, open_delta, print_result, say

DESCRIPTION = "Predict the class of each image, with a calibrated confidence."
EXAMPLES = """\
  tinytrain predict mine.safetensors new.jpg --backbone net.safetensors
  tinytrain predict mine.safetensors *.jpg --backbone net.safetensors --reject 60% --json
  tinytrain predict state/ new.jpg --backbone net.safetensors
"""
NONE = "none of these"
DELTA_HELP = (
    "delta file, or folder of a store: uses its delta in use, and counts a start if that delta is on trial"
)


def add_arguments(parser) -> None:
    parser.add_argument("delta", metavar="DELTA", help=DELTA_HELP)
    parser.add_argument("images", metavar="IMAGE", nargs="+", help="image files")
    parser.add_argument(
        "--reject", type=confidence, metavar="P", help=f"answer {NONE!r} below this confidence, such as 60%%"
    )
    add_backbone(parser)
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.runtime.predict import Predictor

    network = open_backbone(arguments.backbone)
    # A mistake in the command line must not count as a start: no readable image, or the wrong backbone.
    start = os.path.isdir(arguments.delta) and any(map(_is_image, arguments.images))
    delta = open_delta(arguments.delta, start_of=network.digest if start else None)
    predictor = Predictor(network, delta)
    rows, failed = [], []
    for path in arguments.images:
        try:
            rows.append(_row(predictor, path, arguments.reject))
        except InputError as error:
            say(str(error))
            failed.append({"picture": path, **error.facts()})
    named = {"delta": arguments.delta, "backbone": delta.backbone_name}
    result = {**named, "pictures": rows, "failed": failed}
    shown = [(visible(r["picture"]), r["confidence"], visible(r["class"] or NONE)) for r in rows]
    width = max((len(image) for image, *_ in shown), default=0)
    lines = [f"{image:<{width}}  {top:6.1%}  {name}" for image, top, name in shown]
    if rows or arguments.json:
        print_result(result, "\n".join(lines), arguments.json)
    return InputError.exit_code if failed else 0


def _is_image(path: str) -> bool:
    from tinytrain.episode.decode import check_image

    try:
        check_image(path)
    except InputError:
        return False
    return True


def _row(predictor, path: str, reject: float | None) -> dict:
    from tinytrain.runtime.predict import one_image

    head, names = predictor.delta.head, predictor.delta.class_names
    verdict = head.verdict(predictor.embed(one_image(path))[0], reject)
    return {
        "picture": path,
        "class": None if verdict.rejected else names[verdict.label],
        "confidence": verdict.confidence,
        "probabilities": dict(zip(names, verdict.probabilities.tolist(), strict=True)),
    }
