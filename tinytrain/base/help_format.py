"""How the help of a command is laid out: lines as wide as the terminal, and defaults of options."""

import argparse
import re
import shutil
import textwrap

WIDEST_HELP = 100  # columns
EXAMPLES = "examples:"  # the heading of command lines in an epilog
VALUE = re.compile(r"(?<= )(-[\w-]+) (?=[^-])")  # an option and the space before its value


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wraps every line at the width of the terminal, 100 columns at most. Every option shows its default.

    Indented lines of a text are rows of a table, or below EXAMPLES command lines.
    """

    def __init__(self, prog: str, **options):
        super().__init__(prog, **{"width": min(WIDEST_HELP, shutil.get_terminal_size().columns)} | options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        head, examples, commands = text.partition(EXAMPLES)
        lines = [*(_wrapped(line, width) for line in head.splitlines())]
        if examples:
            lines += [examples, *(_continued(line, width) for line in commands.splitlines()[1:])]
        return "\n".join(indent + line for line in lines)

    def _get_help_string(self, action: argparse.Action) -> str:
        usual = not isinstance(action.default, bool | list | None) and action.default != argparse.SUPPRESS
        tell = usual and action.option_strings and "default" not in action.help
        return action.help + ("; default: %(default)s" if tell else "")


def _wrapped(line: str, width: int) -> str:
    """A line of text, or a row of a table, in lines of at most `width` letters."""
    return textwrap.fill(line, width, subsequent_indent=" " * 4 if line[:1] == " " else "")


def _continued(line: str, width: int) -> str:
    """A command line, in lines of at most `width` letters that a shell reads as one."""
    if line[:1] != " ":
        return textwrap.fill(line, width)
    joined = VALUE.sub("\\1\0", line)  # an option stays with its value
    parts = textwrap.wrap(
        joined, width - 2, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False
    )
    return " \\\n".join(parts).replace("\0", " ")
