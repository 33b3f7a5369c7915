"""``tinytrain forecast``: predict how a series of numbers goes on."""

from tinytrain.base.errors import UsageError, one_line
from tinytrain.cli.commands.common import add_json, add_number, check_outputs, print_result

DESCRIPTION = (
    "Predict how a column of a CSV or .npy file goes on, by an echo state network that all columns drive. "
    "The error is measured on the last quarter of the series, which is held out. Rows are evenly spaced in "
    "time, or have times."
)
EXAMPLES = """\
  tinytrain forecast pump.csv --target pressure --ahead 10
  tinytrain forecast pump.csv --target 2 --ahead 60 --out next.csv
  tinytrain forecast pump.csv --target pressure --emit firmware/
"""
SHOWN = 10


def add_arguments(parser) -> None:
    parser.add_argument("series", metavar="FILE", help="series: a row for each moment, see 'Motion' in docs")
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="name or number of the column, from 1, times not counted; default: 1",
    )
    add_number(parser, "--ahead", 1, "rows to predict; default: 1", 1)
    parser.add_argument("-o", "--out", metavar="FILE", help="also write the predicted rows as CSV")
    parser.add_argument(
        "--emit",
        metavar="DIR",
        help="also write a C99 library that learns such a series on a microcontroller",
    )
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.backbones.motion import RESERVOIR
    from tinytrain.base.files import read_bytes, write_bytes
    from tinytrain.episode.decode import named_errors
    from tinytrain.episode.kind import MOST_BYTES
    from tinytrain.episode.motion_file import recording
    from tinytrain.pipeline.forecast import forecast, washout_of

    check_outputs(arguments.out, needed=(arguments.series,))
    if arguments.emit is not None:  # it needs all of codegen
        from tinytrain.codegen.folder import check_folder
        from tinytrain.codegen.series import emit_series

        check_folder(arguments.emit)
    content = read_bytes(arguments.series, MOST_BYTES)
    with named_errors(arguments.series, None):
        series = recording(content)
    column = _column(arguments.target, series.names)
    with named_errors(arguments.series, None):
        found = forecast(series.values, column, arguments.ahead)
    name = one_line(series.names[column], 60) or f"column {column + 1}"
    values = [float(f"{value:.6g}") for value in found.values]
    if arguments.out:
        write_bytes(arguments.out, "".join(f"{cell}\n" for cell in (name, *values)).encode())
    result = {
        "target": name, "ahead": arguments.ahead, "rows": len(series.values), "error": found.error,
        "naive": found.naive, "deviation": found.deviation, "ridge": found.ridge, "values": values,
    }  # fmt: skip
    if arguments.emit:
        reservoir = RESERVOIR._replace(washout=washout_of(len(series.values)))
        how = column, arguments.ahead, found.ridge, reservoir
        result["ram"] = emit_series(arguments.emit, series.values, *how)
    print_result(result, _text(result, arguments.out, arguments.emit), arguments.json)


def _column(target: str | None, names: tuple[str, ...]) -> int:
    """The place of the column that is called so, or has that number. Raises UsageError."""
    if (same := names.count(target)) > 1:
        which = ", ".join(str(k) for k, name in enumerate(names, 1) if name == target)
        text = f"{same} columns are called {target!r}; give the number of one: {which}"
        raise UsageError("unknown-name", text)
    if target is None or same:
        return 0 if target is None else names.index(target)
    if target.isdecimal() and 1 <= int(target) <= len(names):
        return int(target) - 1
    known = ", ".join(one_line(name, 60) or str(k) for k, name in enumerate(names, 1))
    raise UsageError("unknown-name", f"no column {target!r}; known columns: {known}")


def _text(result: dict, out: str | None, emitted: str | None) -> str:
    values, more = result["values"][:SHOWN], len(result["values"]) - SHOWN
    more = f" and {more} more" if more > 0 else ""
    share = f"{result['error'] / (result['deviation'] or 1):.1%} of the deviation of {result['target']}"
    judged = f"on the last quarter of {result['rows']:,} rows, {result['ahead']} ahead"
    better = ", which is nearer: do so instead" if result["naive"] < result["error"] else ""
    lines = [
        f"next        {', '.join(f'{value:g}' for value in values)}{more}",
        f"error       {result['error']:.3g} {judged}: {share}",
        f"naive       {result['naive']:.3g} if the last value is said again{better}",
    ]
    lines += [f"written     {out}"] if out else []
    lines += [f"C library   {emitted}: {result['ram']:,} bytes of RAM"] if emitted else []
    return "\n".join(lines)
