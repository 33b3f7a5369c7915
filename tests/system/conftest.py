import json

import pytest
from commandline import tt


@pytest.fixture
def answer(capsys):
    """Runs a command with --json and returns its one object."""

    def run(*arguments):
        capsys.readouterr()
        assert tt(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return run
