"""What tests of ``tinytrain watch`` share beside the fixtures `made` and `place`."""

import json

from commandline import tt

CLASSES = ("ant", "bee", "cat")


def backbone(root):
    return ("--backbone", root / "toy.safetensors")


def photos(made, name):
    return sorted((made / "new" / name).glob("*"))


def watched(place, *words):
    return tt("watch", *words, *backbone(place), "--json")


def rows(capsys, event=None):
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [row for row in found if row.get("event") == event]
