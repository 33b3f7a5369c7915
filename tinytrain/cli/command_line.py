"""All commands with their arguments as values, read from the parsers: what completion is made of."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

FILES, FOLDERS = "files", "folders"
# Beginnings of the metavar of an argument that takes a path.
PATHS = {
    **dict.fromkeys(("FILE", "NET", "DELTA", "IMAGE", "LOG", "RECIPE", "MATRIX"), FILES),
    **dict.fromkeys(("DIR", "STORE"), FOLDERS),
}


@dataclass(frozen=True)
class Argument:
    """An option by its `names`, or a positional argument; `words` and `paths` complete its value."""

    names: tuple[str, ...]
    text: str
    takes_value: bool
    words: tuple[str, ...] = ()
    paths: str | None = None


@dataclass(frozen=True)
class Command:
    """The words of a command after ``tinytrain``, what it does, and its arguments."""

    words: tuple[str, ...]
    text: str
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.names]

    @property
    def positional(self) -> list[Argument]:
        return [argument for argument in self.arguments if not argument.names]


def all_commands() -> list[Command]:
    """``tinytrain`` itself, its commands, and their actions."""
    from tinytrain.cli.main import COMMANDS, parser_of

    names, found = known_names(), []
    for name, (_, text) in COMMANDS.items():
        found += _commands(parser_of(name)[0], (name,), text, names)
    top = (Argument(("--help",), "list all commands", False), Argument(("--version",), "print it", False))
    words = Argument((), "", True, ("help", *COMMANDS))
    of_help = Argument((), "", True, tuple(COMMANDS))
    return [Command((), "", (*top, words)), Command(("help",), "explain a command", (of_help,)), *found]


def known_names() -> dict[str, tuple[str, ...]]:
    """What completes an argument, by its name in the code: names that this installation knows."""
    from tinytrain.backbones.catalogue import NAMES, PUBLISHED, TIERS
    from tinytrain.datasets import DOMAINS, PACKS, TARGETS
    from tinytrain.firmware_sim.boards.board import load_boards
    from tinytrain.heads import SUMMARIES as HEADS
    from tinytrain.meta.bench.matrix import FOLDER as MATRICES
    from tinytrain.meta.training.recipe import FOLDER as RECIPES
    from tinytrain.policies import SUMMARIES

    return {
        "backbone": NAMES,
        "network": NAMES,
        "teacher": NAMES,
        "name": (*TIERS, *(row.name for row in PUBLISHED)),
        "policy": tuple(SUMMARIES),
        "head": tuple(HEADS),
        "board": tuple(load_boards()),
        "data": (*DOMAINS, *PACKS),
        "sets": tuple(TARGETS),
        "recipe": _stems(RECIPES),
        "matrix": tuple(name for name in _stems(MATRICES) if "." not in name),
    }


def _stems(folder) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def _commands(parser, words: tuple[str, ...], text: str, names: dict) -> Iterator[Command]:
    actions = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    arguments = [_argument(parser, action, names) for action in parser._actions if action not in actions]
    for action in actions:
        arguments.append(Argument((), "", True, tuple(action.choices)))
    yield Command(words, text, tuple(arguments))
    for action in actions:
        texts = {choice.dest: choice.help for choice in action._choices_actions}
        for name, parser_ in action.choices.items():
            yield from _commands(parser_, (*words, name), texts.get(name, ""), names)


def _argument(parser, action: argparse.Action, names: dict) -> Argument:
    metavar = action.metavar or ""
    words = tuple(map(str, action.choices or names.get(action.dest, ())))
    if "=" in metavar:
        words = ()
    paths = next((kind for start, kind in PATHS.items() if metavar.startswith(start)), None)
    if action.dest in ("policy", "head", "data"):  # these take a path, too
        paths = FILES
    text = parser._get_formatter()._expand_help(action).split(";")[0].split(". ")[0]
    return Argument(tuple(action.option_strings), " ".join(text.split()), action.nargs != 0, words, paths)
