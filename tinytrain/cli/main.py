"""The command line: finds the command, and turns every error into one line and an exit code."""

import gc
import importlib
import os
import sys
from types import ModuleType

from tinytrain import __version__
from tinytrain.base.answer import ANSWER
from tinytrain.base.console import Parser, guarded, suggestion
from tinytrain.base.errors import UsageError
from tinytrain.base.help_format import HelpFormatter
from tinytrain.base.notices import NOTICES
from tinytrain.base.progress import CompilingLine
from tinytrain.base.shell import quoted
from tinytrain.cli.help import COMMANDS, SECTIONS, full_help, listed, short_help
from tinytrain.kernels.compile_cache.watch import WATCH

# Command -> what other tools call it.
OTHER_WORDS = {
    "adapt": "train fit learn finetune fine-tune tune retrain transfer",
    "serve": "page browser web server http ui gui",
    "predict": "infer inference classify recognise recognize identify detect label run",
    "eval": "test score validate accuracy metrics",
    "watch": "stream live camera monitor listen daemon",
    "rollback": "undo revert restore",
    "confirm": "accept keep commit",
    "apply": "deploy install load",
    "forget": "remove delete unlearn",
    "merge": "combine average sum",
    "federate": "flower flwr",
    "sign": "verify signature",
    "mask": "secure aggregate",
    "status": "state list ls",
    "import": "convert",
    "calibrate": "quantise quantize",
    "info": "show inspect describe summary",
    "backbones": "models download pull",
    "bench": "benchmark compare",
    "emit": "codegen firmware",
    "export": "save onnx tflite",
    "data": "dataset datasets images",
    "doctor": "diagnose env",
}


def parser_of(name: str) -> tuple[Parser, ModuleType]:
    """The parser of the command `name`, and its module. Raises UsageError."""
    if name not in COMMANDS:
        words = {word: command for command, words in OTHER_WORDS.items() for word in words.split()}
        hint = suggestion(name.lower(), COMMANDS, words)
        if not hint and os.path.isdir(name):
            hint = f"; for the images in this folder run: tinytrain adapt {quoted(name)}"
        raise UsageError("usage", f"no command {name!r}{hint}; see tinytrain --help")
    command = importlib.import_module(f"tinytrain.cli.commands.{COMMANDS[name][0]}")
    parser = Parser(
        prog=f"tinytrain {name}",
        description=command.DESCRIPTION,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
        sections=SECTIONS.get(name),
    )
    command.add_arguments(parser)
    tables = "".join(
        f"{plural}:\n{listed(importlib.import_module(f'tinytrain.{package}').SUMMARIES)}\n"
        for option, plural, package in (
            ("--precision", "precisions", "program.backends"),
            ("--policy", "policies", "policies"),
            ("--head", "heads", "heads"),
        )
        if parser.has(option)
    )
    parser.epilog = f"{tables}examples:\n{command.EXAMPLES}\n'tinytrain --help' lists the exit codes."
    return parser, command


def run(arguments: list[str]) -> int | None:
    """Run a command line and return its exit code (None for 0). Raises its errors."""
    if not arguments:
        print(short_help(), end="", file=sys.stderr)
        return UsageError.exit_code
    if arguments[0] in ("-h", "--help") or arguments == ["help"]:
        print(full_help(), end="")
        return 0
    if arguments in (["-V"], ["--version"]):
        print(f"tinytrain {__version__}")
        return 0
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    parser, command = parser_of(arguments[0])
    parsed = parser.parse(arguments[1:])
    parsed.words = ("tinytrain", *arguments)
    NOTICES.begin(getattr(parsed, "quiet", False))
    return command.run(parsed)


def _run_and_tell(arguments: list[str]) -> int | None:
    """`run`, which also says on stderr when kernels are compiled."""
    with CompilingLine() as line, WATCH.told(line):
        return run(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run `arguments` (default: those of this process) and return the exit code.

    The notice about compiled kernels appears only when run as a program, not when called from Python.
    """
    ANSWER.begin()
    if arguments is not None:
        return guarded(run, arguments, json_errors=True)
    # BLAS reads it when numpy is imported, which no module has done yet: products of numpy are small here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(10_000)  # imports leave many objects, and none of them is garbage
    code = guarded(_run_and_tell, json_errors=True)
    gc.disable()  # all memory goes with the process, and no search for garbage need precede that
    return code
