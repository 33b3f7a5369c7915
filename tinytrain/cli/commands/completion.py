"""``tinytrain completion``: print a script with which a shell completes command lines.

The script runs this command again, with the words up to the cursor in a variable, one a line. It answers with
the kind of path that may come (``-f`` a file, ``-d`` a folder, ``-`` none), and with the words that may come,
each with what it does if the shell shows that. So names are completed that this installation knows. What does
not begin with a kind is no answer: version 0.2 prints a script of its own.
"""

import argparse
import os
from importlib import import_module
from pathlib import Path

from tinytrain.base.answer import ANSWER
from tinytrain.cli.main import COMMANDS, parser_of

DESCRIPTION = (
    "Print a script with which a shell completes commands, options, names and files. Bash and fish load it "
    "from the folders below in every new shell; zsh does if the folder is in $fpath before compinit runs."
)
EXAMPLES = """\
  tinytrain completion bash > ~/.local/share/bash-completion/completions/tinytrain
  tinytrain completion zsh > ~/.zfunc/_tinytrain
  tinytrain completion fish > ~/.config/fish/completions/tinytrain.fish
"""
WORDS = "_TINYTRAIN_WORDS"
SCRIPTS = {
    "bash": """\
# Completion of tinytrain for bash; made by 'tinytrain completion bash'.
_tinytrain() {
    local IFS=$'\\n'
    local -x _TINYTRAIN_WORDS="${COMP_WORDS[*]:1:COMP_CWORD}$IFS"
    local found=($("$1" completion bash 2>/dev/null))
    [[ ${found[0]} == -* ]] || return 0
    COMPREPLY=("${found[@]:1}")
    if [[ ${found[0]} == -[fd] ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY+=($(compgen "${found[0]}" -- "${2#=}"))
    fi
}
complete -F _tinytrain tinytrain
""",
    "zsh": """\
#compdef tinytrain
# Completion of tinytrain for zsh; made by 'tinytrain completion zsh'.
_tinytrain() {
    local -a found
    found=("${(@f)$(_TINYTRAIN_WORDS="${(F)words[2,CURRENT]}"$'\\n' $words[1] completion zsh 2>/dev/null)}")
    local kind=$found[1]
    [[ $kind == -* ]] || return 0
    shift found
    (( $#found )) && _describe 'tinytrain' found
    case $kind in
        (-f) _files ;;
        (-d) _files -/ ;;
    esac
}
if [ "${funcstack[1]}" = _tinytrain ]; then _tinytrain "$@"; else compdef _tinytrain tinytrain; fi
""",
    "fish": """\
# Completion of tinytrain for fish; made by 'tinytrain completion fish'.
function __tinytrain
    set -l words (commandline -opc) (commandline -ct)
    set -lx _TINYTRAIN_WORDS (string join \\n -- $words[2..-1] | string collect -N)
    set -l found ($words[1] completion fish 2>/dev/null)
    string match -q -- '-*' "$found[1]"; or return 0
    printf '%s\\n' $found[2..-1]
    switch "$found[1]"
        case -f
            __fish_complete_path (commandline -ct)
        case -d
            __fish_complete_directories (commandline -ct)
    end
end
complete -c tinytrain -f -a '(__tinytrain)'
""",
}
BEFORE_TEXT = {"zsh": ":", "fish": "\t"}  # in a line of the answer, for shells that show what a word does
NONE, FILES, FOLDERS = "-", "-f", "-d"
# Beginnings of the metavar of an argument that takes a path; some arguments take one beside a name.
PATHS = {
    **dict.fromkeys(("FILE", "NET", "DELTA", "IMAGE", "LOG", "RECIPE", "MATRIX"), FILES),
    **dict.fromkeys(("DIR", "STORE"), FOLDERS),
}
ALSO_FILES = ("policy", "head", "data")
# An argument by its name in the code -> where its names stand, in a module or a folder of files.
NAMES = {
    **dict.fromkeys(("backbone", "network", "teacher"), "backbones.catalogue:NAMES"),
    "name": "backbones.catalogue:TIERS backbones.catalogue:PUBLISHED",
    "policy": "policies:SUMMARIES",
    "precision": "program.backends:SUMMARIES",
    "head": "heads:SUMMARIES",
    "board": "firmware_sim.boards.board:load_boards",
    "data": "datasets:DOMAINS datasets:PACKS datasets:DEVELOPMENT",
    "sets": "datasets:TARGETS",
    "recipe": "meta.training:recipes",
    "matrix": "meta.bench:matrices",
}


