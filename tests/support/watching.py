"""What tests of ``tinytrain watch`` share beside the fixtures `made` and `place`."""

import json
from types import SimpleNamespace

from commandline import tt

from tinytrain.cli.commands import watch
from tinytrain.cli.main import parser_of
from tinytrain.stream.events import Verdict
from tinytrain.stream.readers import Readers

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


def verdict(key="a.png", name="bee", state="identified", confidence=0.75, seconds=0.0):
    found = SimpleNamespace(confidence=confidence, state=state, threshold=None)
    return Verdict(name, name or "bee", found, "stable", None, key, seconds)


def heard(reader, *events):
    """What was told of a reader that heard `events` and then ended."""
    told = []
    with Readers(told.append, [reader]) as all_readers:
        for event in events:
            all_readers(event)
    return [event.words() for event in told if event not in events]
