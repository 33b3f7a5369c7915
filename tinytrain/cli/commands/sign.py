"""``tinytrain sign``: say whose a delta is."""

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import add_json, check_outputs, print_result

DESCRIPTION = (
    "Sign a file with your key (Ed25519): the signature is a small file beside it, FILE.sig. A checksum says "
    "that a file is whole, a signature says whose it is. --new-key makes a key that nobody else may read, "
    "and its public half, KEY.pub, for those who are to check. 'tinytrain apply --signed-by' takes signed "
    "deltas only."
)
EXAMPLES = """\
  tinytrain sign --new-key owner.key
  tinytrain sign mine.safetensors --key owner.key
  tinytrain sign mine.safetensors --check owner.key.pub
"""


def add_arguments(parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="delta, or any other file")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--key", metavar="KEY", help="private key to sign with")
    how.add_argument("--check", metavar="KEYS", help="only check: file of public keys, one after another")
    how.add_argument("--new-key", metavar="KEY", help="make a new private key, and KEY.pub")
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.base.files import read_bytes
    from tinytrain.trust import keys

    file, new = arguments.file, arguments.new_key
    if (file is None) != (new is not None) or not (arguments.key or arguments.check or new):
        raise UsageError("usage", "name a FILE with --key or --check, or make a --new-key and name no file")
    out = new or f"{file}{keys.SIGNATURE}"
    if new:
        check_outputs(new, new + keys.PUBLIC)
        name = keys.make_key(new)
        text = f"{out}: key {name}; give {out}{keys.PUBLIC} to those who are to check"
    elif arguments.key:
        check_outputs(out)
        name = keys.sign(file, arguments.key)
        text = f"{out}: signed with key {name}"
    else:
        out, name = None, keys.check_signed(file, read_bytes(file, keys.LARGEST), arguments.check)
        text = f"{file} is signed with key {name}"
    print_result({"file": file, "out": out, "key": name}, text, arguments.json)
