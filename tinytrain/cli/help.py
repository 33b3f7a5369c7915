"""The help of all commands together, and the sections in the help of one. Imports nothing heavy."""

from collections.abc import Mapping

# Sections of `tinytrain --help`, in order: commands of `tinytrain.cli.main.COMMANDS`.
COMMAND_GROUPS = {
    "start here": ("adapt", "check", "predict", "eval", "plan"),
    "on a device": (
        "watch",
        "warmup",
        "doctor",
        "apply",
        "confirm",
        "rollback",
        "status",
        "rename",
        "forget",
    ),
    "images and networks": ("data", "backbones", "import", "calibrate", "info", "export", "emit"),
    "offline, on a PC": ("simulate", "bench", "pretrain", "meta-train", "search"),
    "shell": ("completion",),
}
START = "start here"

_IMAGES = ("folder", "data", "way", "shots", "queries", "episode", "flip", "seed", "source", "add")
_METHOD = (
    "backbone",
    "budget",
    "macs",
    "macs_mode",
    "precision",
    "policy",
    "head",
    "plan",
    "target",
    "replay",
    "adapt",
    "force",
    "threads",
)
_OUTPUT = ("reject", "out", "store", "report", "program", "plot", "json", "quiet", "verbose", "help")
_ADAPTING = {"images": _IMAGES, "budget and method": _METHOD, "output": _OUTPUT}
_PREDICTING = {
    "delta": ("delta", "store", "backbone"),
    "images": ("images", "files_from", "null", "strangers"),
    "output": _OUTPUT,
}
# Command -> sections of its help, in order: the names of its arguments in the code.
SECTIONS = {
    "adapt": _ADAPTING,
    "check": _ADAPTING,
    "plan": _ADAPTING,
    "emit": _ADAPTING,
    "simulate": {"board": ("board", "boards", "battery"), **_ADAPTING},
    "predict": _PREDICTING,
    "eval": _PREDICTING,
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


def full_help(commands: Mapping[str, tuple[str, str]]) -> str:
    """All commands by section, and the exit codes; `commands` maps a name to (module, summary)."""
    sections = [_section(title, commands) for title in COMMAND_GROUPS]
    return "\n".join([USAGE, *filter(None, sections)]) + EXAMPLES + END


def short_help(commands: Mapping[str, tuple[str, str]]) -> str:
    """What to type first."""
    return f"{USAGE}\n{_section(START, commands)}{EXAMPLES}{SHORT_END}"


def _section(title: str, commands: Mapping[str, tuple[str, str]]) -> str:
    rows = [f"  {name:<10}  {commands[name][1]}\n" for name in COMMAND_GROUPS[title] if name in commands]
    return f"{title}:\n{''.join(rows)}" if rows else ""


def policy_lines() -> str:
    """The policies with half a line each."""
    from tinytrain.policies import SUMMARIES

    return _lines(SUMMARIES)


def head_lines() -> str:
    """The heads with half a line each."""
    from tinytrain.heads import SUMMARIES

    return _lines(SUMMARIES)


def _lines(summaries: Mapping[str, str]) -> str:
    width = max(map(len, summaries))
    return "".join(f"  {name:<{width}}  {text}\n" for name, text in summaries.items())
