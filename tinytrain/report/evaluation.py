"""What a delta answered for labelled images: accuracy, what it got wrong, what it confuses. JSON and text."""

from collections.abc import Sequence
from dataclasses import dataclass

from tinytrain.base.answer import with_old_keys
from tinytrain.base.errors import visible
from tinytrain.base.statistics import wilson_interval
from tinytrain.heads.head import IDENTIFIED, STATES, UNKNOWN, HeadVerdict

NAMED = 10  # wrong images that the text names
PAIRS = 3  # confused pairs of classes that it names
MATRIX_CLASSES = 20  # with more of them the matrix needs --verbose
WIDTHS = (12, 40)  # least and most letters of a class name in the matrix


@dataclass(frozen=True)
class Answer:
    """An image, the index of its class, the class answered with the confidence in it, and the verdict.

    `score` and `threshold` are those of `heads.head.HeadVerdict`.
    """

    image: str
    true: int
    label: int
    confidence: float
    verdict: str = IDENTIFIED
    score: float | None = None
    threshold: float | None = None


def evaluation(
    names: Sequence[str], answers: Sequence[Answer], strangers: Sequence[HeadVerdict] = ()
) -> dict:
    """The answers, at least one, as JSON values; `names` are the classes.

    `strangers` are the verdicts on images of no class. `verdicts` and `refused` are fractions
    of the images of the classes; `accuracy` counts the class that is the best guess of a refused image.

    `confusion` has a row for each true class, and a column for each answer. `wrong` begins with the most
    confident mistake, `confused` with the most frequent one.
    """
    matrix = [[0] * len(names) for _ in names]
    for answer in answers:
        matrix[answer.true][answer.label] += 1
    right, verdicts = sum(matrix[c][c] for c in range(len(names))), [a.verdict for a in answers]
    wrong = sorted((a for a in answers if a.label != a.true), key=lambda a: -a.confidence)
    confused = [
        {"class": name, "answer": other, "count": count, "n": sum(row)}
        for name, row in zip(names, matrix, strict=True)
        for other, count in zip(names, row, strict=True)
        if other != name and count
    ]
    return {
        "accuracy": right / len(answers),
        "interval": list(wilson_interval(right, len(answers))),
        "n": len(answers),
        "verdicts": {state: verdicts.count(state) / len(answers) for state in STATES},
        "refused": verdicts.count(UNKNOWN) / len(answers),
        "strangers": _strangers(answers, strangers) if strangers else None,
        "per_class": {n: matrix[c][c] / sum(matrix[c]) for c, n in enumerate(names) if sum(matrix[c])},
        "classes": list(names),
        "confusion": matrix,
        "confused": sorted(confused, key=lambda row: -row["count"]),
        "wrong": [_wrong_answer(names, a) for a in wrong],
    }


def _wrong_answer(names: Sequence[str], a: Answer) -> dict:
    row = {"image": a.image, "class": names[a.true], "answer": names[a.label], "confidence": a.confidence}
    return with_old_keys(row)


def _strangers(answers: Sequence[Answer], strangers: Sequence[HeadVerdict]) -> dict:
    """How many there are, which fraction is refused, and with scores the area under their ROC curve."""
    found = {"n": len(strangers), "refused": sum(v.refused for v in strangers) / len(strangers)}
    if strangers[0].score is None:
        return found
    scores = [[x.score for x in side] for side in (strangers, answers)]
    above = sum((s > own) + (s == own) / 2 for s in scores[0] for own in scores[1])
    return {**found, "area": above / (len(strangers) * len(answers))}


