"""The command line: finds the command, turns every error into one line and an exit code."""

import argparse
import difflib
import errno
import importlib
import os
import re
import sys
from collections.abc import Callable

from tinytrain import __version__
from tinytrain.answer import ANSWER
from tinytrain.errors import InputError, StorageError, TinytrainError, UsageError, visible
from tinytrain.interrupts import INTERRUPTS

# Name -> (module in tinytrain.commands, what it does).
COMMANDS = {
    "adapt": ("adapt", "adapt a network to a few pictures per class"),
    "plan": ("plan", "say what would be trained and what it costs; train nothing"),
    "simulate": ("simulate", "run an adaptation on a simulated board and say what it would cost there"),
    "predict": ("predict", "class and confidence of pictures"),
    "eval": ("evaluate", "accuracy and confusion matrix on a folder of pictures"),
    "export": ("export", "write the adapted network as a plain network file"),
    "apply": ("apply", "put a delta into use in a store, on trial until it is confirmed"),
    "confirm": ("confirm", "keep the delta that is on trial"),
    "rollback": ("rollback", "go back to the delta before"),
    "status": ("status", "show what a store holds"),
    "import": ("import_checkpoint", "turn a published checkpoint or an ONNX model into a network file"),
    "info": ("info", "layers, shapes, parameters and costs of a network"),
    "backbones": ("backbones", "list backbones by name and download published ones"),
    "warmup": ("warmup", "compile all kernels now and keep them"),
    "doctor": ("doctor", "look at this machine and installation, with a remedy for what is wrong"),
    "meta-train": ("meta_train", "train a network on few-shot episodes of many domains"),
    "pretrain": ("pretrain", "train a network from random weights, or to follow a teacher"),
    "bench": ("bench", "compare policies on paired episodes; tune their rates; report"),
    "search": ("search", "find what SparseUpdate should train of a network"),
    "data": ("data", "list, look at, check and export data packs, target sets and generated domains"),
}

HELP = """usage: tinytrain COMMAND ...

Few-shot adaptation of a small convolutional network, inside a fixed memory and compute budget.

commands:
{commands}

examples:
  tinytrain adapt --shots 5 --budget 1MB
  tinytrain adapt photos/ --backbone net.safetensors --budget 512kB --out mine.safetensors
  tinytrain predict mine.safetensors new.jpg --backbone net.safetensors

'tinytrain COMMAND --help' explains a command. Results go to stdout, everything else to stderr. With --json
stdout holds one object: the result or, if there is none, {{"error": {{"code", "message", "exit_code"}}}}.

exit codes:
  0    done
  2    usage: the command line cannot mean anything
  3    bad input: a file, picture, network or episode is missing, broken or unsuitable
  4    infeasible budget: nothing was started; the message names the smallest budget that works
  5    kept the old weights: the adaptation was refused
  6    storage or memory failed: the result could not be written, another process has the store or the files
       of a run, or memory ran out; no half-written file is left
  7    does not fit the simulated board; the result says what is missing and what would fit
  130  interrupted
"""

GIVEN_PICTURES = ("adapt", "predict", "eval", "data")
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and, where something was misspelt, a suggestion."""

    def error(self, message: str):
        raise UsageError("usage", f"{message}; see {self.prog} --help")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        parsed, unknown = self.parse_known_args(arguments)
        if unknown:
            options = [o for o in self._option_string_actions if o.startswith("--")]
            self.error(f"unknown argument {unknown[0]}{suggestion(unknown[0].split('=')[0], options)}")
        return parsed


def suggestion(word: str, known) -> str:
    """``, did you mean X?`` where something known is close to `word`, else nothing."""
    closest = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {closest[0]}?" if closest else ""


def help_text() -> str:
    rows = [f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items()]
    return HELP.format(commands="\n".join(rows))


def run(arguments: list[str]) -> int | None:
    """Run a command line; errors are raised."""
    if arguments and arguments[0] in ("-h", "--help", "help"):
        print(help_text(), end="")
        return 0
    if arguments == ["--version"]:
        print(f"tinytrain {__version__}")
        return 0
    if not arguments:
        raise UsageError("usage", "no command given; see tinytrain --help")
    name = arguments[0]
    if name not in COMMANDS:
        raise UsageError("usage", f"no command {name!r}{suggestion(name, COMMANDS)}; see tinytrain --help")
    command = importlib.import_module(f"tinytrain.commands.{COMMANDS[name][0]}")
    parser = Parser(
        prog=f"tinytrain {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{command.EXAMPLES}\n'tinytrain --help' lists the exit codes.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return command.run(parser.parse(arguments[1:]))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, by default that of this process, and return its exit code."""
    ANSWER.begin()
    return guarded(run, arguments, json_errors=True)


def guarded(
    program: Callable[[list[str]], int | None], arguments: list[str] | None = None, json_errors: bool = False
) -> int:
    """Run `program` on `arguments`, by default those of this process, and return its exit code.

    Whatever ends it early, an interrupt too, is one line on stderr and a code of its own; with `json_errors`
    and ``--json`` among the arguments also an object on stdout, if no result was. An interrupt that
    comes later changes nothing. A process that was not given `arguments` is over with `program`: it ignores
    the first signal from then on, and the second ends it at once. Otherwise they are handled as before.
    """
    words = sys.argv[1:] if arguments is None else arguments
    outer, before = INTERRUPTS.heard, INTERRUPTS.listen()
    code = 1  # of a bug, whose traceback is still to be printed
    try:
        code = _code_of(program, words, json_errors and "--json" in words)
        return code
    except SystemExit as end:  # --help, for one
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
        # A class name that the terminal's encoding lacks must not end a run.
        sys.stdout.reconfigure(errors="backslashreplace")
        code = program(arguments) or 0
        sys.stdout.flush()
        INTERRUPTS.heard = False
        return code
    except BaseException as error:
        INTERRUPTS.heard = False
        if isinstance(error, BrokenPipeError):
            _discard_stdout()  # the reader has seen enough
            return 0
        known = _known(error, arguments)
        if known is None:
            raise
        return _failed(known, as_json)


def _less_to_do(arguments: list[str]) -> str:
    """What takes less memory, for the command that ran out of it."""
    if arguments and arguments[0] in GIVEN_PICTURES:
        return "give fewer or smaller pictures"
    return "end other programs, or give a smaller network or file"


def _open_closed_streams() -> None:
    """What whoever started this process has closed leads nowhere, and no other file takes its place."""
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
    """`error` with a code and an exit code; None for a bug, or for an end that was meant."""
    if isinstance(error, TinytrainError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return _InterruptError("interrupted", "interrupted before it was done")
    if isinstance(error, MemoryError):
        text = f"the machine has no memory left; {_less_to_do(arguments)}"
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
    # File names in a message must not be able to steer the terminal.
    print(f"tinytrain: {visible(line)}", file=sys.stderr)
    try:
        if as_json:
            ANSWER.give_error(error)
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
    return error.exit_code


def _discard_stdout() -> None:
    """What is still buffered cannot be written; without this, Python would try again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
