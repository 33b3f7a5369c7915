"""The command line: finds the command, and turns every error into one line and an exit code."""

import importlib
import os
import sys
import threading
from types import ModuleType

from tinytrain import __version__
from tinytrain.base.answer import ANSWER
from tinytrain.base.console import Parser, guarded, suggestion
from tinytrain.base.errors import UsageError
from tinytrain.base.help_format import HelpFormatter
from tinytrain.base.notices import NOTICES
from tinytrain.base.progress import CompilingLine
from tinytrain.base.shell import quoted
from tinytrain.cli.help import SECTIONS, full_help, head_lines, policy_lines, short_help
from tinytrain.kernels.compile_cache.watch import WATCH

# Name -> (module in tinytrain.cli.commands, summary).
COMMANDS = {
    "check": ("check", "show whether images are enough, and what more of them would bring"),
    "adapt": ("adapt", "adapt a network to a few images per class"),
    "plan": ("plan", "show what would be trained and what it costs, without training"),
    "simulate": ("simulate", "run an adaptation on a simulated board and show its cost there"),
    "predict": ("predict", "predict class and confidence of images"),
    "watch": ("watch", "predict images as they come, and learn from corrections"),
    "eval": ("evaluate", "show accuracy on labelled images, and what went wrong"),
    "rename": ("rename", "give a class of a delta another name"),
    "forget": ("forget", "take a class out of a delta"),
    "export": ("export", "write the adapted network as ONNX, LiteRT or network file"),
    "emit": ("emit", "write a C library that adapts on a microcontroller"),
    "apply": ("apply", "put a delta on trial in a store"),
    "confirm": ("confirm", "keep the delta that is on trial"),
    "rollback": ("rollback", "go back to the previous delta"),
    "status": ("status", "show the deltas of a store"),
    "import": ("import_checkpoint", "convert a published checkpoint or an ONNX model to a network file"),
    "calibrate": ("calibrate", "give a network the codes by which it runs in int8"),
    "info": ("info", "show layers, shapes, parameters and costs of a network"),
    "backbones": ("backbones", "list backbones by name, download published ones"),
    "warmup": ("warmup", "compile all kernels and keep them on disk"),
    "doctor": ("doctor", "check this machine and installation, and show remedies"),
    "meta-train": ("meta_train", "train a network on few-shot episodes of many domains"),
    "pretrain": ("pretrain", "train a network from random weights, with or without a teacher"),
    "bench": ("bench", "compare policies on paired episodes, tune learning rates"),
    "search": ("search", "search what SparseUpdate should train of a network"),
    "data": ("data", "list, check, preview, export and pack image data"),
    "completion": ("completion", "print a script that completes commands in a shell"),
}
# Command -> what other tools call it.
OTHER_WORDS = {
    "adapt": "train fit learn finetune fine-tune tune retrain transfer",
    "predict": "infer inference classify recognise recognize identify detect label run",
    "eval": "test score validate accuracy metrics",
    "watch": "serve stream live camera monitor listen daemon",
    "rollback": "undo revert restore",
    "confirm": "accept keep commit",
    "apply": "deploy install load",
    "forget": "remove delete unlearn",
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


def help_text() -> str:
    return full_help(COMMANDS)


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
    tables = {"policy": ("policies", policy_lines), "head": ("heads", head_lines)}
    listed = (f"{t}:\n{lines()}\n" for name, (t, lines) in tables.items() if parser.has(f"--{name}"))
    parser.epilog = (
        f"{''.join(listed)}examples:\n{command.EXAMPLES}\n'tinytrain --help' lists the exit codes."
    )
    return parser, command


def run(arguments: list[str]) -> int | None:
    """Run a command line and return its exit code (None for 0). Raises its errors."""
    if not arguments:
        print(short_help(COMMANDS), end="", file=sys.stderr)
        return UsageError.exit_code
    if arguments[0] in ("-h", "--help") or arguments == ["help"]:
        print(help_text(), end="")
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


def _spare_threads() -> None:
    """Let BLAS start no threads if the system allows too few: it would interrupt the process.

    BLAS reads the variable when numpy is imported, which no module has done yet.
    """
    held = threading.Event()
    probes = [threading.Thread(target=held.wait, daemon=True) for _ in range(1, os.cpu_count() or 1)]
    try:
        for probe in probes:
            probe.start()
    except RuntimeError:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    held.set()


def _run_and_tell(arguments: list[str]) -> int | None:
    """`run`, which also says on stderr when kernels are compiled."""
    with CompilingLine() as line, WATCH.told(line):
        return run(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run `arguments` (default: those of this process) and return the exit code.

    The notice about compiled kernels appears only when run as a program, not when called from Python.
    """
    ANSWER.begin()
    if arguments is None:
        _spare_threads()
    return guarded(_run_and_tell if arguments is None else run, arguments, json_errors=True)
