"""``tinytrain eval``: accuracy and confusion matrix of a delta on a folder of images."""

from tinytrain.backbones.load import open_backbone
from tinytrain.base.errors import InputError, visible
from tinytrain.cli.commands.common import (
    add_backbone,
    add_json,
    hold,
    open_delta,
    print_result,
    say,
    skipped_files,
)

DESCRIPTION = (
    "Show accuracy and confusion matrix of a delta on images that it has not seen: one folder per class, "
    "with the class names of the adaptation."
)
EXAMPLES = """\
  tinytrain eval mine.safetensors held-out/ --backbone net.safetensors
  tinytrain eval mine.safetensors held-out/ --backbone net.safetensors --json
  tinytrain eval state/ held-out/ --backbone net.safetensors
"""
WIDTHS = (12, 40)  # least and most letters of a class name in the table


def add_arguments(parser) -> None:
    parser.add_argument(
        "delta", metavar="DELTA", help="delta file, or folder of a store (uses its delta in use)"
    )
    parser.add_argument("folder", metavar="DIR", help="folder that contains one folder of images per class")
    add_backbone(parser)
    add_json(parser)


def run(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import folder_dataset
    from tinytrain.runtime.predict import Predictor

    delta = open_delta(arguments.delta)
    predictor = Predictor(open_backbone(arguments.backbone), delta)
    dataset = folder_dataset(arguments.folder)
    if unknown := [name for name in dataset.class_names if name not in delta.class_names]:
        raise InputError(
            "unknown-class",
            f"{arguments.delta} does not know {', '.join(map(repr, unknown))}; its classes are "
            f"{', '.join(map(repr, delta.class_names))}; rename the folders, or add classes to the delta",
        )
    with ProgressLine() as progress:
        images, broken = hold(dataset.images(dataset.by_class), predictor.input.shape, progress)
    warnings = [*skipped_files(dataset), *(f"skipped {reason}" for reason in broken.values())]
    for line in warnings:
        say(line)
    if not len(images):
        raise InputError("no-pictures", f"{arguments.folder} has 0 usable images; add some")
    result = _facts(delta.class_names, dataset.class_names, images.labels, predictor.logits(images))
    print_result({"delta": arguments.delta, **result, "warnings": warnings}, _text(result), arguments.json)
    return 0


def _facts(names, folder_names, labels, logits) -> dict:
    matrix = [[0] * len(names) for _ in names]
    true = [names.index(folder_names[label]) for label in labels.tolist()]
    for row, column in zip(true, logits.argmax(axis=1).tolist(), strict=True):
        matrix[row][column] += 1
    right = sum(matrix[c][c] for c in range(len(names)))
    per_class = {n: matrix[c][c] / sum(matrix[c]) for c, n in enumerate(names) if sum(matrix[c])}
    return {
        "accuracy": right / len(true),
        "n": len(true),
        "per_class": per_class,
        "classes": list(names),
        "confusion": matrix,
    }


def _text(result: dict) -> str:
    """The confusion matrix: rows are true classes, columns are predictions, numbered like the rows."""
    right = round(result["accuracy"] * result["n"])
    least, most = WIDTHS
    classes = [visible(name) for name in result["classes"]]
    width = min(most, max(least, *map(len, classes)))
    lines = [f"accuracy {result['accuracy']:.1%} ({right} of {result['n']} images)", ""]
    numbers = range(1, len(result["classes"]) + 1)
    lines.append(" " * (width + 5) + "".join(f"{k:>5}" for k in numbers) + "   right")
    for k, name, row in zip(numbers, result["classes"], result["confusion"], strict=True):
        accuracy = f"{result['per_class'][name]:>8.1%}" if name in result["per_class"] else f"{'-':>8}"
        cells = "".join(f"{count or '.':>5}" for count in row)
        lines.append(f"{k:>3}  {classes[k - 1][:width]:<{width}}{cells}{accuracy}")
    return "\n".join(lines)
