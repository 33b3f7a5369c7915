"""The command line: finds the command, turns every error into one line and an exit code."""

import argparse
import importlib

from tinytrain import __version__
from tinytrain.base.answer import ANSWER
from tinytrain.base.console import Parser, guarded, suggestion
from tinytrain.base.errors import UsageError

# Name -> (module in tinytrain.cli.commands, what it does).
COMMANDS = {
    "adapt": ("adapt", "adapt a network to a few images per class"),
    "plan": ("plan", "say what would be trained and what it costs; train nothing"),
    "simulate": ("simulate", "run an adaptation on a simulated board and say what it would cost there"),
    "predict": ("predict", "class and confidence of images"),
    "eval": ("evaluate", "accuracy and confusion matrix on a folder of images"),
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
  3    bad input: a file, image, network or episode is missing, broken or unsuitable
  4    infeasible budget: nothing was started; the message names the smallest budget that works
  5    kept the old weights: the adaptation was refused
  6    storage or memory failed: the result could not be written, another process has the store or the files
       of a run, or memory ran out; no half-written file is left
  7    does not fit the simulated board; the result says what is missing and what would fit
  130  interrupted
"""


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
    command = importlib.import_module(f"tinytrain.cli.commands.{COMMANDS[name][0]}")
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
