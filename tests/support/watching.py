"""What tests of ``tinytrain watch`` share beside the fixtures `made` and `place`."""

import json

from commandline import tt

from tinytrain.cli.commands.watch import Opened
from tinytrain.cli.commands.watch_session import Session
from tinytrain.cli.main import parser_of

CLASSES = ("ant", "bee", "cat")


def backbone(root):
    return ("--backbone", root / "toy.safetensors")


def photos(made, name):
    return sorted((made / "new" / name).glob("*"))


def watched(place, *words):
    return tt("watch", *words, *backbone(place), "--json")


def parsed(*words):
    return parser_of("watch")[0].parse([str(word) for word in words])


def session_of(place, *words, keyboard=None):
    """What the command makes of `words`."""
    arguments = parsed(*words, *backbone(place))
    return Session(arguments, Opened.of(arguments), keyboard)


def rows(capsys, event=None):
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [row for row in found if row.get("event") == event]
