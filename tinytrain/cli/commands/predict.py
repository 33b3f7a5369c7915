"""``tinytrain predict``: predict class and calibrated confidence of images."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from tinytrain.base.answer import with_old_keys
from tinytrain.base.console import confidence
from tinytrain.base.errors import InputError, visible
from tinytrain.cli.commands import inputs
from tinytrain.cli.commands.common import (
    BackboneOfDelta,
    add_backbone_of_delta,
    add_delta,
    add_json,
    add_verbosity,
    kind_in_use,
    open_delta,
    print_line,
    print_result,
    say,
)
from tinytrain.stream.verdicts import NONE, named_anyway, normal_facts, verdict_in_words

DESCRIPTION = (
    "Predict the class of each image, with a calibrated confidence. An image that is unlike those of the "
    "adaptation is none of the classes: its verdict is 'unknown' instead of 'identified' or, if the class is "
    "more likely wrong than right, 'uncertain'. About one in ten images of the classes is refused, too; "
    "--json names the best guess of every image. With a delta of one class (adapt --head oselm-ae) an image "
    "is of that class or not: the score says how unlike it is, and above a threshold it is not. If an image "
    "cannot be read, the others are predicted all the same, and the exit code is 3."
)
EXAMPLES = """\
  tinytrain predict mine.safetensors new.jpg
  tinytrain predict mine.safetensors photos/ more/*.jpg --reject 60% --json
  find . -name '*.jpg' -print0 | tinytrain predict mine.safetensors --files-from - --null
  curl -s http://camera/still.jpg | tinytrain predict state/ -
"""
ALSO = 4  # further classes that --verbose names
LEAST = 0.0005  # of their probability: what is shown as 0.1 %
WIDEST = 60  # letters of a name of an image in the first column


def add_arguments(parser) -> None:
    add_delta(parser, "; predicting with a store counts as a start")
    inputs.add_arguments(parser)
    parser.add_argument(
        "--reject",
        type=confidence,
        metavar="P",
        help=f"answer {NONE!r} also if the confidence is below P, such as 60%%; default: only to images that "
        "are unlike those of the adaptation",
    )
    add_backbone_of_delta(parser)
    add_verbosity(parser, f"the next {ALSO} likely classes")
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.episode.input_facts import skipped_lines
    from tinytrain.episode.kinds import kind_of
    from tinytrain.runtime.predict import Predictor

    inputs.check_arguments(arguments)
    skipped, failed, rows, answered = [], [], [], 0
    delta, network, images = _opened(arguments, skipped)
    endless = arguments.files_from is not None
    names = arguments.images if endless else [image.name for image in images]
    predictor, kind = Predictor(network, delta), kind_of(network.input.kind)
    width = min(WIDEST, max(map(len, map(visible, names)), default=0))  # of the first column
    with ProgressLine() as progress:
        for done, image in enumerate(images, 1):
            try:
                row = _row(predictor, image, arguments.reject)
            except InputError as error:
                progress.clear()
                say(str(error), error=True)
                failed.append(with_old_keys({"image": image.name, **error.facts()}))
                continue
            answered += 1
            if arguments.json:
                rows.append(row)
            else:
                progress.clear()
                width = max(width, min(WIDEST, len(visible(row["image"]))))
                print_line(_line(row, width, arguments))
            if arguments.json or not sys.stdout.isatty():  # otherwise the lines show the progress
                progress(kind.plural, done, done + 1 if endless else len(names), None)
    say(*map(kind.words, skipped_lines(skipped)))
    if text := named_anyway(delta.head):
        say(kind.words(text))
    if not answered and not failed:
        raise InputError("too-few-images", f"{inputs.all_given(arguments)} holds 0 {kind.plural}; add some")
    if arguments.json:
        left_out = [file.to_json() for file in skipped]
        named = {"delta": arguments.delta, "backbone": delta.backbone_name}
        named["tells_strangers"] = delta.head.tells_strangers
        found = {**named, "images": rows, "failed": failed, "skipped": left_out}
        print_result(with_old_keys(found), "", as_json=True)
    return InputError.exit_code if failed else 0


def _opened(arguments, skipped: list):
    """The delta, its network, and the images, which are a list unless they arrive one by one.

    With a store this counts as a start, but not if the command line is mistaken: no image can be read, or no
    network is here that the deltas are for.
    """
    from tinytrain.episode.kinds import kind_of

    backbone, start = BackboneOfDelta(arguments.backbone), None
    if os.path.isdir(arguments.delta):
        some_image, images = _readable(_images(arguments, skipped, kind_in_use(arguments.delta, backbone)))
        start = backbone.is_here if some_image else None
        delta = open_delta(arguments.delta, start_of=start)
        return delta, backbone.of(delta), images
    delta = open_delta(arguments.delta)
    network = backbone.of(delta)
    return delta, network, _images(arguments, skipped, kind_of(network.input.kind))


def _images(arguments, skipped: list, kind) -> Iterable[inputs.Input]:
    images = inputs.inputs(inputs.given(arguments), skipped, kind)
    return images if arguments.files_from is not None else list(images)


def _readable(images: Iterable[inputs.Input]) -> tuple[bool, Iterable[inputs.Input]]:
    """Whether one of the images can be read, and all of them again. Stops at the first that can."""
    rest, seen = iter(images), []
    for image in rest:
        seen.append(image)
        with suppress(InputError):
            image.check()
            return True, images if isinstance(images, list) else chain(seen, rest)
    return False, seen


def _row(predictor, image: inputs.Input, reject: float | None) -> dict:
    head, names = predictor.delta.head, predictor.delta.class_names
    verdict = head.verdict(predictor.embed(image.images())[0], reject)
    facts = {
        "image": image.name,
        "class": None if verdict.refused else names[verdict.label],
        "best_guess": names[verdict.label],
        "verdict": verdict.state,
        "confidence": verdict.confidence,
        **normal_facts(verdict),
        "probabilities": dict(zip(names, verdict.probabilities.tolist(), strict=True)),
    }
    return with_old_keys(facts)


def _line(row: dict, width: int, arguments) -> str:
    """Image, confidence and class in columns, the first as wide as the names that are known."""
    answer = verdict_in_words(row, arguments.reject)
    return f"{visible(row['image']):<{width}}  {answer}{_also(row) if arguments.verbose else ''}"


def _also(row: dict) -> str:
    """The classes that are likely after the first."""
    likely = sorted(row["probabilities"].items(), key=lambda item: -item[1])[1 : 1 + ALSO]
    named = [f"{visible(name)} {p:.1%}" for name, p in likely if p >= LEAST]
    return f"; then {', '.join(named)}" if named else ""
