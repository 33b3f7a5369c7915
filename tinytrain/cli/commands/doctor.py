"""``tinytrain doctor``: check this machine and installation, and show remedies."""

from tinytrain.cli.commands.common import add_json, print_result

DESCRIPTION = (
    "Check Python, processor, memory, numba and its compiled kernels, control groups, disk space, "
    "clock and temperature. Nothing is changed. Each line is ok, warning or bad, with a remedy below it. The "
    "exit code is 3 if anything is bad, else 0."
)
EXAMPLES = """\
  tinytrain doctor
  tinytrain doctor --json
"""
UNSUITABLE = 3


def add_arguments(parser) -> None:
    add_json(parser)


def run(arguments) -> int:
    from pathlib import Path

    from tinytrain.base.cache_folder import cache_folder
    from tinytrain.doctor.checks import Subject, examine
    from tinytrain.doctor.finding import BAD, render, worst
    from tinytrain.doctor.linux import LinuxReadings

    lines = examine(Subject(LinuxReadings(), cache_folder("jit"), Path.cwd()))
    result = {"state": worst(lines), "checks": [line.to_json() for line in lines]}
    print_result(result, render(lines), arguments.json)
    return UNSUITABLE if result["state"] == BAD else 0
