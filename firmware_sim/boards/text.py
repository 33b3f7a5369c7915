"""A simulation, and the table of boards, for people."""

from collections.abc import Iterator

from tinytrain.base.units import format_bytes, format_count

LABEL = 12  # width of the column of labels
Lines = Iterator[tuple[str, str]]  # label and text
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


def _header(facts: dict) -> Lines:
    board, e = facts["board"], facts["episode"]
    clock = board["figures"]["clock_mhz"]["value"]
    yield "board", f"{board['title']}, {board['core']} at {clock:g} MHz"
    yield "backbone", f"{facts['backbone']}, policy {facts['policy']}"
    yield "images", f"{e['source']}, {e['n_support']} to adapt to"


def _verdict(facts: dict) -> Lines:
    if facts["fits"]:
        yield "fits", "yes, in RAM and flash"
        return
    lacks = {name: facts[part]["missing"] for part, name in PARTS.items() if facts[part]}
    missing = [f"{count:,} bytes of {name} are missing" for name, count in lacks.items() if count]
    yield "fits", f"NO: {' and '.join(missing)}"
    for text in facts["remedies"] or ["nothing known: a smaller network or a larger board is needed"]:
        yield "would fit", text


def _memory(facts: dict) -> Lines:
    ram, flash = facts["ram"], facts["flash"]
    capped = facts["budget"] > ram["has"]
    note = f", which caps the budget of {facts['budget']:,}" if capped else ""
    yield "RAM", f"arena {ram['needs']:,} of {ram['has']:,} bytes{note}"
    if flash:
        what = f"network {flash['weights']:,}, two slots for deltas {flash['slots']:,}"
        yield "flash", f"{flash['needs']:,} of {flash['has']:,} bytes: {what}"
        yield "flash", f"not in it: {format_bytes(facts['support_images'])} of images to adapt to"


def _counted(facts: dict) -> Lines:
    c, a = facts["counted"], facts["accuracy"]
    if a["n_query"]:
        yield "accuracy", f"{a['before']:.1%} -> {a['after']:.1%} on {a['n_query']} images"
    same = "as planned" if c["network_macs"] == c["planned_network_macs"] else "NOT AS PLANNED"
    others = f"{format_count(c['other_macs'])} of loss and head"
    yield "counted", f"{format_count(c['network_macs'])} MACs of the network ({same}), {others}"
    yield "counted", f"{format_bytes(c['bytes'])} read and written in {c['calls']:,} kernel calls"
    yield "canaries", f"{facts['canaries']:,} looked at, all of them whole"


def _costs(facts: dict) -> Lines:
    stages = ", ".join(f"{name} {three_digits(value)}" for name, value in facts["seconds"]["stages"].items())
    w, fraction = facts["wear"], facts["battery"]["share"]
    low, high = f"{fraction['low']:.2%}", f"{fraction['high']:.2%}"
    hours = f"{facts['battery']['watt_hours']:g} Wh per adaptation"
    writes = w["writes_per_adaptation"]
    deltas = f"{writes['deltas']:g} delta of {w['delta_bytes']:,} bytes and {writes['records']:g} records"
    worn = f"{w['adaptations_until_worn']:,} adaptations until worn ({w['erase_cycles']:,} cycles)"
    yield "time", f"{_band(facts['seconds'], 's')}: {stages}"
    yield "inference", f"{_band(facts['inference']['seconds'], 's')} for one image"
    yield "energy", _band(facts["joules"], "J")
    yield "battery", f"{fraction['estimate']:.2%} ({low} to {high}) of {hours}"
    yield "flash wear", f"{deltas} written per adaptation: {worn}"


def _band(value: dict, unit: str) -> str:
    estimate, low, high = (three_digits(value[key]) for key in ("estimate", "low", "high"))
    return f"{estimate} {unit} ({low} to {high})"


def three_digits(value: float) -> str:
    """Three significant digits, without an exponent up to a million.

    >>> three_digits(0.08333), three_digits(130.6), three_digits(1499.7)
    ('0.0833', '131', '1,500')
    """
    return f"{float(f'{value:.3g}'):,g}"


def _model(facts: dict) -> Lines:
    model = facts["model"]
    if measured := model["measured"]:
        rate = f"{measured['value']:.3g} MACs per cycle in {model['precision']}"
        yield "model", f"calibrated by a prediction on the board, {rate}: expect a quarter more or less"
        yield "model", f"{model['statement']}; {measured['source']}"
        return
    value = {name: figure["value"] for name, figure in facts["board"]["figures"].items()}
    rates = f"{value['macs_per_cycle']:g} MACs and {value['bytes_per_cycle']:g} bytes per cycle"
    costs = f"{value['call_seconds']:g} s per call, {value['watts']:g} W"
    yield "model", "UNCALIBRATED: not measured on a board; half to twice the estimate is the band to expect"
    yield "model", model["statement"]
    yield "model", f"{rates}, {costs}; assumed, without a document: {', '.join(model['assumed'])}"


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
