"""What tests of ``tinytrain watch`` share beside the fixtures `made` and `place`."""

import json

from commandline import tt

from tinytrain.cli.commands import watch
from tinytrain.cli.main import parser_of

CLASSES = ("ant", "bee", "cat")


def backbone(root):
    return ("--backbone", root / "toy.safetensors")


def photos(made, name):
    return sorted((made / "new" / name).glob("*"))


def watched(place, *words):
    return tt("watch", *words, *backbone(place), "--json")


def session_of(place, *words):
    """What the command makes of `words`."""
    words = [str(word) for word in (*words, *backbone(place))]
    return watch.opened(parser_of("watch")[0].parse(words))


def rows(capsys, event=None):
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [row for row in found if row.get("event") == event]
