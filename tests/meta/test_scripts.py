"""What ``python -m tinytrain.meta.NAME`` does where it cannot go on: one line and a code, like a command."""

import importlib
import signal
from pathlib import Path

import pytest

from tinytrain import meta

SCRIPTS = {  # a number that may not be 0, and what opens the network
    "studies.budgets": ("--episodes", "load_backbone"),
    "studies.estimate": ("--tasks", "run_study"),
    "studies.continual": ("--seeds", "run_study"),
    "studies.drift": ("--shots", "run_study"),
    "studies.int8_adaptation": ("--repeats", "load_backbone"),
    "studies.int8_forward": ("--episodes", "run_study"),
    "studies.int8_training": ("--episodes", "run_study"),
    "studies.int8_kernels": ("--milliseconds", "load_backbone"),
    "studies.operations": ("--episodes", "run_study"),
    "studies.threads": ("--repeats", "load_backbone"),
    "studies.seconds": ("--episodes", "run_study"),
    "studies.scaling": ("--repeats", "run_study"),
    "studies.start": ("--runs", "times_of"),
    "studies.heads": ("--queries", "run_study"),
    "studies.strangers": ("--queries", "run_study"),
    "studies.normal": ("--episodes", "run_study"),
    "studies.how_much": ("--shots", "run_study"),
    "search.trady_layer_ranking": ("--episodes", "load_backbone"),
    "studies.label_noise": ("--queries", "run_study"),
    "release": ("--episodes", "ship"),
    "pytorch.speed": ("--repeats", "load_backbone"),
}
NEEDED = {"search.trady_layer_ranking": ["--backbone", "mcunet-5fps"], "release": ["--work", "work"]}


@pytest.fixture(params=SCRIPTS)
def name(request):
    return request.param


def ended(name, capsys, *options) -> tuple[int, str]:
    """Exit code and the one line on stderr."""
    script = importlib.import_module(f"tinytrain.meta.{name}")
    code = script.main([*NEEDED.get(name, ()), *options])
    (line,) = capsys.readouterr().err.splitlines()
    return code, line


def test_every_script_is_looked_at():
    folder = Path(meta.__path__[0])
    files = [f for f in folder.rglob("*.py") if 'if __name__ == "__main__"' in f.read_text()]
    assert {".".join(f.relative_to(folder).with_suffix("").parts) for f in files} == {
        *SCRIPTS,
        "results",
        "size",
    }


def test_nonsense_on_the_command_line_is_a_usage_error(name, capsys):
    number, _ = SCRIPTS[name]
    assert ended(name, capsys, number, "0") == (
        2,
        "tinytrain: bad-number: '0' is not a whole number of at least 1",
    )
    code, line = ended(name, capsys, f"{number}s", "1")
    assert code == 2 and f"did you mean {number}?" in line


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - {"release", "studies.start"}))  # which open none
def test_a_network_that_is_not_there_is_bad_input(name, capsys, tmp_path):
    code, line = ended(name, capsys, "--backbone", str(tmp_path / "none.safetensors"))
    assert code == 3 and "none.safetensors" in line


def test_an_interrupt_is_no_traceback_and_signals_are_handled_as_before(name, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(n) for n in numbers]
    monkeypatch.setattr(f"tinytrain.meta.{name}.{SCRIPTS[name][1]}", interrupted)
    assert ended(name, capsys) == (130, "tinytrain: interrupted before it was done")
    assert [signal.getsignal(n) for n in numbers] == before
