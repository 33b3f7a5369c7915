"""``tinytrain eval``: accuracy of a delta on labelled images, and what it got wrong."""

import os
from functools import partial
from pathlib import Path

from tinytrain.base.errors import InputError, UsageError
from tinytrain.cli.commands import inputs
from tinytrain.cli.commands.common import (
    BackboneOfDelta,
    add_backbone_of_delta,
    add_delta,
    add_json,
    add_verbosity,
    open_delta,
    print_result,
    say,
)
from tinytrain.stream.verdicts import named_anyway

DESCRIPTION = (
    "Show the accuracy of a delta on images that it has not seen, the images that it got wrong, and the "
    "classes that it confuses. Classes are named as in the adaptation: a folder contains one folder of "
    "images per class, and the class of a single file is the name of its folder. Answers count as if no "
    "image were refused; how many are refused as none of the classes is shown beside the accuracy. For a "
    "delta of one class it is shown how many images are taken for it, and how many of --strangers are not."
)
EXAMPLES = """\
  tinytrain eval mine.safetensors held-out/
  tinytrain eval mine.safetensors monday/ tuesday/ --json
  tinytrain eval mine.safetensors 'held-out/*/2024-*.jpg' --verbose
  tinytrain eval state/ held-out/ --backbone net.safetensors
  tinytrain eval mine.safetensors held-out/ --strangers other-things/
  tinytrain eval normal.safetensors held-out/ --strangers defects/
"""


def add_arguments(parser) -> None:
    add_delta(parser)
    inputs.add_arguments(
        parser,
        "IMAGES",
        "folder that contains one folder of images per class, an image file, or a pattern of both",
    )
    parser.add_argument(
        "--strangers",
        metavar="DIR",
        help="folder of images of no class (searched with the folders inside it): show how many are refused",
    )
    add_backbone_of_delta(parser)
    add_verbosity(parser, "all wrong answers, and the matrix of more than 20 classes")
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets.folder import reason_kind
    from tinytrain.episode.input_facts import Skipped, duplicate_lines, skipped_lines
    from tinytrain.episode.kinds import kind_of
    from tinytrain.report.evaluation import Answer, evaluation, evaluation_text
    from tinytrain.runtime.predict import Predictor

    inputs.check_arguments(arguments)
    delta = open_delta(arguments.delta)
    predictor = Predictor(BackboneOfDelta(arguments.backbone).of(delta), delta)
    kind = kind_of(predictor.input.kind)
    labelled, skipped, duplicates = _labelled(arguments, delta.class_names, predictor.input)
    strangers, answers, refused = _strangers(arguments.strangers, skipped, kind), [], []
    with ProgressLine() as progress:
        for done, (name, true, images) in enumerate([*labelled, *strangers], 1):
            try:
                verdict = delta.head.verdict(predictor.embed(images())[0])
            except InputError as error:
                reason = error.message.removeprefix(f"{name!r} ")
                skipped.append(Skipped(name, reason, reason_kind(error)))
            else:
                if true is None:
                    refused.append(verdict)
                else:
                    how = (verdict.confidence, verdict.state, verdict.score, verdict.threshold)
                    answers.append(Answer(name, true, verdict.label, *how))
            progress(kind.plural, done, len(labelled) + len(strangers), None)
    warnings = [*map(kind.words, skipped_lines(skipped) + duplicate_lines(duplicates))]
    say(*warnings)
    if text := named_anyway(delta.head):
        say(kind.words(text))
    if not answers:
        raise InputError("too-few-images", f"{inputs.all_given(arguments)}: 0 usable {kind.plural}; add some")
    if arguments.strangers is not None and not refused:
        raise InputError("too-few-images", f"{arguments.strangers}: 0 usable {kind.plural}; add some")
    result = evaluation(delta.class_names, answers, refused)
    text = kind.words(evaluation_text(result, arguments.verbose))
    facts = {"skipped": [f.to_json() for f in skipped], "duplicates": [f.to_json() for f in duplicates]}
    facts |= {"warnings": warnings, "tells_strangers": delta.head.tells_strangers}
    print_result({"delta": arguments.delta, **result, **facts}, text, arguments.json)


def _labelled(arguments, classes, spec) -> tuple[list[tuple], list, list]:
    """(name, index of the class, function that returns it as `Images`) of every image; skipped files; copies.

    `spec` is what the network takes. Raises InputError ``unknown-class`` or what `folder_dataset` raises.
    """
    from tinytrain.datasets import folder_dataset
    from tinytrain.datasets.sentences import is_table
    from tinytrain.episode.kinds import kind_of

    found, skipped, duplicates, unknown = [], [], [], {}
    for path in inputs.given(arguments):
        if path == inputs.STDIN:
            raise UsageError("usage", "an image from standard input has no class; give a file or a folder")
        if is_table(path) or (os.path.isdir(path) and not _is_class(path, classes)):
            dataset = folder_dataset(path)
            dataset.images([[0]]).check_kind(spec)
            skipped += dataset.provenance.skipped
            duplicates += dataset.provenance.duplicates
            rows = [
                (os.path.join(path, dataset.names[i]), dataset.class_names[c], partial(dataset.images, [[i]]))
                for i, c in enumerate(dataset.labels.tolist())
            ]
        else:
            given = inputs.inputs([path], skipped, kind_of(spec.kind))
            rows = [(image.name, _class_of(image.path), image.images) for image in given]
            for name, class_name, _ in rows:
                if class_name not in classes and not os.path.lexists(name):
                    raise InputError("file-missing", f"{name!r} is not a file; check the path")
        for name, class_name, images in rows:
            if class_name not in classes:
                unknown[class_name] = name
            else:
                found.append((name, classes.index(class_name), images))
    if unknown:
        raise InputError(
            "unknown-class",
            f"{arguments.delta} does not know {', '.join(map(repr, unknown))}; its classes are "
            f"{', '.join(map(repr, classes))}; rename the folders, add classes to the delta, or give "
            "images of no class to --strangers",
        )
    once = {os.path.abspath(name): (name, *rest) for name, *rest in reversed(found)}
    return (
        list(reversed(once.values())),
        list(dict.fromkeys(skipped)),
        list(dict.fromkeys(duplicates)),
    )  # an image that is given twice counts once


def _strangers(folder: str | None, skipped: list, kind) -> list[tuple]:
    """(name, None, function that returns it as `Images`) of every image in `folder`; see `_labelled`.

    Raises InputError ``file-missing`` if it is no folder.
    """
    if folder is None:
        return []
    if not os.path.isdir(folder):
        raise InputError("file-missing", f"{folder!r} is not a folder; --strangers takes one with images")
    return [(image.name, None, image.images) for image in inputs.inputs([folder], skipped, kind)]


def _is_class(folder: str, classes) -> bool:
    """Whether `folder` holds the images of one class: it is called like one, and has no folders."""
    with os.scandir(folder) as entries:
        return _class_of(os.path.join(folder, "image")) in classes and not any(e.is_dir() for e in entries)


def _class_of(path: str) -> str:
    """The class of an image: the name of its folder, as `folder_dataset` names classes."""
    from tinytrain.datasets.folder_layout import class_name

    return class_name(Path(path).resolve().parent)
