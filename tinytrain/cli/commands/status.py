"""``tinytrain status``: show the deltas of a store."""

from tinytrain.base.errors import visible
from tinytrain.cli.commands.common import add_json, add_store, print_result, say

DESCRIPTION = (
    "Show which delta of a store is in use, whether it is confirmed, and which delta a roll-back restores. "
    "The sha256 is that of the delta in use with what was learnt since: of the file that 'tinytrain export "
    "STORE -o in-use.delta' writes."
)
EXAMPLES = """\
  tinytrain status --store state/
  tinytrain status --store state/ --json
"""


def add_arguments(parser) -> None:
    add_store(parser)
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.store import Store

    result = Store(arguments.store).status()
    say(*result["warnings"])
    print_result(result, _text(result), arguments.json)


def _text(result: dict) -> str:
    from tinytrain.report.layout import count_of, worded

    current, previous = result["current"], result["previous"]
    if current is None:
        return "in use  the bare network, no delta"
    used = f"{result['starts']} of {result['starts'] + (result['starts_left'] or 0)} starts used"
    trial = "confirmed" if result["confirmed"] else f"on trial, {used}"
    before = _slot(previous) if previous else "nothing" if result["confirmed"] else "the bare network"
    classes = visible(", ".join(current["classes"]))
    parts = current["merged_of"]
    images = worded({"episode": current}, count_of(sum(part["images"] for part in parts), "image"))
    made = f"        made of {count_of(len(parts), 'delta')} with {images}\n" if parts else ""
    learnt = f", with {count_of(result['learnt'], 'correction')} since" if result["learnt"] else ""
    return (
        f"in use  {_slot(current)}{learnt}, {trial}\n"
        f"        for {current['backbone']}, classes {classes}\n{made}"
        f"before  {before}"
    )


def _slot(slot: dict) -> str:
    from tinytrain.base.units import format_bytes

    return f"generation {slot['generation']}, {format_bytes(slot['bytes'])}, sha256 {slot['sha256'][:12]}"