def evaluation_text(result: dict, verbose: bool = False) -> str:
    """`evaluation` for people: the first lines say most; everything is in it if `verbose`."""
    if len(result["classes"]) == 1:
        return _normal_text(result)
    n, (low, high) = result["n"], result["interval"]
    right = n - len(result["wrong"])
    first = (
        f"accuracy {result['accuracy']:.1%} ({right} of {n} images), 95 % interval {low:.1%} to {high:.1%}, "
        "if adapt has seen none of them"
    )
    matrix = len(result["classes"]) <= MATRIX_CLASSES or verbose
    parts = [
        [first, *_refused(result), *_confused(result)],
        _wrong(result, verbose),
        _matrix(result) if matrix else _classes(result),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _normal_text(result: dict) -> str:
    """Of one class: how many of its images are taken for it, and how many others are not."""
    n, strangers, name = result["n"], result["strangers"], visible(result["classes"][0])
    known = n - round(result["refused"] * n)
    lines = [
        f"{known / n:.1%} of {name} are taken for it ({known} of {n} images), if adapt has seen none of them"
    ]
    if not strangers:
        lines.append("images that are not normal, in a folder given to --strangers, would show the rest")
        return "\n".join(lines)
    found = round(strangers["refused"] * strangers["n"])
    lines.append(f"{strangers['refused']:.1%} of the strangers are found ({found} of {strangers['n']})")
    if "area" in strangers:
        lines.append(f"area under the ROC curve {strangers['area']:.3f}, whatever the threshold")
    return "\n".join(lines)


def _refused(result: dict) -> list[str]:
    """What is taken for none of the classes."""
    refused, n, strangers = result["refused"], result["n"], result["strangers"]
    lines = [f"refused as none of the classes: {refused:.1%} ({round(refused * n)} of {n} images)"]
    if strangers:
        found = round(strangers["refused"] * strangers["n"])
        lines[0] += f", and {strangers['refused']:.1%} of the strangers ({found} of {strangers['n']})"
    return lines if refused or strangers else []


def _confused(result: dict) -> list[str]:
    """A sentence for each of the most frequent mistakes."""
    pairs = result["confused"]
    lines = [
        f"{row['count']} of {row['n']} images of {visible(row['class'])} taken for {visible(row['answer'])}"
        for row in pairs[:PAIRS]
    ]
    return (
        [*lines, f"{len(pairs) - PAIRS} more pairs of classes are confused"] if len(pairs) > PAIRS else lines
    )


def _wrong(result: dict, verbose: bool) -> list[str]:
    """The images with a wrong answer, most confident first."""
    rows = result["wrong"]
    if not rows:
        return []
    named = rows if verbose else rows[:NAMED]
    width = max(len(visible(row["image"])) for row in named)
    lines = ["wrong answers, most confident first"] + [
        f"  {visible(row['image']):<{width}}  {row['confidence']:>6.1%}  {visible(row['answer'])}"
        f", is {visible(row['class'])}"
        for row in named
    ]
    return [*lines, f"  {len(rows) - NAMED} more; --verbose names all"] if len(rows) > len(named) else lines


def _matrix(result: dict) -> list[str]:
    """The confusion matrix: rows are true classes, columns are answers, numbered like the rows."""
    classes = [visible(name) for name in result["classes"]]
    least, most = WIDTHS
    width = min(most, max(least, *map(len, classes)))
    numbers = range(1, len(classes) + 1)
    lines = [
        "answers by class (rows: true class)",
        " " * (width + 5) + "".join(f"{k:>5}" for k in numbers) + "   right",
    ]
    for k, name, row in zip(numbers, result["classes"], result["confusion"], strict=True):
        accuracy = f"{result['per_class'][name]:>8.1%}" if name in result["per_class"] else f"{'-':>8}"
        cells = "".join(f"{count or '.':>5}" for count in row)
        lines.append(f"{k:>3}  {classes[k - 1][:width]:<{width}}{cells}{accuracy}")
    return lines


def _classes(result: dict) -> list[str]:
    """The classes with the lowest accuracy, if there are too many for a matrix."""
    counts = {name: sum(row) for name, row in zip(result["classes"], result["confusion"], strict=True)}
    rows = sorted(result["per_class"].items(), key=lambda row: row[1])[:MATRIX_CLASSES]
    width = min(WIDTHS[1], max(len(visible(name)) for name, _ in rows))
    return [f"the {len(rows)} classes with the lowest accuracy; --verbose shows the whole matrix"] + [
        f"  {visible(name)[:width]:<{width}}  {accuracy:>6.1%}  of {counts[name]} images"
        for name, accuracy in rows
    ]
