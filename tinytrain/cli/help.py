"""The help of all commands together, and the sections in the help of one. Imports nothing heavy."""

from collections.abc import Mapping

# Sections of `tinytrain --help`, in order: name of a command -> (module in tinytrain.cli.commands, summary).
COMMAND_GROUPS = {
    "start here": {
        "adapt": ("adapt", "adapt a network to a few images per class"),
        "check": ("check", "show whether images are enough, and what more of them would bring"),
        "predict": ("predict", "predict class and confidence of images"),
        "eval": ("evaluate", "show accuracy on labelled images, and what went wrong"),
        "plan": ("plan", "show what would be trained and what it costs, without training"),
    },
    "on a device": {
        "watch": ("watch", "predict images as they come, and learn from corrections"),
        "serve": ("serve", "open a page: collect images, learn, watch the camera, correct"),
        "warmup": ("warmup", "compile all kernels and keep them on disk"),
        "doctor": ("doctor", "check this machine and installation, and show remedies"),
        "apply": ("apply", "put a delta on trial in a store"),
        "confirm": ("confirm", "keep the delta that is on trial"),
        "rollback": ("rollback", "go back to the previous delta"),
        "status": ("status", "show the deltas of a store"),
        "rename": ("rename", "give a class of a delta another name"),
        "forget": ("forget", "take a class out of a delta"),
        "merge": ("merge", "make one delta of what several devices learnt"),
        "mask": ("mask", "merge deltas so that nobody sees more than the sum"),
        "sign": ("sign", "say whose a delta is, or check it"),
        "federate": ("federate", "the same over a network, in rounds"),
    },
    "images and networks": {
        "data": ("data", "list, check, preview, export and pack image data"),
        "backbones": ("backbones", "list backbones by name, download published ones"),
        "import": ("import_checkpoint", "convert a published checkpoint or an ONNX model to a network file"),
        "calibrate": ("calibrate", "give a network the codes by which it runs in int8"),
        "forecast": ("forecast", "predict how a series of numbers in a CSV file goes on"),
        "info": ("info", "show layers, shapes, parameters and costs of a network"),
        "export": ("export", "write the adapted network as ONNX, LiteRT or network file"),
        "emit": ("emit", "write a C library that adapts on a microcontroller"),
    },
    "offline, on a PC": {
        "kit": ("kit", "make a folder that installs on a board without a network"),
        "simulate": ("simulate", "run an adaptation on a simulated board and show its cost there"),
        "bench": ("bench", "compare policies on paired episodes, tune learning rates"),
        "pretrain": ("pretrain", "train a network from random weights, with or without a teacher"),
        "meta-train": ("meta_train", "train a network on few-shot episodes of many domains"),
        "search": ("search", "search what SparseUpdate should train of a network"),
    },
    "shell": {
        "completion": ("completion", "print a script that completes commands in a shell"),
    },
}
COMMANDS = {name: row for rows in COMMAND_GROUPS.values() for name, row in rows.items()}
START = "start here"

_IMAGES = (
    "folder", "data", "background", "way", "shots", "queries", "episode", "flip", "seed", "source", "add",
)  # fmt: skip
_BUDGET = ("budget", "macs", "macs_mode", "seconds", "precision")
_LIMITS = ("backbone", *_BUDGET, "policy", "head", "plan", "target")
_METHOD = (*_LIMITS, "start", "replay", "adapt", "train", "force", "threads")
_OUTPUT = ("reject", "out", "store", "report", "program", "plot", "json", "quiet", "verbose", "help")
_ADAPTING = {"images": _IMAGES, "budget and method": _METHOD, "output": _OUTPUT}
_PREDICTED = ("images", "files_from", "null", "strangers")
_PREDICTING = {"delta": ("delta", "store", "backbone"), "images": _PREDICTED, "output": _OUTPUT}
# Command -> sections of its help, in order: the names of its arguments in the code.
SECTIONS = {
    **dict.fromkeys(("adapt", "check", "plan", "emit"), _ADAPTING),
    "simulate": {"board": ("board", "boards", "calibrate", "battery"), **_ADAPTING},
    **dict.fromkeys(("predict", "eval"), _PREDICTING),
}

USAGE = """usage: tinytrain COMMAND ...

Few-shot adaptation of a small network within a fixed memory and compute budget.
"""
EXAMPLES = """
examples:
  tinytrain data export leaves photos/      # sample images, if you have none
  tinytrain adapt photos/ --out mine.safetensors
  tinytrain predict mine.safetensors new.jpg
"""
SHORT_END = "\n'tinytrain --help' lists all commands, 'tinytrain help COMMAND' explains one.\n"
END = """
'tinytrain help COMMAND' explains a command. Results go to stdout, all other
messages to stderr. With --json, stdout is one object: the result or
{"error": {"code", "message", "exit_code"}}.

exit codes:
  0    done
  2    usage: the command line has no valid meaning
  3    bad input: a file, image, network or episode is missing, broken or
       unsuitable
  4    infeasible budget: nothing was started; the message names the smallest
       feasible budget
  5    adaptation refused, with or without --out: the old weights are kept
  6    storage or memory failed: the result could not be written, another
       process holds the store or the files of a run, or memory ran out; no
       half-written file is left
  7    the simulated board is too small; the result says what is missing and
       what would fit
  130  interrupted
"""


def full_help() -> str:
    """All commands by section, and the exit codes."""
    return "\n".join([USAGE, *map(_section, COMMAND_GROUPS)]) + EXAMPLES + END


def short_help() -> str:
    """What to type first."""
    return f"{USAGE}\n{_section(START)}{EXAMPLES}{SHORT_END}"


def _section(title: str) -> str:
    rows = COMMAND_GROUPS[title].items()
    return f"{title}:\n" + "".join(f"  {name:<10}  {summary}\n" for name, (_, summary) in rows)


def listed(summaries: Mapping[str, str]) -> str:
    """Policies or heads with half a line each."""
    width = max(map(len, summaries))
    return "".join(f"  {name:<{width}}  {text}\n" for name, text in summaries.items())
