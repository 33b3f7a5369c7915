"""What was trained, as a picture of the network: a bar for each layer, from the image to the classifier."""

from collections.abc import Sequence

from tinytrain.base.page import details, legend, safe, section, table, tag
from tinytrain.base.svg import fluid, percent, rectangle, text

HEIGHT = 110
LEAST = 0.25  # height of the narrowest layer, of that of the widest
APART = 0.06  # of the width from one number of a block to the next


def network_section(facts: dict) -> str:
    """The drawing if the report lists the layers, and a table of what is trained."""
    rows, layers = facts["selection"], facts["layers"]
    return section(
        "What was trained",
        tag("p", safe(_summary(facts, len(layers)))),
        ""
        if facts["guard"]["kept"] == "adapted" or not rows
        else tag("p", "None of it was kept.", class_="bad"),
        _drawing(layers, rows, facts.get("members", ())) if layers else "",
        details("Trained layers", _table(rows)) if rows else "",
    )


def _summary(facts: dict, n_layers: int) -> str:
    rows, count = facts["selection"], facts["memory"]["trained_parameters"]
    if not rows:
        return "No layer was trained; only the classifier was fitted."
    inside = sum(row["layer"] < n_layers for row in rows) if n_layers else len(rows)
    where = f"{inside} of {n_layers} layers" if n_layers else f"{inside} layers"
    if inside < len(rows):
        where += f" and in {len(rows) - inside} that were added"
    weights = sum(bool(row["n_channels"]) for row in rows)
    return (
        f"Parameters were trained in {where}: channels in {weights}, biases in"
        f" {sum(row['bias'] for row in rows)}; {count:,} parameters in all. The rest stayed as it was."
    )


def _drawing(layers: list[dict], rows: list[dict], members: Sequence[dict]) -> str:
    trained = {row["layer"]: row for row in rows}
    # Modules that a policy adds have numbers behind those of the layers.
    added = [
        {"name": row["name"], "kind": row["kind"], "block": None, "channels": row["of"]}
        for row in rows
        if row["layer"] >= len(layers)
    ]
    numbers = [*range(len(layers)), *(row["layer"] for row in rows if row["layer"] >= len(layers))]
    bars = [*layers, *added]
    widest, step = max(layer["channels"] for layer in bars), 1 / len(bars)
    parts = _blocks(bars, step)
    for k, (number, layer) in enumerate(zip(numbers, bars, strict=True)):
        parts += _bar(k * step, step, layer, trained.get(number), widest)
    caption = "One bar per layer, from the image (left) to the classifier (right); the numbers are blocks."
    if members:
        names = ", then ".join(row["backbone"] for row in members)
        caption = f"The networks are side by side: {names}. {caption}"
    colours = [("trained", "trained channels"), ("bias", "trained bias"), ("frozen", "frozen")]
    return (
        fluid(parts, HEIGHT, "the fraction of the channels that is trained, by layer", "plot bare")
        + tag("p", safe(f"{caption} A wider layer is higher."), class_="dim")
        + legend(colours)
    )


def _blocks(bars: list[dict], step: float) -> list[str]:
    """A ground behind every second block, and as many numbers of blocks as there is room for."""
    parts, first, last_number = [], 0, -1.0
    for k in range(1, len(bars) + 1):
        if k < len(bars) and bars[k]["block"] == bars[first]["block"]:
            continue
        block, middle = bars[first]["block"], (first + k) / 2 * step
        if block is not None and block % 2:
            parts.append(
                rectangle(percent(first * step), -6, percent((k - first) * step), HEIGHT + 26, class_="block")
            )
        if middle - last_number >= APART:
            label = "added" if block is None else str(block)
            parts.append(text(percent(middle), HEIGHT + 32, label, "middle", class_="dim"))
            last_number = middle
        first = k
    return parts


def _bar(x: float, step: float, layer: dict, row: dict | None, widest: int) -> list[str]:
    """A frozen bar, the trained fraction of its channels from below, and a mark for a trained bias."""
    height = HEIGHT * (LEAST + (1 - LEAST) * layer["channels"] / widest)
    left, width = percent(x + 0.15 * step), percent(0.7 * step)
    hint = f"{layer['name']} ({layer['kind']}): {_said(row, layer['channels'])}"
    parts = [rectangle(left, HEIGHT - height, width, height, hint, class_="frozen")]
    if row and row["n_channels"]:
        part = height * row["n_channels"] / row["of"]
        parts.append(rectangle(left, HEIGHT - part, width, part, hint, class_="trained"))
    if row and row["bias"]:
        parts.append(rectangle(left, HEIGHT + 4, width, 5.0, hint, class_="bias"))
    return parts


def _said(row: dict | None, channels: int) -> str:
    if row is None:
        return f"{channels} channels, frozen"
    weights = f"{row['n_channels']} of {row['of']} channels trained" if row["n_channels"] else "bias only"
    return weights + (" and the bias" if row["bias"] and row["n_channels"] else "")


def _table(rows: list[dict]) -> str:
    def cells(row: dict) -> tuple[str, ...]:
        fisher = row["fisher_fraction"]
        return (
            safe(row["name"]),
            row["kind"],
            f"{row['n_channels']} of {row['of']}" if row["n_channels"] else "-",
            "all" if row["inputs"] is None else f"{len(row['inputs'])}",
            "yes" if row["bias"] else "no",
            "-" if fisher is None else f"{fisher:.0%}",
        )

    header = ("layer", "kind", "channels", "input channels", "bias", "of its Fisher information")
    return table(header, map(cells, rows), (0, 1))
