"""Words of a command line in any order that a person may type, and words of other tools."""

import argparse

import pytest
from cases import each
from commandline import tt

from tinytrain.cli.commands.completion import names_of
from tinytrain.cli.main import COMMANDS, OTHER_WORDS, parser_of

# A flag that most commands have, and one with a value.
BETWEEN = (["--json"], ["--quiet"], ["--seed", "1"], ["--once"], ["-o", "x"])


def lines():
    """(words of the action, names, parser) of every command and action that takes names."""
    for command in COMMANDS:
        yield from _lines(parser_of(command)[0], [command])


def _lines(parser, words):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _lines(inner, [*words, name])
            return
    names = [action for action in parser._actions if not action.option_strings]
    if names:
        values = [
            str(next(iter(action.choices))) if action.choices else f"name{k}"
            for k, action in enumerate(names)
        ]
        yield words, values, parser


@pytest.mark.parametrize("words, names, parser", [pytest.param(*row, id=" ".join(row[0])) for row in lines()])
def test_an_option_may_stand_anywhere_among_the_names(words, names, parser):
    required = [a for a in parser._actions if a.option_strings and a.required]
    needed = [word for action in required for word in (action.option_strings[-1], "needed.yaml")]
    whole = parser_of(words[0])[0]
    for option in (o for o in BETWEEN if parser.has(o[0])):
        last = whole.parse([*words[1:], *names, *option, *needed])
        for place in range(len(names) + 1):
            mixed = [*names[:place], *option, *needed, *names[place:]]
            assert vars(whole.parse([*words[1:], *mixed])) == vars(last), mixed


WITH_STORES = ["status", "confirm", "rollback", "apply", "predict", "eval", "export", "rename", "forget"]


@each("command", WITH_STORES)
def test_a_store_is_given_by_its_place_or_by_its_option(command):
    parser, _ = parser_of(command)
    others = {"apply": ["d"], "rename": ["a", "b"], "forget": ["a"]}.get(command, [])
    needed = ["--out", "x"] if command == "export" else []
    placed = [*others, "s"] if command == "apply" else ["s", *others]
    expected = parser.parse([*placed, *needed])
    for option in (["--store", "s"], ["--store=s"]):
        for k in range(len(others) + 1):
            assert parser.parse([*others[:k], *option, *needed, *others[k:]]) == expected


def test_a_store_that_is_given_twice_or_not_at_all_is_a_usage_mistake(capsys):
    for words, says in (
        (["status"], "required: STORE"),
        (["status", "--store"], "expected one argument"),
        (["status", "a", "--store", "b"], "unknown argument"),
        (["confirm", "--store", "a", "--store", "b"], "unknown argument"),
    ):
        assert tt(*words) == 2 and says in capsys.readouterr().err


def test_a_name_behind_two_dashes_is_no_option():
    parsed = parser_of("predict")[0].parse(["--json", "d", "--", "-x.jpg", "--store"])
    assert parsed.delta == "d" and parsed.images == ["-x.jpg", "--store"] and parsed.json


@each("word, command", [
    ("train", "adapt"), ("fit", "adapt"), ("Learn", "adapt"), ("finetune", "adapt"), ("trian", "adapt"),
    ("infer", "predict"), ("classify", "predict"), ("test", "eval"), ("evaluate", "eval"),
    ("daemon", "watch"), ("gui", "serve"), ("undo", "rollback"), ("adpat", "adapt"), ("statsu", "status"),
    ("pre-train", "pretrain"),
])  # fmt: skip
def test_a_word_of_another_tool_names_the_command_here(word, command, capsys):
    assert tt(word, "photos/") == 2
    assert f"no command {word!r}, did you mean {command}?" in capsys.readouterr().err


def test_words_of_other_tools_are_no_commands_and_stand_for_one_each():
    words = " ".join(OTHER_WORDS.values()).split()
    assert OTHER_WORDS.keys() <= COMMANDS.keys() and not set(words) & COMMANDS.keys()
    assert len(words) == len(set(words))


def test_help_of_bench_names_every_matrix_that_is_shipped():
    names = names_of("matrix")
    assert len(names) >= 6 and all(name in parser_of("bench")[0].description for name in names)
