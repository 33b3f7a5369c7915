"""The arena over time: columns are stages, height is the address, a box is a buffer in use."""

from collections.abc import Sequence

from tinytrain.base.page import details, legend, safe, section, table, tag
from tinytrain.base.svg import element, fluid, percent, rectangle, round_steps, text
from tinytrain.base.units import format_bytes

STAGES = ("features", "classifiers", "forward", "backward", "classifier", "result", "answers")  # of a tick
HEIGHT = 340
COLUMN = 80  # pixels of a column where labels are shown, at the least
LETTER, LINE = 6.4, 14  # pixels of a letter on average and of a line, generously
NEAR = 1.25  # a budget up to so many times the arena is drawn

# Kind of buffer -> how the names of its buffers begin.
KINDS = {
    "workspace of the network": ("workspace",),
    "cached features": ("cached feature",),
    "images": ("augmented image",),
    "features and embeddings": ("features (", "embedding", "gradient of embeddings"),
    "trained parameters and gradients": ("trained parameters", "gradients"),
    "optimizer": ("optimizer",),
    "classifier": (
        "head", "scatter matrix", "class ", "prototypes", "left out", "labels", "loss", "residual", "cosine",
        "latest losses", "gradient of prototypes", "sums", "products",
    ),
}  # fmt: skip
OTHER = "result and the rest"


def kind_of(buffer: str) -> str:
    """The kind of buffer that has this name."""
    return next((kind for kind, starts in KINDS.items() if buffer.startswith(starts)), OTHER)


def arena_section(facts: dict) -> str:
    table_, memory = facts["arena_table"], facts["memory"]
    words = (
        f"{memory['arena']:,} of {memory['budget']:,} bytes are used. A box is a buffer while it holds a"
        " value; buffers that are not needed at the same time share bytes."
    )
    if members := facts.get("members"):
        largest = max(members, key=lambda row: row["arena"])["backbone"]
        words += f" The networks take turns in them; drawn is {largest}, which takes most."
    kinds = [*KINDS, OTHER]
    present = {kind_of(row["name"]) for row in table_}
    colours = [(f"tint k{k}", kind) for k, kind in enumerate(kinds) if kind in present]
    return section(
        "The arena: every byte of working memory over time",
        tag("p", safe(words), class_="dim"),
        _drawing(table_, memory, kinds),
        _stages_in_words(),
        legend(colours),
        details(f"All {len(table_)} buffers", _table(table_)),
    )


def _drawing(rows: Sequence[dict], memory: dict, kinds: Sequence[str]) -> str:
    arena, budget = memory["arena"], memory["budget"]
    top = max(1, budget if arena <= budget <= NEAR * arena else arena)
    parts = [*_axes(top), *(part for row in rows for part in _box(row, top, kinds))]
    parts.append(element("line", class_="axis", x1=0, x2=0, y1=0, y2=HEIGHT))
    if top == budget:
        parts.append(element("line", class_="limit", x1="0%", x2="100%", y1=0, y2=0))
        parts.append(text("100%", -4, "budget", "end", class_="dim"))
    return fluid(parts, HEIGHT, "the arena by stage and address")


def _axes(top: int) -> list[str]:
    """Bytes upwards, stages across; on a narrow screen stages have numbers."""
    parts = []
    for value in round_steps(0, top):
        y = _height(value, top)
        parts.append(element("line", class_="grid", x1="0%", x2="100%", y1=y, y2=y))
        parts.append(text(-6, y + 4, _bytes(value), "end", class_="dim"))
    for k, stage in enumerate(STAGES):
        middle = percent((k + 0.5) / len(STAGES))
        parts.append(text(middle, HEIGHT + 16, stage, "middle", class_="broad"))
        parts.append(text(middle, HEIGHT + 16, str(k + 1), "middle", class_="narrow"))
    parts.append(text("50%", HEIGHT + 36, "stage", "middle", class_="dim"))
    return parts


def _bytes(value: float) -> str:
    if not value:
        return "0"
    return f"{value / 1e6:g} MB" if value >= 1e6 else f"{value / 1e3:g} kB"


def _height(address: float, top: int) -> float:
    return HEIGHT * (1 - address / top)


def _box(row: dict, top: int, kinds: Sequence[str]) -> list[str]:
    """A buffer, with as much of its name and size as fits on a broad screen."""
    columns = row["last"] - row["first"] + 1
    x, width = row["first"] / len(STAGES), columns / len(STAGES)
    y, height = _height(row["offset"] + row["bytes"], top), HEIGHT * row["bytes"] / top
    hint = f"{row['name']}: {row['bytes']:,} bytes from address {row['offset']:,}"
    colour = f"buffer k{list(kinds).index(kind_of(row['name']))}"
    parts = [rectangle(percent(x), y, percent(width), height, hint, class_=colour)]
    label = _label(row, columns * COLUMN - 8)
    if label and height >= LINE:
        parts.append(text(percent(x), y + height / 2 + 4, label, dx=5, class_="broad"))
    return parts


def _label(row: dict, room: float) -> str:
    """Name and size, the name alone, or nothing."""
    short = row["name"].partition(" (")[0]
    tries = (f"{short}, {format_bytes(row['bytes'])}", short)
    return next((label for label in tries if LETTER * len(label) <= room), "")


def _stages_in_words() -> str:
    listed = ", ".join(f"{k} {stage}" for k, stage in enumerate(STAGES, 1))
    return tag("p", safe(listed), class_="dim narrow")


def _table(rows: Sequence[dict]) -> str:
    def stage(tick: int) -> str:
        return f"{tick + 1} {STAGES[tick]}"

    cells = (
        (
            safe(row["name"]),
            kind_of(row["name"]),
            f"{row['offset']:,}",
            f"{row['bytes']:,}",
            stage(row["first"]),
            stage(row["last"]),
        )
        for row in rows
    )
    return table(("buffer", "kind", "address", "bytes", "from", "to"), cells, (0, 1, 4, 5))
