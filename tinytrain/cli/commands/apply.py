"""``tinytrain apply``: put a delta on trial in a store."""

import os

from tinytrain.cli.commands.common import (
    DELTA_HELP,
    add_json,
    add_store,
    open_delta,
    print_result,
    say_what_goes,
)

DESCRIPTION = (
    "Put a delta on trial in a store. 'tinytrain confirm' keeps it. Without confirmation it is dropped after "
    "two starts, and the previous delta is used again. A start is a 'tinytrain predict' with the store, or "
    "the beginning of a 'watch' or 'serve'. After a power cut, either the old or the new delta is in use."
)
EXAMPLES = """\
  tinytrain apply mine.safetensors --store state/
  tinytrain apply mine.safetensors --store state/ --signed-by owner.key.pub
"""


def add_arguments(parser) -> None:
    parser.add_argument("delta", metavar="DELTA", help=f"{DELTA_HELP}, with what was learnt since")
    add_store(parser, "folder of the store; created if its parent folder exists")
    parser.add_argument(
        "--signed-by", metavar="KEYS",
        help="file of public keys: the delta must be signed with one of them ('tinytrain sign'), and so must "
        "everything that is applied to this store from now on",
    )  # fmt: skip
    add_json(parser)


def run(arguments) -> None:
    from tinytrain.store import TRIAL_STARTS, Store

    say_what_goes(arguments.store, over=True)
    store = Store(arguments.store)
    if os.path.isdir(arguments.delta) and arguments.signed_by is None:
        generation = store.commit(open_delta(arguments.delta))
    else:
        generation = store.commit_file(arguments.delta, arguments.signed_by)
    result = {"store": arguments.store, "generation": generation, "starts_left": TRIAL_STARTS}
    text = f"generation {generation} is on trial for {TRIAL_STARTS} starts; keep it with "
    text += f"'tinytrain confirm --store {arguments.store}'"
    print_result(result, text, arguments.json)
