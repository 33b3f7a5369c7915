"""Support images by class with the suspects marked, and held-out images that were answered wrongly."""

from collections.abc import Iterable, Sequence

from tinytrain.base.page import details, name, section, tag
from tinytrain.report.conclusion import how_often_wrong
from tinytrain.report.page.thumbnails import Thumbnails

PER_CLASS = 12  # support images that are shown of each class
IN_ALL = 480  # thumbnails of support images: about 2 kB each
WRONG = 60  # wrong answers that are shown
LETTERS = 48  # of a class name under a thumbnail


def support_section(facts: dict, thumbnails: Thumbnails | None) -> str:
    """Every class with its images, suspects first; without thumbnails, the suspects as a list."""
    suspects = facts["guard"]["suspects"]
    anchor = tag("span", id="support")
    if thumbnails is None:
        named = [tag("li", name(s["name"]), ": ", *_reason(s)) for s in suspects]
        return section("Support images", anchor, tag("ul", *named)) if named else ""
    classes = facts["episode"]["classes"]
    each = max(1, min(PER_CLASS, IN_ALL // len(classes)))
    parts, room = [anchor, tag("p", _introduction(suspects, facts), class_="dim")], IN_ALL
    rest = _by_class(thumbnails, suspects, len(classes))
    while rest and room > 0:
        label, rows = rest.pop(0)
        taken = min(len(rows), max(each, min(PER_CLASS, sum(s is not None for _, s in rows))))
        parts.append(_class(classes[label], rows, taken, thumbnails))
        room -= taken
    if rest:
        parts.append(tag("p", f"and {len(rest):,} more classes", class_="dim"))
    return section("Support images", *parts)


def _introduction(suspects: Sequence[dict], facts: dict) -> str:
    shots, right = facts["episode"]["shots"], facts["guard"]["measures"].get("left_out_before")
    if suspects:
        often = how_often_wrong(len(suspects), sum(shots), right)
        return (
            "The images to adapt to. Suspicious ones have a red frame and stand first: they may have the"
            f" wrong class or show something else ({often}). Leave"
            " those in that are right. A wrong one may be missed, so look at the others, too."
        )
    if max(shots) > 1:
        return "The images to adapt to. None of them looks suspicious."
    return "The images to adapt to. The only image of a class cannot be judged."


def _by_class(thumbnails: Thumbnails, suspects: Sequence[dict], way: int) -> list[tuple[int, list]]:
    """(class, [(image, suspect or None)]), classes with suspects first, and of each class the suspects."""
    marked = {s["index"]: s for s in suspects}
    rows: list[list] = [[] for _ in range(way)]
    for i, label in enumerate(thumbnails.episode.support.labels.tolist()):
        rows[label].append((i, marked.get(i)))
    for row in rows:
        row.sort(key=lambda pair: (-pair[1]["score"] if pair[1] else 0.0, pair[0]))
    found = list(enumerate(rows))
    return sorted(found, key=lambda pair: pair[1][0][1] is None)


def _class(given: str, rows: list, taken: int, thumbnails: Thumbnails) -> str:
    names = thumbnails.episode.support.names
    drawn = [
        thumbnail(
            thumbnails.support(i),
            names[i],
            (*_reason(suspect), tag("br"), name(names[i].split("/")[-1], LETTERS)) if suspect else (),
            "suspect" if suspect else "",
        )
        for i, suspect in rows[:taken]
    ]
    count = f"{len(rows)} image{'' if len(rows) == 1 else 's'}"
    if len(rows) > taken:
        count += f", the first {taken} of them here"
    return tag("h3", name(given), " ", tag("span", count, class_="dim")) + _thumbs(drawn)


def _reason(suspect: dict) -> tuple[str, ...]:
    if suspect["reason"] == "mislabelled":
        return ("looks like ", name(suspect["looks_like"], LETTERS))
    return ("unlike the others of ", name(suspect["given"], LETTERS))


def thumbnail(uri: str, file: str, caption: Iterable[str] = (), mark: str = "") -> str:
    """An image with what is said below it; pointing at it shows its name."""
    image = tag("img", src=uri, alt=file, title=file)
    below = tag("figcaption", *caption) if caption else ""
    return tag("figure", image, below, class_=f"thumb {mark}".strip())


def _thumbs(drawn: Iterable[str]) -> str:
    return tag("div", *drawn, class_="thumbs")


def wrong_answers(facts: dict, thumbnails: Thumbnails | None) -> str:
    """Held-out images with a wrong answer, the most confident first; then those that were put right."""
    rows = list(enumerate(facts["queries"]))
    wrong = sorted((r for r in rows if r[1]["after"] != r[1]["class"]), key=lambda r: -r[1]["confidence"])
    mended = [r for r in rows if r[1]["before"] != r[1]["class"] == r[1]["after"]]
    mended = mended if facts["guard"]["kept"] == "adapted" else []
    if not rows or thumbnails is None:
        return ""
    if not wrong:
        return tag("p", f"All {len(rows)} held-out images were answered rightly.")
    parts = [tag("h3", f"The {len(wrong)} wrong answers" if len(wrong) > 1 else "The wrong answer")]
    parts.append(_thumbs(_answer(i, row, thumbnails) for i, row in wrong[:WRONG]))
    if len(wrong) > WRONG:
        parts.append(tag("p", f"and {len(wrong) - WRONG:,} more", class_="dim"))
    if mended:
        shown = (_mended(i, row, thumbnails) for i, row in mended[:WRONG])
        title = f"{len(mended)} that the adaptation put right"
        parts.append(details(title, _thumbs(shown)))
    return "".join(parts)


def _answer(i: int, row: dict, thumbnails: Thumbnails) -> str:
    """The true class, the answer and how sure it was."""
    caption = (
        name(row["class"], LETTERS),
        tag("br"),
        "answer: ",
        name(row["after"], LETTERS),
        f", {row['confidence']:.0%} sure",
        tag("br"),
        name(row["name"].split("/")[-1], LETTERS),
    )
    return thumbnail(thumbnails.query(i), row["name"], caption, "wrong")


def _mended(i: int, row: dict, thumbnails: Thumbnails) -> str:
    caption = (name(row["class"], LETTERS), tag("br"), "before: ", name(row["before"], LETTERS))
    return thumbnail(thumbnails.query(i), row["name"], caption)
