"""What all commands share: the argument parser, one-line errors and exit codes."""

import argparse
import difflib
import errno
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

from tinytrain.base.answer import ANSWER
from tinytrain.base.errors import InputError, StorageError, TinytrainError, UsageError, visible
from tinytrain.base.interrupts import INTERRUPTS
from tinytrain.base.units import LARGEST, parse_fraction


def at_least(least: int):
    """An argparse type: a whole number not below `least`."""

    def whole_number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise UsageError("bad-number", f"{text!r} is not a whole number of at least {least}")
        if int(text) > LARGEST:
            raise UsageError("bad-number", f"{text!r} is above {LARGEST:,}, the largest number allowed")
        return int(text)

    return whole_number


IMAGE_COMMANDS = ("adapt", "predict", "eval", "data")
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
INTERRUPTED = 130


WIDEST_HELP = 100  # columns
MANY_OPTIONS = 6  # above it a usage line names none of them
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
        usual = action.default not in (None, False, argparse.SUPPRESS) and not isinstance(
            action.default, list
        )
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


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with a suggestion if an option was misspelt.

    `sections` maps titles of the help to names of arguments; those that none of them names come last.
    """

    def __init__(self, *arguments, sections: Mapping[str, Sequence[str]] | None = None, **options):
        super().__init__(*arguments, **options)
        self.sections = sections or {}

    def error(self, message: str):
        raise UsageError("usage", f"{message}; see {self.prog} --help")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        self.usage = self._short_usage()  # while it parses intermixed, argparse changes what this is made of
        # Otherwise argparse takes an empty list for images that stand behind an option.
        mixed = any(action.nargs == "*" for action in self._actions)
        parsed, unknown = (self.parse_known_intermixed_args if mixed else self.parse_known_args)(arguments)
        if unknown:
            options = [o for o in self._option_string_actions if o.startswith("--")]
            self.error(f"unknown argument {unknown[0]}{suggestion(unknown[0].split('=')[0], options)}")
        return parsed

    def has(self, option: str) -> bool:
        """Whether there is an option of this name."""
        return option in self._option_string_actions

    def format_help(self) -> str:
        self.usage = self.usage or self._short_usage()
        if not self.sections:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, actions in self._sectioned().items():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _sectioned(self) -> dict[str, list[argparse.Action]]:
        left = {action.dest: action for action in self._actions}
        found = {
            title: [left.pop(name) for name in names if name in left]
            for title, names in self.sections.items()
        }
        return found | {"others": list(left.values())}

    def _short_usage(self) -> str | None:
        """A usage line without the optional options, if these are many; None for that of argparse."""
        options = [a for a in self._actions if a.option_strings and not a.required]
        if len(options) <= MANY_OPTIONS:
            return None
        needed = [a for a in self._actions if a.option_strings and a.required]
        words = [_word(a) for a in self._actions if not a.option_strings]
        words += [f"{_long_name(a)} {a.metavar}" for a in needed]
        return " ".join(["%(prog)s", *words, "[OPTION ...]"])


def _long_name(action: argparse.Action) -> str:
    return next(option for option in action.option_strings if option.startswith("--"))


def _word(action: argparse.Action) -> str:
    """A positional argument in a usage line."""
    name = action.metavar or action.dest
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(action.nargs, str(name))


def suggestion(word: str, known) -> str:
    """``, did you mean X?`` if a word of `known` is close to `word`, else an empty string."""
    closest = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f", did you mean {closest[0]}?" if closest else ""


def guarded(
    program: Callable[[list[str]], int | None], arguments: list[str] | None = None, json_errors: bool = False
) -> int:
    """Run `program` on `arguments` (default: those of this process) and return its exit code.

    An error or an interrupt becomes one line on stderr and an exit code. If `json_errors` is true and the
    arguments contain ``--json``, it also becomes an object on stdout, unless a result was printed.
    If `arguments` are given, signals are handled as before afterwards. Otherwise the process is about to
    end: it ignores the first signal, and a second signal ends it at once.
    """
    words = sys.argv[1:] if arguments is None else arguments
    outer, before = INTERRUPTS.heard, INTERRUPTS.listen()
    code = 1  # for a bug: Python prints its traceback later
    try:
        code = _code_of(program, words, json_errors and "--json" in words)
        return code
    except SystemExit as end:  # for example --help
        code = end.code or 0
        raise
    finally:
        if arguments is None:
            INTERRUPTS.end(code)
        else:
            INTERRUPTS.restore(before)
            INTERRUPTS.heard = outer


def _code_of(program: Callable[[list[str]], int | None], arguments: list[str], as_json: bool) -> int:
    try:
        INTERRUPTS.heard = True
        _open_closed_streams()
        # Printing a class name that the terminal cannot encode must not end a run.
        sys.stdout.reconfigure(errors="backslashreplace")
        code = program(arguments) or 0
        sys.stdout.flush()
        INTERRUPTS.heard = False
        return code
    except BaseException as error:
        INTERRUPTS.heard = False
        if isinstance(error, BrokenPipeError):
            _discard_stdout()  # the reader closed the pipe
            return 0
        known = _known(error, arguments)
        if known is None:
            raise
        return _failed(known, as_json)


def _memory_remedy(arguments: list[str]) -> str:
    """How the command can be run with less memory."""
    if arguments and arguments[0] in IMAGE_COMMANDS:
        return "give fewer or smaller images"
    return "end other programs, or give a smaller network or file"


def _open_closed_streams() -> None:
    """Open closed descriptors 0 to 2 as /dev/null, so that no other file gets their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", errors="backslashreplace"))  # noqa: SIM115 - until the end


class _InterruptError(TinytrainError):
    exit_code = INTERRUPTED

    def __str__(self):
        return self.message


def _known(error: BaseException, arguments: list[str]) -> TinytrainError | None:
    """`error` as a TinytrainError; None for a bug and for SystemExit."""
    if isinstance(error, TinytrainError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return _InterruptError("interrupted", "interrupted before it was done")
    if isinstance(error, MemoryError):
        text = f"the machine has no memory left; {_memory_remedy(arguments)}"
        return StorageError("out-of-memory", text)
    if not isinstance(error, OSError):
        return None
    if error.errno in STORAGE_ERRORS:
        return StorageError("write-failed", f"{error.strerror}; free some space and run again")
    why = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        why = f"{os.fsdecode(error.filename)}: {why}; check the path and its rights"
    return InputError("system", why)


def _failed(error: TinytrainError, as_json: bool) -> int:
    line = re.sub(r"\s+", " ", str(error))
    # A file name in the message must not send control characters to the terminal.
    print(f"tinytrain: {visible(line)}", file=sys.stderr)
    try:
        if as_json:
            ANSWER.give_error(error)
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
    return error.exit_code


def _discard_stdout() -> None:
    """Send stdout to /dev/null, because Python writes the buffered text again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def confidence(text: str) -> float:
    """An argparse type: a fraction of at most 1."""
    if (fraction := parse_fraction(text)) > 1:
        raise UsageError("bad-share", f"{text!r} is above 100 %; write a confidence such as 60%")
    return fraction
