"""A simulation, and the table of boards, for people."""

from tinytrain.base.units import format_bytes, format_count

LABEL = 12  # width of the column of labels
PARTS = {"ram": "RAM", "flash": "flash"}


def render_simulation(facts: dict) -> str:
    """The result of ``tinytrain simulate`` as text."""
    lines = [*_header(facts), *_verdict(facts), *_memory(facts)]
    if "seconds" in facts:
        lines += [*_counted(facts), *_costs(facts), *_model(facts)]
    shown, last = [], None
    for label, text in lines:
        shown.append(f"{'' if label == last else label:<{LABEL}}{text}")
        last = label
    return "\n".join(shown)


def _header(facts: dict) -> list[tuple[str, str]]:
    board, e = facts["board"], facts["episode"]
    clock = board["figures"]["clock_mhz"]["value"]
    return [
        ("board", f"{board['title']}, {board['core']} at {clock:g} MHz"),
        ("backbone", f"{facts['backbone']}, policy {facts['policy']}"),
        ("images", f"{e['source']}, {e['n_support']} to adapt to"),
    ]


def _verdict(facts: dict) -> list[tuple[str, str]]:
    if facts["fits"]:
        return [("fits", "yes, in RAM and flash")]
    missing = [
        f"{facts[part]['missing']:,} bytes of {name} are missing"
        for part, name in PARTS.items()
        if facts[part] and facts[part]["missing"]
    ]
    lines = [("fits", f"NO: {' and '.join(missing)}")]
    remedies = facts["remedies"] or ["nothing known: a smaller network or a larger board is needed"]
    return [*lines, *(("would fit", text) for text in remedies)]


def _memory(facts: dict) -> list[tuple[str, str]]:
    ram, flash, lines = facts["ram"], facts["flash"], []
    capped = facts["budget"] > ram["has"]
    note = f", which caps the budget of {facts['budget']:,}" if capped else ""
    lines.append(("RAM", f"arena {ram['needs']:,} of {ram['has']:,} bytes{note}"))
    if flash:
        lines.append(
            (
                "flash",
                f"{flash['needs']:,} of {flash['has']:,} bytes: network {flash['weights']:,}, two slots for"
                f" deltas {flash['slots']:,}",
            )
        )
        lines.append(
            (
                "flash",
                f"not in it: {format_bytes(facts['support_images'])} of images to adapt to",
            )
        )
    return lines


def _counted(facts: dict) -> list[tuple[str, str]]:
    c, a = facts["counted"], facts["accuracy"]
    lines = []
    if a["n_query"]:
        lines.append(("accuracy", f"{a['before']:.1%} -> {a['after']:.1%} on {a['n_query']} images"))
    same = "as planned" if c["network_macs"] == c["planned_network_macs"] else "NOT AS PLANNED"
    lines += [
        (
            "counted",
            f"{format_count(c['network_macs'])} MACs of the network ({same}),"
            f" {format_count(c['other_macs'])} of loss and head",
        ),
        ("counted", f"{format_bytes(c['bytes'])} read and written in {c['calls']:,} kernel calls"),
        ("canaries", f"{facts['canaries']:,} looked at, all of them whole"),
    ]
    return lines


def _costs(facts: dict) -> list[tuple[str, str]]:
    stages = ", ".join(f"{name} {three_digits(value)}" for name, value in facts["seconds"]["stages"].items())
    w, fraction = facts["wear"], facts["battery"]["share"]
    return [
        ("time", f"{_band(facts['seconds'], 's')}: {stages}"),
        ("energy", _band(facts["joules"], "J")),
        (
            "battery",
            f"{fraction['estimate']:.2%} ({fraction['low']:.2%} to {fraction['high']:.2%}) of"
            f" {facts['battery']['watt_hours']:g} Wh per adaptation",
        ),
        (
            "flash wear",
            f"{w['writes_per_adaptation']['deltas']:g} delta of {w['delta_bytes']:,} bytes and"
            f" {w['writes_per_adaptation']['records']:g} records written per adaptation:"
            f" {w['adaptations_until_worn']:,} adaptations until worn ({w['erase_cycles']:,} cycles)",
        ),
    ]


def _band(value: dict, unit: str) -> str:
    estimate, low, high = (three_digits(value[key]) for key in ("estimate", "low", "high"))
    return f"{estimate} {unit} ({low} to {high})"


def three_digits(value: float) -> str:
    """Three significant digits, without an exponent up to a million.

    >>> three_digits(0.08333), three_digits(130.6), three_digits(1499.7)
    ('0.0833', '131', '1,500')
    """
    return f"{float(f'{value:.3g}'):,g}"


def _model(facts: dict) -> list[tuple[str, str]]:
    value = {name: figure["value"] for name, figure in facts["board"]["figures"].items()}
    rates = (
        f"{value['macs_per_cycle']:g} MACs and {value['bytes_per_cycle']:g} bytes per cycle,"
        f" {value['call_seconds']:g} s per call, {value['watts']:g} W"
    )
    return [
        ("model", "UNCALIBRATED: no board was measured; half to twice the estimate is the band to expect"),
        ("model", facts["model"]["statement"]),
        ("model", f"{rates}; assumed, without a document: {', '.join(facts['model']['assumed'])}"),
    ]


def render_boards(rows: list[dict]) -> str:
    """The table of ``tinytrain simulate --boards``."""
    lines = [f"{'name':<22} {'core':<12} {'MHz':>5} {'arena':>10} {'flash':>10} {'watts':>6}  title"]
    for row in rows:
        figures = {name: f["value"] for name, f in row["figures"].items()}
        lines.append(
            f"{row['name']:<22} {row['core']:<12} {figures['clock_mhz']:>5g} {format_bytes(row['arena']):>10}"
            f" {format_bytes(row['storage']):>10} {figures['watts']:>6.2g}  {row['title']}"
        )
    return "\n".join(lines)
