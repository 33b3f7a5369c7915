"""``tinytrain data``: list, look at and export data packs and generated domains."""

from tinytrain.commands.common import add_json, at_least, check_outputs, print_result

DESCRIPTION = (
    "list: known packs and generated domains. preview: a contact sheet as PNG. export: pictures as a folder "
    "per class. Packs are looked for in the folder named by TINYTRAIN_DATA. Generated domains: signs (road "
    "signs), glyphs (handwritten characters), textures (materials) and leaves."
)
EXAMPLES = """\
  tinytrain data list
  tinytrain data preview signs -o signs.png
  tinytrain data export signs photos --per-class 20
"""


def add_arguments(parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="list|preview|export", required=True)
    add_json(actions.add_parser("list", help="known packs and domains"))
    preview = actions.add_parser("preview", help="one row of pictures per class, as PNG")
    preview.add_argument("data", metavar="NAME", help="pack, domain or folder")
    preview.add_argument("-o", "--out", metavar="FILE.png", required=True, help="picture to write")
    export = actions.add_parser("export", help="pictures as a folder per class")
    export.add_argument("data", metavar="NAME", help="pack, domain or folder")
    export.add_argument("folder", metavar="DIR", help="new or empty folder")
    for parser_, per_class in ((preview, 8), (export, 20)):
        parser_.add_argument("--classes", type=at_least(1), metavar="N", help="the first N classes only")
        parser_.add_argument("--per-class", type=at_least(1), default=per_class, metavar="N")
        parser_.add_argument("--size", type=at_least(1), default=128, metavar="PIXELS", help="default: 128")
        parser_.add_argument(
            "--seed", type=at_least(0), default=0, metavar="N", help="which pictures are drawn"
        )
        add_json(parser_)


def run(arguments) -> int:
    return {"list": _list, "preview": _preview, "export": _export}[arguments.action](arguments)


def _list(arguments) -> int:
    import os
    from pathlib import Path

    from tinytrain.datasets import DOMAINS, PACKS
    from tinytrain.datasets.packs import FOLDER_VARIABLE

    folder = os.environ.get(FOLDER_VARIABLE)
    rows = [
        {"name": name, "kind": "generated", "here": True, "licence": "no restrictions"} for name in DOMAINS
    ]
    for name, pack in PACKS.items():
        here = bool(folder) and (Path(folder) / pack.file).is_file()
        rows.append({"name": name, "kind": "pack", "here": here, "licence": pack.licence})
    lines = [
        f"{r['name']:<20} {r['kind']:<10} {'here' if r['here'] else '-':<5} {r['licence']}" for r in rows
    ]
    print_result({"data": rows}, "\n".join(lines), arguments.json)
    return 0


def _preview(arguments) -> int:
    import io

    from tinytrain.atomic import write_bytes
    from tinytrain.datasets.preview import contact_sheet

    check_outputs(arguments.out)
    dataset, classes = _opened(arguments)
    sheet = contact_sheet(dataset, classes, arguments.per_class, arguments.size, arguments.seed)
    file = io.BytesIO()
    sheet.save(file, "PNG")
    write_bytes(arguments.out, file.getvalue())
    result = {"out": arguments.out, "width": sheet.width, "height": sheet.height}
    print_result(result, f"{arguments.out}: {sheet.width} x {sheet.height} pixels", arguments.json)
    return 0


def _export(arguments) -> int:
    from tinytrain.datasets.preview import export

    dataset, classes = _opened(arguments)
    count = export(dataset, arguments.folder, arguments.per_class, arguments.size, classes, arguments.seed)
    result = {"folder": arguments.folder, "pictures": count}
    print_result(result, f"{arguments.folder}: {count} pictures", arguments.json)
    return 0


def _opened(arguments):
    from tinytrain.datasets import open_dataset

    dataset = open_dataset(arguments.data)
    return dataset, range(min(arguments.classes or dataset.n_classes, dataset.n_classes))
