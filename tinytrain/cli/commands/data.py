"""``tinytrain data``: list, check, preview, export and pack images of all origins."""

import os

from tinytrain.base.answer import with_old_keys
from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.units import format_bytes
from tinytrain.cli.commands.common import (
    NAMED,
    add_action,
    add_json,
    add_number,
    check_outputs,
    print_result,
    say,
)

LIST = "List the known packs, target sets and generated domains."
CHECK = (
    "Check which of the nine target sets of the paper a folder holds, and what is missing. The exit code is "
    "3 if anything is missing."
)
PREVIEW = "Write a contact sheet as PNG, with one row of images per class."
EXPORT = (
    "Write images as one folder per class. The generated domain shakes has recordings of an accelerometer, "
    "as CSV files, words has words that mean nothing, as WAV files, and notes has sentences, as text files."
)
PACK = (
    "Write a pack: one .npz file with small images of all classes, which --data of other commands reads. "
    "'tinytrain data list' shows the commands for the packs of the benchmarks."
)
DESCRIPTION = (
    f"list: {LIST}\ncheck: {CHECK}\npreview: {PREVIEW}\nexport: {EXPORT}\npack: {PACK}\n"
    "Generated domains: signs (road signs), glyphs (handwritten characters), textures (materials), leaves, "
    "sketches (line drawings), solids (things in space), toys (formed animals, figures, plants, things) and "
    "meters (the last wheel of a water meter). 'tinytrain data list' names more, of the kind 'development'. "
    "Packs must be in the folder $TINYTRAIN_DATA. A target set is NAME:DIR; its unpacked download is in DIR, "
    "or in the usual folder of the set below DIR. Its classes are Meta-Dataset's test classes; "
    "NAME/all:DIR has all classes."
)
LIST_EXAMPLES = "  tinytrain data list\n"
CHECK_EXAMPLES = """\
  tinytrain data check downloads/
  tinytrain data check downloads/GTSRB --set gtsrb --json
"""
PREVIEW_EXAMPLES = """\
  tinytrain data preview signs -o signs.png
  tinytrain data preview gtsrb:downloads/GTSRB -o gtsrb.png --size 64
"""
EXPORT_EXAMPLES = """\
  tinytrain data export leaves photos/ --classes 5 --per-class 12
  tinytrain data export signs signs/ --size 96
  tinytrain data export shakes shakes/
  tinytrain data export words words/
  tinytrain data export notes notes/
"""
PACK_EXAMPLES = """\
  tinytrain data pack mine.npz photos/
  tinytrain data pack gtsrb.npz gtsrb:downloads/ --per-class 50
  tinytrain data pack drawings.npz drawings/ --raw --grey --size 64
"""
EXAMPLES = LIST_EXAMPLES + PREVIEW_EXAMPLES + EXPORT_EXAMPLES + PACK_EXAMPLES + CHECK_EXAMPLES
SIZE = 128  # pixels
NAME_HELP = "pack, generated domain, folder, or target set NAME:DIR"


def add_arguments(parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="list|check|preview|export|pack", required=True)
    add_json(add_action(actions, "list", "list packs, sets and domains", LIST_EXAMPLES, description=LIST))
    check = add_action(actions, "check", "check downloaded target sets", CHECK_EXAMPLES, description=CHECK)
    check.add_argument("folder", metavar="DIR", help="folder of one download or of several")
    check.add_argument(
        "--set",
        dest="sets",
        action="append",
        metavar="NAME",
        help="only this set; may be repeated; default: all sets",
    )
    add_json(check)
    preview = add_action(actions, "preview", "write a contact sheet", PREVIEW_EXAMPLES, description=PREVIEW)
    preview.add_argument("data", metavar="NAME", help=NAME_HELP)
    preview.add_argument("-o", "--out", metavar="FILE.png", required=True, help="image to write")
    export = add_action(actions, "export", "write a folder per class", EXPORT_EXAMPLES, description=EXPORT)
    export.add_argument("data", metavar="NAME", help=NAME_HELP)
    export.add_argument("folder", metavar="DIR", help="new or empty folder")
    _add_pack(actions)
    for parser_, per_class in ((preview, 8), (export, 20)):
        add_number(parser_, "--classes", 1, "only the first N classes")
        add_number(parser_, "--per-class", 1, "images per class", per_class)
        add_number(parser_, "--size", 1, "side of an image", SIZE, metavar="PIXELS")
        add_number(parser_, "--seed", 0, "seed of the random choice of images", 0)
        add_json(parser_)