def add_arguments(parser) -> None:
    parser.add_argument("shell", choices=SCRIPTS, metavar="SHELL", help=", ".join(SCRIPTS))


def run(arguments) -> None:
    if (words := os.environ.get(WORDS)) is None:
        ANSWER.give(SCRIPTS[arguments.shell].rstrip("\n"))
        return
    kind, found = completed(words.split("\n")[:-1])
    before = BEFORE_TEXT.get(arguments.shell)
    rows = [f"{word}{before}{text}" if before and text else word for word, text in found.items()]
    ANSWER.give("\n".join([kind, *rows]))


def completed(words: list[str]) -> tuple[str, dict[str, str]]:
    """What may stand for the last of `words`, after ``tinytrain``: a kind of path, and words with texts."""
    # Bash makes three words of --option=value.
    *before, last = [word for word in words if word != "="] + [""] * (words[-1] == "=")
    kind, found = _following(before, last.startswith("-"))
    return kind, {word: text for word, text in found.items() if word.startswith(last)}


def _following(words: list[str], option: bool) -> tuple[str, dict[str, str]]:
    """What may follow these words: an `option`, or something else."""
    commands = {name: text for name, (_, text) in COMMANDS.items()}
    if not words:
        flags = {"--help": "list all commands", "--version": "print it"}
        return NONE, flags if option else {**commands, "help": "explain a command"}
    if words == ["help"]:
        return NONE, commands
    if words[0] not in commands:
        return NONE, {}
    parser, _ = parser_of(words[0])
    for word in words[1:]:
        parser = next((a.choices[word] for a in _inner(parser) if word in a.choices), parser)
    asks = parser._option_string_actions.get(words[-1])
    if asks and asks.nargs != 0:
        return _values([asks])
    if option:
        options = [(name, action) for action in parser._actions for name in action.option_strings]
        return NONE, {name: _text(parser, action) for name, action in options}
    if inner := _inner(parser):
        return NONE, {choice.dest: choice.help for choice in inner[0]._choices_actions}
    return _values([action for action in parser._actions if not action.option_strings])


def _inner(parser) -> list:
    """What has the actions of a command."""
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _values(arguments: list) -> tuple[str, dict[str, str]]:
    """What completes the values of these arguments."""
    words, kind = {}, NONE
    for action in arguments:
        metavar = action.metavar or ""
        if "=" not in metavar:
            known = action.choices or names_of(action.dest)
            words |= dict.fromkeys(map(str, known), "")
        paths = next((path for start, path in PATHS.items() if metavar.startswith(start)), NONE)
        paths = FILES if action.dest in ALSO_FILES else paths
        kind = paths if kind == NONE else kind
    return kind, words


def _text(parser, action: argparse.Action) -> str:
    """The first half of a sentence of the help of an option."""
    text = parser._get_formatter()._expand_help(action).split(";")[0].split(". ")[0]
    return " ".join(text.split())


def names_of(argument: str) -> list[str]:
    """The names that an argument takes. Only what is asked for is imported."""
    found = []
    for place in NAMES.get(argument, "").split():
        module, name = place.split(":")
        package = import_module(f"tinytrain.{module}")
        if (value := getattr(package, name, None)) is None:
            files = Path(package.__file__).with_name(name).glob("*.yaml")
            value = sorted(path.stem for path in files if "." not in path.stem)  # NAME.rates is no matrix
        found += [getattr(one, "name", one) for one in (value() if callable(value) else value)]
    return found
