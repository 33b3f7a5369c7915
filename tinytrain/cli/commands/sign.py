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
    from pathlib import Path

    from tinytrain.trust import keys

    if (arguments.file is None) != (arguments.new_key is not None) or not (
        arguments.key or arguments.check or arguments.new_key
    ):
        raise UsageError("usage", "name a FILE with --key or --check, or make a --new-key and name no file")
    if arguments.new_key:
        check_outputs(arguments.new_key, arguments.new_key + keys.PUBLIC)
        name, out = keys.make_key(arguments.new_key), arguments.new_key
        text = f"{out}: key {name}; give {out}{keys.PUBLIC} to those who are to check"
    elif arguments.key:
        check_outputs(arguments.file + keys.SIGNATURE)
        name, out = keys.sign(arguments.file, arguments.key), arguments.file + keys.SIGNATURE
        text = f"{out}: signed with key {name}"
    else:
        data, out = keys.read_bytes(Path(arguments.file), keys.LARGEST), None
        name = keys.check_signed(arguments.file, data, arguments.check)
        text = f"{arguments.file} is signed with key {name}"
    print_result({"file": arguments.file, "out": out, "key": name}, text, arguments.json)
