"""Where the images came from, what was left out of them, and how to do the same again."""

from collections import Counter
from collections.abc import Sequence

from tinytrain.base.page import details, items, name, safe, section, table, tag
from tinytrain.base.shell import quoted
from tinytrain.report.conclusion import KINDS, UNSEEN, class_counts

NAMED = 200  # files that are listed


def input_section(facts: dict) -> str:
    """Files that were skipped and images that are there more than once; nothing if there are none."""
    skipped, duplicates = facts["skipped"], facts["duplicates"]
    if not skipped and not duplicates:
        return ""
    return section(
        "Files that deserve a look",
        tag("span", id="input"),
        _skipped(skipped) if skipped else "",
        _duplicates(duplicates) if duplicates else "",
    )


def _skipped(rows: Sequence[dict]) -> str:
    """How many of each kind, and all of them on request; damaged ones at once."""
    counts = Counter(row["kind"] for row in rows)
    words = (f"{count} {KINDS.get(kind, safe(kind))}" for kind, count in counts.items())
    damaged = [row for row in rows if row["kind"] == "damaged"]
    others = [row for row in rows if row["kind"] != "damaged"]
    return (
        tag("h3", f"{len(rows)} skipped")
        + tag("p", ", ".join(words), class_="dim")
        + (_files(damaged) if damaged else "")
        + (details("The others", _files(others)) if others else "")
    )


def _files(rows: Sequence[dict]) -> str:
    cells = [(name(row["file"]), safe(row["reason"])) for row in rows]
    return shortened(("file", "reason"), cells, (0, 1))


def shortened(
    header: Sequence[str], rows: Sequence, texts: Sequence[int], most: int = NAMED, what: str = "more"
) -> str:
    """The first rows of a table, and how many there are besides."""
    more = f"and {len(rows) - most:,} {what}" if len(rows) > most else ""
    return table(header, rows[:most], texts) + tag("p", more, class_="dim")


def _duplicates(rows: Sequence[dict]) -> str:
    cells = [
        (", ".join(map(name, row["files"])), ", ".join(map(name, row["classes"])), safe(row["where"]))
        for row in rows
    ]
    title = tag("h3", "The same image more than once")
    return title + shortened(("files", "classes", "where"), cells, (0, 1, 2))


def settings_section(facts: dict) -> str:
    """The command, the versions, and what else the result follows from."""
    command, versions = facts["command"], facts["versions"]
    episode, resources = facts["episode"], facts["resources"]
    classes, per_class = class_counts(episode)
    rows = [
        ("images", safe(episode["source"])),
        ("to adapt to", f"{classes}, {per_class} images each, {episode['n_support']} in all"),
        ("held out", f"{episode['n_query']} images"),
        ("list of images", tag("code", safe(episode["digest"]))),
        ("backbone", f"{safe(facts['backbone'])} {tag('code', safe(facts['backbone_digest'][:16]))}"),
        ("policy", safe(facts["policy"])),
        ("training", f"{resources['steps']} steps, optimizer {safe(resources['optimizer'])}"),
        ("classifier", safe(resources["head"])),
        ("seed", str(facts["seed"])),
        ("threads", f"{facts['threads']['lanes']}, {safe(facts['kernels'])} kernels"),
        ("versions", ", ".join(f"{safe(k)} {safe(v)}" for k, v in versions.items() if v)),
    ]
    return section(
        "How it was made",
        tag("pre", safe(" ".join(map(quoted, command)))) if command else "",
        items([f"These images are {UNSEEN}."]) if facts["unseen_domain"] else "",
        table(("", ""), [(key, value) for key, value in rows if value], (0, 1)),
    )