def _add_pack(actions) -> None:
    pack = add_action(actions, "pack", "write a pack", PACK_EXAMPLES, description=PACK)
    pack.add_argument("out", metavar="FILE.npz", help="pack to write")
    pack.add_argument("data", metavar="NAME", help=NAME_HELP)
    add_number(pack, "--classes", 1, "only the first N classes")
    add_number(
        pack, "--per-class", 1,
        "at most N images of each class, drawn at random, of all groups in turn; default: all",
    )  # fmt: skip
    add_number(pack, "--size", 1, "side of an image", 84, metavar="PIXELS")
    pack.add_argument(
        "--raw", action="store_true", help="store pixels as they are; without it: as JPEG of quality 95"
    )
    pack.add_argument("--grey", action="store_true", help="store one channel")
    add_number(pack, "--seed", 0, "seed of --per-class", 0)
    add_json(pack)


def run(arguments) -> int | None:
    actions = {"list": _list, "check": _check, "preview": _preview, "export": _export, "pack": _pack}
    return actions[arguments.action](arguments)


def _list(arguments) -> None:
    from pathlib import Path
    from shutil import which

    from tinytrain.datasets import CLIPS, DEVELOPMENT, DOMAINS, PACKS, TARGETS
    from tinytrain.datasets.development import PHOTOS
    from tinytrain.datasets.packs import FOLDER_VARIABLE

    folder = os.environ.get(FOLDER_VARIABLE)
    rows = [
        {
            "name": name,
            "kind": "generated",
            "here": name != "speech" or bool(which("espeak-ng")),
            "licence": "no restrictions",
        }
        for name in (*DOMAINS, *CLIPS)
    ]
    for name, pack in PACKS.items():
        here = bool(folder) and (Path(folder) / pack.file).is_file()
        made = {"command": pack.command, "subset": pack.subset}
        rows.append({"name": name, "kind": "pack", "here": here, "licence": pack.licence, **made})
    held = {row["name"]: row for row in rows}
    for name in DEVELOPMENT:  # drawn, or a pack in another style
        facts = held[PHOTOS[name]] if name in PHOTOS else rows[0]
        rows.append({"name": name, "kind": "development", "here": facts["here"], "licence": facts["licence"]})
    for name, target in TARGETS.items():
        there = target.download
        facts = {"size": there.size, "address": there.address, "files": list(there.files)}
        rows.append(
            {"name": f"{name}:DIR", "kind": "target", "here": False, "licence": there.licence, **facts}
        )
    lines = [
        f"{r['name']:<20} {r['kind']:<11} {'here' if r['here'] else '-':<5} {r['licence']}"
        + (f"; {r['size']}, {r['address']}" if "address" in r else "")
        + "".join(f"\n{'':<20} {r[key]}" for key in ("command", "subset") if r.get(key))
        for r in rows
    ]
    print_result({"data": rows}, "\n".join(lines), arguments.json)


def _check(arguments) -> int:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets import TARGETS
    from tinytrain.datasets.meta_dataset.check import check_target

    if unknown := [name for name in arguments.sets or () if name not in TARGETS]:
        raise UsageError("unknown-name", f"no set {unknown[0]!r}; known sets: {', '.join(TARGETS)}")
    if not os.path.isdir(arguments.folder):
        raise InputError("file-missing", f"{arguments.folder!r} is not a folder; check the path")
    names = list(dict.fromkeys(arguments.sets or TARGETS))
    found = []
    with ProgressLine() as progress:
        for k, name in enumerate(names):
            progress(f"checking {name}", k, len(names), None)
            found.append(check_target(name, arguments.folder))
    whole = all(facts["state"] == "complete" for facts in found)
    text = "\n".join(line for facts in found for line in _state_lines(facts))
    print_result(
        {"folder": arguments.folder, "complete": whole, "sets": [with_old_keys(facts) for facts in found]},
        text,
        arguments.json,
    )
    return 0 if whole else InputError.exit_code


