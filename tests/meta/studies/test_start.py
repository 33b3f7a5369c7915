"""How long commands take to their first kernel: a run of each, and commands that have none."""

import re

import pytest

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies import start

SMALL = "adapt --way 2 --shots 1 --queries 0 --policy last_layer"


@pytest.mark.slow
def test_the_first_kernel_comes_before_the_end(capsys):
    assert start.main(["--runs", "2", "--command", SMALL]) == 0
    first, end = (
        [float(n) for n in re.findall(r"\d+\.\d+", line)]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("| to")
    )
    assert len(first) == len(end) == 4 and all(0 < a < b for a, b in zip(first, end, strict=True))


@pytest.mark.parametrize("command", ["info", "adapt no-such-folder"])
def test_a_command_that_runs_no_kernel_or_fails_is_named(command):
    with pytest.raises(UsageError, match=command):
        start.times_of(command.split())
