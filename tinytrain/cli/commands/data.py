"""``tinytrain data``: list, look at, check and export data packs, target sets and generated domains."""

import os

from tinytrain.base.console import at_least
from tinytrain.base.errors import InputError, UsageError
from tinytrain.cli.commands.common import NAMED, add_json, check_outputs, print_result, say, skipped_files

DESCRIPTION = (
    "list: known packs, target sets and generated domains. check: what a folder holds of the nine sets "
    "of the paper and what is missing (exit code 3 if anything is). preview: a contact sheet as PNG. export: "
    "images as a folder per class. Packs are looked for in the folder named by TINYTRAIN_DATA. A set of "
    "the paper is NAME:DIR; DIR, or the usual folder of the set below it, holds the unpacked download. Its "
    "classes are Meta-Dataset's test classes; NAME/all:DIR takes all. Generated domains: signs (road signs), "
    "glyphs (handwritten characters), textures (materials) and leaves."
)
EXAMPLES = """\
  tinytrain data list
  tinytrain data preview signs -o signs.png
  tinytrain data export signs photos --per-class 20
  tinytrain data check downloads/
  tinytrain data check downloads/GTSRB --set gtsrb --json
  tinytrain data preview gtsrb:downloads/GTSRB -o gtsrb.png --size 64
"""


def add_arguments(parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="list|check|preview|export", required=True)
    add_json(actions.add_parser("list", help="known packs and domains"))
    check = actions.add_parser("check", help="what a folder holds of the target sets, and what is missing")
    check.add_argument("folder", metavar="DIR", help="folder of one download, or with several below it")
    check.add_argument(
        "--set",
        dest="sets",
        action="append",
        metavar="NAME",
        help="only this set; may be repeated; default: all",
    )
    add_json(check)
    preview = actions.add_parser("preview", help="one row of images per class, as PNG")
    preview.add_argument("data", metavar="NAME", help="pack, domain, folder or NAME:DIR")
    preview.add_argument("-o", "--out", metavar="FILE.png", required=True, help="image to write")
    export = actions.add_parser("export", help="images as a folder per class")
    export.add_argument("data", metavar="NAME", help="pack, domain, folder or NAME:DIR")
    export.add_argument("folder", metavar="DIR", help="new or empty folder")
    for parser_, per_class in ((preview, 8), (export, 20)):
        parser_.add_argument("--classes", type=at_least(1), metavar="N", help="the first N classes only")
        parser_.add_argument("--per-class", type=at_least(1), default=per_class, metavar="N")
        parser_.add_argument("--size", type=at_least(1), default=128, metavar="PIXELS", help="default: 128")
        parser_.add_argument(
            "--seed", type=at_least(0), default=0, metavar="N", help="which images are drawn"
        )
        add_json(parser_)


def run(arguments) -> int:
    actions = {"list": _list, "check": _check, "preview": _preview, "export": _export}
    return actions[arguments.action](arguments)


def _list(arguments) -> int:
    from pathlib import Path

    from tinytrain.datasets import DOMAINS, PACKS, TARGETS
    from tinytrain.datasets.packs import FOLDER_VARIABLE

    folder = os.environ.get(FOLDER_VARIABLE)
    rows = [
        {"name": name, "kind": "generated", "here": True, "licence": "no restrictions"} for name in DOMAINS
    ]
    for name, pack in PACKS.items():
        here = bool(folder) and (Path(folder) / pack.file).is_file()
        rows.append({"name": name, "kind": "pack", "here": here, "licence": pack.licence})
    for name, target in TARGETS.items():
        facts = {"size": target.size, "address": target.address, "files": list(target.files)}
        rows.append(
            {"name": f"{name}:DIR", "kind": "target", "here": False, "licence": target.licence, **facts}
        )
    lines = [
        f"{r['name']:<20} {r['kind']:<10} {'here' if r['here'] else '-':<5} {r['licence']}"
        + (f"; {r['size']}, {r['address']}" if "address" in r else "")
        for r in rows
    ]
    print_result({"data": rows}, "\n".join(lines), arguments.json)
    return 0


def _check(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import TARGETS
    from tinytrain.datasets.meta_dataset.check import check_target

    if unknown := [name for name in arguments.sets or () if name not in TARGETS]:
        raise UsageError("unknown-target", f"no set {unknown[0]!r}; known sets: {', '.join(TARGETS)}")
    if not os.path.isdir(arguments.folder):
        raise InputError("folder-missing", f"{arguments.folder!r} is no folder; check the path")
    names = list(dict.fromkeys(arguments.sets or TARGETS))
    found = []
    with ProgressLine() as progress:
        for k, name in enumerate(names):
            progress(f"checking {name}", k, len(names), None)
            found.append(check_target(name, arguments.folder))
    whole = all(facts["state"] == "complete" for facts in found)
    text = "\n".join(line for facts in found for line in _state_lines(facts))
    print_result({"folder": arguments.folder, "complete": whole, "sets": found}, text, arguments.json)
    return 0 if whole else InputError.exit_code


def _state_lines(facts: dict) -> list[str]:
    """A line of counts, and below it what is missing and where it comes from."""
    counts = (
        f"{facts['classes']:,} of {facts['classes_expected']:,} test classes, "
        f"{facts['pictures']:,} of {facts['pictures_expected']:,} images"
    )
    lines = [f"{facts['name']:<10} {facts['state']:<11} {counts if facts['root'] else facts['licence']}"]
    if facts["state"] == "broken":
        lines.append(f"{'':<10} {facts['reason']}")
    if facts["lacks"]:
        lines.append(f"{'':<10} missing: {', '.join(facts['lacks'][:NAMED])}{_more(facts['lacks'])}")
    if facts["state"] != "complete":
        lines.append(f"{'':<10} {', '.join(facts['files'])} ({facts['size']}) from {facts['address']}")
    return lines


def _more(lacks: list[str]) -> str:
    return f" and {len(lacks) - NAMED:,} more" if len(lacks) > NAMED else ""


def _preview(arguments) -> int:
    import io

    from tinytrain.base.files import write_bytes
    from tinytrain.datasets.preview import contact_sheet

    if os.path.splitext(arguments.out)[1].lower() != ".png":
        raise UsageError("picture-kind", f"{arguments.out!r} must end in .png, which it will be")
    check_outputs(arguments.out)
    dataset, classes = _opened(arguments)
    sheet = contact_sheet(dataset, classes, arguments.per_class, arguments.size, arguments.seed, say)
    file = io.BytesIO()
    sheet.save(file, "PNG")
    write_bytes(arguments.out, file.getvalue())
    result = {"out": arguments.out, "width": sheet.width, "height": sheet.height}
    print_result(result, f"{arguments.out}: {sheet.width} x {sheet.height} pixels", arguments.json)
    return 0


def _export(arguments) -> int:
    from tinytrain.datasets.preview import export

    dataset, classes = _opened(arguments)
    drawn = (arguments.per_class, arguments.size, classes, arguments.seed)
    count = export(dataset, arguments.folder, *drawn, say)
    result = {"folder": arguments.folder, "pictures": count}
    print_result(result, f"{arguments.folder}: {count} images", arguments.json)
    return 0


def _opened(arguments):
    from tinytrain.datasets import open_dataset

    dataset = open_dataset(arguments.data)
    for line in skipped_files(dataset):
        say(line)
    return dataset, range(min(arguments.classes or dataset.n_classes, dataset.n_classes))
