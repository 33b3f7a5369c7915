"""``tinytrain mask``: merge what several devices learnt so that only the sum shows."""

from tinytrain.cli.commands.common import (
    DELTA_HELP,
    add_action,
    add_json,
    check_outputs,
    open_delta,
    print_result,
)

DESCRIPTION = (
    "Merge deltas so that nobody sees more than the sum. The members of a round put files into a folder "
    "that all see: first all 'join', then each gives its part, whose masks cancel in the sum. A member that "
    "joined and gives nothing is let go by each of the others ('without'). Deltas must have heads of sums "
    "and no trained layers. A key is for one round and one delta."
)
EXAMPLES = """\
  tinytrain mask join kitchen.safetensors stick/ --key kitchen.key
  tinytrain mask give kitchen.safetensors stick/ --key kitchen.key
  tinytrain mask without stick/ cellar --key kitchen.key
  tinytrain mask sum stick/ -o house.safetensors
"""


def add_arguments(parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    texts = {
        "join": "make a key for the round; the member is called as its file",
        "give": "put the masked sums of the delta into the folder, once all have joined",
        "without": "let go of members that have joined and given no part",
        "sum": "make the delta of all parts",
    }
    signed = "file of public keys, by one of which every file that ends in .member must be signed"
    for (name, text), line in zip(texts.items(), EXAMPLES.splitlines(keepends=True), strict=True):
        action = add_action(actions, name, text, line)
        if name in ("join", "give"):
            action.add_argument("delta", metavar="DELTA", help=DELTA_HELP)
        action.add_argument("folder", metavar="ROUND", help="folder of the round")
        if name == "without":
            action.add_argument("dropped", metavar="MEMBER", nargs="+", help="names of those that are let go")
        if name == "sum":
            action.add_argument("-o", "--out", metavar="FILE", required=True, help="delta file to write")
        else:
            text = "own key, which nobody else may read"
            action.add_argument("--key", metavar="FILE", required=True, help=text)
        action.add_argument("--signed-by", metavar="KEYS", help=signed)
        add_json(action)


def run(arguments) -> None:
    from tinytrain.trust.masks import KINDS, MEMBER, PART, WITHOUT, Round

    here = Round(arguments.folder, arguments.signed_by)
    if arguments.action == "sum":
        check_outputs(arguments.out, needed=[path for path in here.folder.iterdir() if path.suffix in KINDS])
        return _sum(arguments, here)
    given = arguments.dropped if arguments.action == "without" else open_delta(arguments.delta)
    name = getattr(here, arguments.action)(given, arguments.key)
    file = name + {"join": MEMBER, "give": PART, "without": WITHOUT}[arguments.action]
    result = {"round": arguments.folder, "member": name, "file": file, "members": len(here.members)}
    text = f"{name}: {file} is in {arguments.folder}; members: {result['members']}, parts: {len(here.given)}"
    print_result(result, text, arguments.json)


def _sum(arguments, here) -> None:
    from tinytrain import kernels
    from tinytrain.delta.file import save_delta
    from tinytrain.delta.merge import sources_of
    from tinytrain.report.layout import count_of, worded

    delta = here.total(kernels.load())
    save_delta(arguments.out, delta)
    classes, images = list(delta.class_names), sum(row["images"] for row in sources_of(delta))
    result = {"out": arguments.out, "members": here.given, "classes": classes, "images": images}
    text = f"{arguments.out}: {len(here.given)} members, {len(classes)} classes, "
    text += worded(delta.report, count_of(images, "image"))
    print_result(result, text, arguments.json)
