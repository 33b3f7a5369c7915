import functools
import json

import pytest
from commandline import tt

from tinytrain.store import files as storefiles


@pytest.fixture
def answer(capsys):
    """Runs a command with --json and returns its one object."""

    def run(*arguments):
        capsys.readouterr()
        assert tt(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture(scope="module")
def records_read_once():
    """For tests of power cuts, which read the same few records a hundred thousand times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storefiles, "decode_record", functools.lru_cache(storefiles.decode_record))
        yield
