"""Accuracy before and after with intervals, by class, and which classes are confused."""

from collections import Counter
from collections.abc import Sequence

from tinytrain.base.errors import visible
from tinytrain.base.page import Bar, bars, details, name, scrolled, section, table, tag
from tinytrain.base.statistics import wilson_interval
from tinytrain.base.svg import drawing, rectangle
from tinytrain.report.page.images import wrong_answers
from tinytrain.report.page.settings import shortened
from tinytrain.report.page.thumbnails import Thumbnails

SCALE = ("0%", "25%", "50%", "75%", "100%")
STAGES = {"before": "before", "after": "after"}
# Of training that is not kept, what was kept in its place.
NOT_TRAINED = {
    "head": {"withheld": "trained, not kept", "after": "kept: untrained, a new head alone"},
    "cosine": {
        "withheld": "trained, not kept",
        "before": "untrained, same classifier",
        "after": "kept: untrained, nearest class mean",
    },
}
MATRIX = 30  # classes of which the confusion is shown as a whole matrix
PAIRS = 30  # confused pairs that are listed
SHOWN, LISTED = 12, 300  # classes whose accuracy is shown at once, and on request


def answers_section(facts: dict, thumbnails: Thumbnails | None) -> str:
    """Answers for the held-out images; nothing if there are none."""
    if not facts["accuracy"]["n_query"]:
        return ""
    queries = facts["queries"]
    return section(
        "Answers for held-out images",
        _stages(facts),
        _changes(queries) if facts["guard"]["kept"] == "adapted" else "",
        wrong_answers(facts, thumbnails),
        per_class(queries, facts["episode"]["classes"]),
        confusion(queries, facts["episode"]["classes"]),
    )


def _stages(facts: dict) -> str:
    a = facts["accuracy"]
    rows = []
    for key, label in NOT_TRAINED.get(facts["guard"]["kept"], STAGES).items():
        if a[key] is None:
            continue
        interval = wilson_interval(a[key] * a["n_query"], a["n_query"])
        value = f"{a[key]:.1%} ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})"
        rows.append(Bar(label, a[key], value, interval, weak=key != "after"))
    words = f"Fraction of {a['n_query']} held-out images answered rightly, with its 95% interval."
    return tag("p", words, class_="dim") + bars(rows, SCALE)


def _changes(queries: Sequence[dict]) -> str:
    """How many answers became right and wrong by the adaptation."""
    found = Counter((q["before"] == q["class"], q["after"] == q["class"]) for q in queries)
    rows = [
        [before, *(str(found[was, now]) for now in (True, False))]
        for was, before in ((True, "right before"), (False, "wrong before"))
    ]
    return table(("", "right after", "wrong after"), rows)


def per_class(queries: Sequence[dict], classes: Sequence[str]) -> str:
    """A bar for each class, the worst first."""
    shown = Counter(q["class"] for q in queries)
    right = Counter(q["class"] for q in queries if q["after"] == q["class"])
    order = sorted((c for c in classes if shown[c]), key=lambda c: right[c] / shown[c])
    rows = [
        Bar(
            name(c, 60),
            right[c] / shown[c],
            f"{right[c]} of {shown[c]}",
            wilson_interval(right[c], shown[c]),
        )
        for c in order
    ]
    if not rows:
        return ""
    body = bars(rows[:SHOWN], SCALE)
    if len(rows) > SHOWN:
        title = f"{len(rows) - SHOWN} classes that are as good or better"
        body += details(title, bars(rows[SHOWN:LISTED], SCALE))
    return tag("h3", "Accuracy by class, the worst first") + body


def confusion(queries: Sequence[dict], classes: Sequence[str]) -> str:
    """Which class was taken for which: a matrix, or the pairs if there are many classes."""
    counts, of = Counter((q["class"], q["after"]) for q in queries), Counter(q["class"] for q in queries)
    if not counts:
        return ""
    if len(classes) <= MATRIX:
        title = "Confusion: rows are the true classes, columns the answers"
        return tag("h3", title) + _matrix(counts, of, classes)
    words = "Rows are the true classes, columns the answers; point at a cell to read it."
    return (
        tag("h3", "Confusion") + tag("p", words, class_="dim") + _heat(counts, of, classes) + _pairs(counts)
    )


def _heat(counts: Counter, of: Counter, classes: Sequence[str]) -> str:
    """The matrix of many classes as a drawing: the darker, the larger a fraction of the row."""
    place = {c: k for k, c in enumerate(classes)}
    cells = [
        rectangle(
            place[said],
            place[true],
            1,
            1,
            visible(f"{true}: {count} of {of[true]} as {said}"),
            class_="hit" if said == true else "miss",
            fill_opacity=0.2 + 0.8 * count / of[true],
        )
        for (true, said), count in counts.items()
    ]
    return drawing(cells, len(classes), len(classes), "confusion matrix", class_="heat")


def _pairs(counts: Counter) -> str:
    wrong = [(pair, count) for pair, count in counts.most_common() if pair[0] != pair[1]]
    if not wrong:
        return tag("p", "None.")
    rows = [(name(true, 60), name(said, 60), str(count)) for (true, said), count in wrong]
    return shortened(("true class", "answer", "images"), rows, (0, 1), PAIRS, "more pairs")


def _matrix(counts: Counter, of: Counter, classes: Sequence[str]) -> str:
    """Columns have the numbers of the rows, so that long names take no width twice."""
    head = tag("tr", tag("th"), *(tag("th", str(k), scope="col") for k in range(1, len(classes) + 1)))
    rows = []
    for k, true in enumerate(classes, 1):
        cells = [_cell(counts[true, said], of[true], true == said) for said in classes]
        label = tag("th", tag("span", f"{k}. ", class_="dim"), name(true, 40), scope="row", class_="text")
        rows.append(tag("tr", label, *cells))
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="confusion")
    return scrolled(body)


def _cell(count: int, of: int, hit: bool) -> str:
    """A number whose ground is the stronger, the larger a fraction of the row it is."""
    if not count:
        return tag("td")
    return tag("td", str(count), class_="hit" if hit else "miss", style=f"--f:{50 * count / of:.0f}%")
