"""Scripts for bash, zsh and fish that complete command lines, written from a list of commands.

The first two find the command among the words before the cursor (``at``: ``/bench/run``), then complete the
value of the option before the cursor, or else options and what the command takes.
"""

from collections.abc import Iterator, Sequence
from shlex import quote

from tinytrain.cli.command_line import FILES, Argument, Command

BASH = """\
# Completion of tinytrain for bash; made by 'tinytrain completion bash'.
_tinytrain() {{
    local cur=$2 prev=$3 at="" words="" paths="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at/${{COMP_WORDS[i]}}" in
            {known}) at="$at/${{COMP_WORDS[i]}}" ;;
        esac
    done
    if [ "$cur" = "=" ]; then cur=""; elif [ "$prev" = "=" ]; then prev=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
    case "$at:$prev" in
{values}
        *) case "$at:$cur" in
{places}
        esac ;;
    esac
    local IFS=$'\\n'
    COMPREPLY=($(IFS=' ' compgen -W "$words" -- "$cur"))
    if [ -n "$paths" ]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY+=($(compgen "$paths" -- "$cur"))
    fi
}}
complete -F _tinytrain tinytrain
"""
ZSH = """\
#compdef tinytrain
# Completion of tinytrain for zsh; made by 'tinytrain completion zsh'.
_tinytrain() {{
    local at="" prev=${{words[CURRENT-1]}} i
    local -a found
    for ((i = 2; i < CURRENT; i++)); do
        case "$at/${{words[i]}}" in
            ({known}) at="$at/${{words[i]}}" ;;
        esac
    done
    case "$at:$prev" in
{values}
    esac
    case "$at:$PREFIX" in
{places}
    esac
}}
if [ "${{funcstack[1]}}" = _tinytrain ]; then _tinytrain "$@"; else compdef _tinytrain tinytrain; fi
"""
FISH = """\
# Completion of tinytrain for fish; made by 'tinytrain completion fish'.
function __tinytrain_at
    set -l at ""
    for word in (commandline -opc)[2..-1]
        contains -- "$at/$word" {known}; and set at "$at/$word"
    end
    test "$at" = "$argv[1]"
end
complete -c tinytrain -f
"""


def bash(commands: Sequence[Command]) -> str:
    values = [f"        {_at(c, o)}) {_bash(o.words, o.paths)} ;;" for c, o in _with_values(commands)]
    places = []
    for command in commands:
        at = _path(command)
        options = [name for option in command.options for name in option.names]
        places.append(f"            {at}:-*) {_bash(options, None)} ;;")
        words, paths = _taken(command)
        places.append(f"            {at}:*) {_bash(words, paths)} ;;")
    return BASH.format(known="|".join(_known(commands)), values="\n".join(values), places="\n".join(places))


def _bash(words: Sequence[str], paths: str | None) -> str:
    flag = "" if paths is None else "-f" if paths == FILES else "-d"
    return f"words={quote(' '.join(words))} paths={quote(flag)}"


def zsh(commands: Sequence[Command]) -> str:
    values = [f"        ({_at(c, o)}) {_zsh(o.words, o.paths)}return ;;" for c, o in _with_values(commands)]
    places = []
    for command in commands:
        at = _path(command)
        rows = [quote(f"{name}:{option.text}") for option in command.options for name in option.names]
        places.append(f"        ({at}:-*) found=({' '.join(rows)}); _describe -o option found ;;")
        if rows := _below(commands, command):
            rows = [quote(f"{c.words[-1]}:{c.text}") for c in rows]
            places.append(f"        ({at}:*) found=({' '.join(rows)}); _describe command found ;;")
        else:
            places.append(f"        ({at}:*) {_zsh(*_taken(command))};;")
    return ZSH.format(known="|".join(_known(commands)), values="\n".join(values), places="\n".join(places))


def _zsh(words: Sequence[str], paths: str | None) -> str:
    added = f"compadd -- {' '.join(map(quote, words))}; " if words else ""
    return added + ("" if paths is None else "_files; " if paths == FILES else "_files -/; ")


def fish(commands: Sequence[Command]) -> str:
    lines = []
    for command in commands:
        start = f"complete -c tinytrain -n {quote(f'__tinytrain_at {quote(_path(command))}')}"
        below = _below(commands, command)
        lines += [f"{start} -a {c.words[-1]} -d {quote(c.text)}" for c in below]
        if not below:
            words, paths = _taken(command)
            lines.append(f"{start}{_fish(words, paths)}")
        for option in command.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = f" -r{_fish(option.words, option.paths)}" if option.takes_value else ""
            lines.append(f"{start} {names}{value} -d {quote(option.text)}")
    return FISH.format(known=" ".join(_known(commands))) + "\n".join(lines) + "\n"


def _fish(words: Sequence[str], paths: str | None) -> str:
    folders = "(__fish_complete_directories)" if paths and paths != FILES else ""
    offered = " ".join([*words, folders]).strip()
    return (" -F" if paths == FILES else " -f") + (f" -a {quote(offered)}" if offered else "")


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def _path(command: Command) -> str:
    return "".join(f"/{word}" for word in command.words)


def _known(commands: Sequence[Command]) -> list[str]:
    return [_path(command) for command in commands if command.words]


def _below(commands: Sequence[Command], command: Command) -> list[Command]:
    """The commands that `command` is the beginning of."""
    return [c for c in commands if c.words[:-1] == command.words and c.words]


def _taken(command: Command) -> tuple[list[str], str | None]:
    """Words and kind of path that complete the positional arguments of a command."""
    found = command.positional
    return [w for a in found for w in a.words], next((a.paths for a in found if a.paths), None)


def _with_values(commands: Sequence[Command]) -> Iterator[tuple[Command, Argument]]:
    return ((c, option) for c in commands for option in c.options if option.takes_value)


def _at(command: Command, option: Argument) -> str:
    """The pattern of a shell for a command whose last word is this option."""
    return "|".join(f"{_path(command)}:{name}" for name in option.names)