def _state_lines(facts: dict) -> list[str]:
    """A line of counts, followed by lines about what is missing and where to download it."""
    counts = (
        f"{facts['classes']:,} of {facts['classes_expected']:,} test classes, "
        f"{facts['images']:,} of {facts['images_expected']:,} images"
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


def _preview(arguments) -> None:
    import io

    from tinytrain.base.files import write_bytes
    from tinytrain.datasets.preview import contact_sheet

    if os.path.splitext(arguments.out)[1].lower() != ".png":
        raise UsageError("usage", f"{arguments.out!r} must end in .png")
    check_outputs(arguments.out)
    dataset, classes = _opened(arguments)
    sheet = contact_sheet(dataset, classes, arguments.per_class, arguments.size, arguments.seed, say)
    file = io.BytesIO()
    sheet.save(file, "PNG")
    write_bytes(arguments.out, file.getvalue())
    result = {"out": arguments.out, "width": sheet.width, "height": sheet.height}
    print_result(result, f"{arguments.out}: {sheet.width} x {sheet.height} pixels", arguments.json)


def _export(arguments) -> None:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets.generated.recordings import RECORDINGS, export_recordings
    from tinytrain.datasets.preview import export
    from tinytrain.episode.kinds import kind_of_file

    if arguments.data in RECORDINGS:
        kind = kind_of_file(f"a{RECORDINGS[arguments.data][0]}")
        if arguments.size != SIZE:
            raise UsageError("usage", f"--size is that of images, and {arguments.data} has {kind.plural}")
        names = _classes(arguments, len(RECORDINGS[arguments.data][1]))
        drawn = arguments.per_class, arguments.seed, names
        count = export_recordings(arguments.data, arguments.folder, *drawn)
        result = {"folder": arguments.folder, "recordings": count, "classes": len(names)}
        text = f"{arguments.folder}: {count} {kind.plural} of {len(names)} classes"
        return print_result(result, text, arguments.json)
    dataset, classes = _opened(arguments)
    drawn = (arguments.per_class, arguments.size, classes, arguments.seed)
    total = sum(min(arguments.per_class, len(dataset.by_class[c])) for c in classes)
    if total < arguments.per_class * len(classes):
        say(f"--per-class {arguments.per_class}: some classes have fewer images, {total} are there in all")
    with ProgressLine() as progress:
        count = export(_counted(dataset, total, progress), arguments.folder, *drawn, say)
    result = {"folder": arguments.folder, "images": count, "classes": len(classes)}
    print_result(
        with_old_keys(result), f"{arguments.folder}: {count} images of {len(classes)} classes", arguments.json
    )


def _counted(dataset, total: int, progress):
    """`dataset`, every image of which that is read counts as progress."""
    from dataclasses import replace
    from itertools import count

    done = count(1)

    def read(i, size):
        image = dataset.read(i, size)
        progress("images", min(next(done), total), total, None)
        return image

    return replace(dataset, read=read)


def _pack(arguments) -> None:
    from tinytrain.base.progress import ProgressLine
    from tinytrain.datasets.pack_sources import open_source
    from tinytrain.datasets.pack_writer import PackForm, write_pack
    from tinytrain.episode.input_facts import file_lines
    from tinytrain.network.input_spec import InputSpec

    if os.path.splitext(arguments.out)[1] != ".npz":
        raise UsageError("usage", f"{arguments.out!r} must end in .npz, or no command could read it")
    check_outputs(arguments.out)
    dataset, more = open_source(arguments.data, arguments.classes)
    _classes(arguments, dataset.n_classes)
    dataset.images([[0]]).check_kind(InputSpec())
    say(*file_lines(dataset.provenance))
    form = PackForm(
        size=arguments.size, raw=arguments.raw, grey=arguments.grey, per_class=arguments.per_class,
        seed=arguments.seed,
    )  # fmt: skip
    with ProgressLine() as progress:
        count = write_pack(dataset, arguments.out, form, more, say, progress)
    nbytes = os.path.getsize(arguments.out)
    result = {"out": arguments.out, "images": count, "classes": dataset.n_classes, "bytes": nbytes}
    text = f"{arguments.out}: {count} images of {dataset.n_classes} classes, {format_bytes(nbytes)}"
    print_result(with_old_keys(result), text, arguments.json)


def _opened(arguments):
    from tinytrain.datasets import open_dataset
    from tinytrain.episode.input_facts import file_lines
    from tinytrain.network.input_spec import InputSpec

    dataset = open_dataset(arguments.data)
    dataset.images([[0]]).check_kind(InputSpec())
    say(*file_lines(dataset.provenance))
    return dataset, _classes(arguments, dataset.n_classes)


def _classes(arguments, there: int) -> range:
    """The first ``--classes`` of those that are `there`, all without it; fewer than asked for is said."""
    asked = arguments.classes or there
    if asked > there:
        say(f"--classes {asked}: {arguments.data} has {there}, all of which are taken")
    return range(min(asked, there))
