"""What all commands share: the argument parser, one-line errors and exit codes."""

import argparse
import difflib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from tinytrain.base.answer import ANSWER
from tinytrain.base.errors import (
    CancelledError,
    InputError,
    StorageError,
    TinytrainError,
    UsageError,
    visible,
)
from tinytrain.base.interrupts import INTERRUPTS
from tinytrain.base.units import LARGEST, parse_fraction


def at_least(least: int):
    """An argparse type: a whole number not below `least`."""

    def whole_number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise UsageError("usage", f"{text!r} is not a whole number of at least {least}")
        if int(text) > LARGEST:
            raise UsageError("usage", f"{text!r} is above {LARGEST:,}, the largest number allowed")
        return int(text)

    return whole_number


IMAGE_COMMANDS = ("adapt", "predict", "eval", "data")
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
MANY_OPTIONS = 6  # above it a usage line names none of them
STORE = "--store"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, with a suggestion if an option was misspelt.

    `sections` maps titles of the help to names of arguments; those that none of them names come last.
    """

    def __init__(self, *arguments, sections: Mapping[str, Sequence[str]] | None = None, **options):
        super().__init__(*arguments, **options)
        self.sections = sections or {}
        self._intermixing, self._store_first = False, None

    def error(self, message: str):
        raise UsageError("usage", f"{message}; see {self.prog} --help")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            options = [o for o in self._option_string_actions if o.startswith("--")]
            word, hint = unknown[0], suggestion(unknown[0].split("=")[0], options)
            if word in self._option_string_actions:
                hint = " behind --, where names are; options stand before that"
            elif word[:1] == "-" != word[1:2] and not hint:
                hint = "; if it is a name, write -- before the names"
            self.error(f"unknown argument {word}{hint}")
        return parsed

    def parse_known_args(self, args, namespace=None):
        """Options may stand anywhere among the names, also behind an action, whose parser is called by this.

        argparse alone takes an optional name for missing as soon as an option stands before it.
        """
        if self._intermixing or any(action.nargs == argparse.PARSER for action in self._actions):
            return super().parse_known_args(args, namespace)
        # Before names are parsed apart from options, which changes what the line is made of.
        self.usage = self.usage or self._short_usage() or self.format_usage().removeprefix("usage: ").strip()
        self._intermixing = True  # argparse comes back here for the options and for the names
        try:
            return self.parse_known_intermixed_args(self._with_store_in_place(list(args)), namespace)
        finally:
            self._intermixing = False

    def add_store_option(self, *, first: bool) -> None:
        """``--store DIR``, which stands for the `first` name or for the last one."""
        names = [_word(action) for action in self._actions if not action.option_strings]
        self._store_first, same = first, names[0 if first else -1]
        self.add_argument(STORE, metavar="DIR", default=argparse.SUPPRESS, help=f"the same as {same}")

    def _with_store_in_place(self, words: list[str]) -> list[str]:
        """`words` with each ``--store DIR`` as the name that it stands for."""
        end = words.index("--") if "--" in words else len(words)
        for k, word in enumerate(words[:end] if self._store_first is not None else ()):
            option, equals, value = word.partition("=")
            rest = words[k + 1 :] if equals else words[k + 2 :]
            if option == STORE and (equals or k + 1 < end):
                rest, value = words[:k] + rest, value if equals else words[k + 1]
                return self._with_store_in_place([value, *rest] if self._store_first else [*rest, value])
        return words

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


def suggestion(word: str, known, meant: Mapping[str, str] | None = None) -> str:
    """``, did you mean X?`` if a word of `known` is close to `word`, else an empty string.

    X is that word, or what `meant` says of a word that other tools have for it.
    """
    meant = {**dict.fromkeys(known), **(meant or {})}
    closest = difflib.get_close_matches(word, meant, n=1, cutoff=0.7)
    return f", did you mean {meant[closest[0]] or closest[0]}?" if closest else ""


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


def _known(error: BaseException, arguments: list[str]) -> TinytrainError | None:
    """`error` as a TinytrainError; None for a bug and for SystemExit."""
    if isinstance(error, TinytrainError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return CancelledError("interrupted", "interrupted before it was done")
    if isinstance(error, MemoryError):
        text = f"the machine has no memory left; {_memory_remedy(arguments)}"
        return StorageError("out-of-memory", text)
    if isinstance(error, RuntimeError) and any("start new thread" in str(e) for e in _causes(error)):
        return InputError("system", "the system starts no more threads; allow more (TasksMax=, ulimit -u)")
    if not isinstance(error, OSError):
        return None
    if error.errno in STORAGE_ERRORS:
        return StorageError("write-failed", f"{error.strerror}; free some space and run again")
    why = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        why = f"{os.fsdecode(error.filename)}: {why}; check the path and its rights"
    return InputError("system", why)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """`error` and those while which it was raised."""
    while error is not None:
        yield error
        error = error.__context__


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
        raise UsageError("usage", f"{text!r} is above 100 %; write a confidence such as 60%")
    return fraction
