"""The command line: finds the command, and turns every error into one line and an exit code."""

import importlib

from tinytrain import __version__
from tinytrain.base.answer import ANSWER
from tinytrain.base.console import HelpFormatter, Parser, guarded, suggestion
from tinytrain.base.errors import UsageError
from tinytrain.base.notices import NOTICES

# Name -> (module in tinytrain.cli.commands, summary).
COMMANDS = {
    "adapt": ("adapt", "adapt a network to a few images per class"),
    "plan": ("plan", "show what would be trained and what it costs, without training"),
    "simulate": ("simulate", "run an adaptation on a simulated board and show its cost there"),
    "predict": ("predict", "predict class and confidence of images"),
    "eval": ("evaluate", "show accuracy and confusion matrix on a folder of images"),
    "export": ("export", "write the adapted network as a plain network file"),
    "apply": ("apply", "put a delta on trial in a store"),
    "confirm": ("confirm", "keep the delta that is on trial"),
    "rollback": ("rollback", "go back to the previous delta"),
    "status": ("status", "show the deltas of a store"),
    "import": ("import_checkpoint", "convert a published checkpoint or an ONNX model to a network file"),
    "info": ("info", "show layers, shapes, parameters and costs of a network"),
    "backbones": ("backbones", "list backbones by name, download published ones"),
    "warmup": ("warmup", "compile all kernels and keep them on disk"),
    "doctor": ("doctor", "check this machine and installation, and show remedies"),
    "meta-train": ("meta_train", "train a network on few-shot episodes of many domains"),
    "pretrain": ("pretrain", "train a network from random weights, with or without a teacher"),
    "bench": ("bench", "compare policies on paired episodes, tune learning rates, write reports"),
    "search": ("search", "search what SparseUpdate should train of a network"),
    "data": ("data", "list, check, preview and export image data"),
}

HELP = """usage: tinytrain COMMAND ...

Few-shot adaptation of a small convolutional network within a fixed memory and compute budget.

commands:
{commands}

examples:
  tinytrain adapt --shots 5 --budget 1MB
  tinytrain adapt photos/ --backbone net.safetensors --budget 512kB --out mine.safetensors
  tinytrain predict mine.safetensors new.jpg --backbone net.safetensors

'tinytrain COMMAND --help' explains a command. Results go to stdout, all other messages to stderr.
With --json, stdout is one object: the result or {{"error": {{"code", "message", "exit_code"}}}}.

exit codes:
  0    done
  2    usage: the command line has no valid meaning
  3    bad input: a file, image, network or episode is missing, broken or unsuitable
  4    infeasible budget: nothing was started; the message names the smallest feasible budget
  5    adaptation refused: the old weights are kept
  6    storage or memory failed: the result could not be written, another process holds the store
       or the files of a run, or memory ran out; no half-written file is left
  7    the simulated board is too small; the result says what is missing and what would fit
  130  interrupted
"""


def help_text() -> str:
    rows = [f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items()]
    return HELP.format(commands="\n".join(rows))


def run(arguments: list[str]) -> int | None:
    """Run a command line and return its exit code (None for 0). Raises its errors."""
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
    command = importlib.import_module(f"tinytrain.cli.commands.{COMMANDS[name][0]}")
    parser = Parser(
        prog=f"tinytrain {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{command.EXAMPLES}\n'tinytrain --help' lists the exit codes.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    parsed = parser.parse(arguments[1:])
    NOTICES.begin(getattr(parsed, "quiet", False))
    return command.run(parsed)


def main(arguments: list[str] | None = None) -> int:
    """Run `arguments` (default: those of this process) and return the exit code."""
    ANSWER.begin()
    return guarded(run, arguments, json_errors=True)
