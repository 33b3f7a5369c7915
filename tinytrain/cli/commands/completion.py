"""``tinytrain completion``: print a script with which a shell completes command lines."""

from tinytrain.base.answer import ANSWER
from tinytrain.cli.completion import SCRIPTS

DESCRIPTION = (
    "Print a script with which a shell completes commands, options, names and files. Bash and fish load it "
    "from the folders below in every new shell; zsh does if the folder is in $fpath before compinit runs."
)
EXAMPLES = """\
  tinytrain completion bash > ~/.local/share/bash-completion/completions/tinytrain
  tinytrain completion zsh > ~/.zfunc/_tinytrain
  tinytrain completion fish > ~/.config/fish/completions/tinytrain.fish
"""


def add_arguments(parser) -> None:
    parser.add_argument("shell", choices=SCRIPTS, metavar="SHELL", help=", ".join(SCRIPTS))


def run(arguments) -> int:
    from tinytrain.cli.command_line import all_commands

    ANSWER.give(SCRIPTS[arguments.shell](all_commands()).rstrip("\n"))
    return 0
