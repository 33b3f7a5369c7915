"""What ``python -m tinytrain.meta.NAME`` does where it cannot go on: one line and a code, like a command."""

import importlib
import signal
from pathlib import Path

from cases import each

from tinytrain import meta
from tinytrain.meta.studies import study

SCRIPTS = {  # a number that may not be 0, and what opens the network
    "studies.budgets": ("--episodes", "load_backbone"),
    "studies.estimate": ("--tasks", "load_backbone"),
    "studies.continual": ("--seeds", "load_backbone"),
    "studies.drift": ("--shots", "load_backbone"),
    "studies.adaptation": ("--repeats", "load_backbone"),
    "studies.int8_forward": ("--episodes", "load_backbone"),
    "studies.int8_training": ("--episodes", "load_backbone"),
    "studies.operations": ("--episodes", "load_backbone"),
    "studies.kept": ("--tasks", "load_backbone"),
    "studies.first_try": ("--episodes", "load_backbone"),
    "studies.seconds": ("--episodes", "load_backbone"),
    "studies.scaling": ("--repeats", "load_backbone"),
    "studies.start": ("--runs", "times_of"),
    "studies.committees": ("--episodes", "open_dataset"),
    "studies.heads": ("--queries", "load_backbone"),
    "studies.strangers": ("--queries", "load_backbone"),
    "studies.trust": ("--queries", "load_backbone"),
    "studies.normal": ("--episodes", "load_backbone"),
    "studies.sounds": ("--episodes", "load_backbone"),
    "studies.listening": ("--minutes", "load_backbone"),
    "studies.repeats": ("--episodes", "load_backbone"),
    "studies.label_noise": ("--queries", "load_backbone"),
    "studies.federated": ("--clients", "load_backbone"),
    "studies.fleet": ("--clients", "load_backbone"),
    "studies.motion": ("--queries", "load_backbone"),
    "studies.analog": ("--episodes", "load_backbone"),
    "studies.transformers": ("--episodes", "open_dataset"),
    "release": ("--episodes", "ship"),
    "pytorch.speed": ("--repeats", "load_backbone"),
}
LISTS = (
    ("studies.budgets", "--way"), ("studies.budgets", "--shots"), ("studies.adaptation", "--threads"),
    ("studies.scaling", "--counts"), ("studies.heads", "--shots"), ("studies.normal", "--shots"),
    ("studies.strangers", "--shots"), ("studies.committees", "--shots"),
    ("pytorch.speed", "--threads"),
)  # fmt: skip
NEEDED = {"release": ["--work", "work"]}


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


@each("name", SCRIPTS)
def test_nonsense_on_the_command_line_is_a_usage_error(name, capsys):
    number, _ = SCRIPTS[name]
    assert ended(name, capsys, number, "0") == (
        2,
        "tinytrain: usage: '0' is not a whole number of at least 1",
    )
    code, line = ended(name, capsys, f"{number}s", "1")
    assert code == 2 and f"did you mean {number}?" in line


@each("name, flag", LISTS)
def test_a_number_of_a_list_that_is_none_is_a_usage_error(name, flag, capsys):
    for wrong in ("x", "0", ""):
        code, line = ended(name, capsys, flag, f"1,{wrong}")
        assert code == 2 and line.startswith(f"tinytrain: usage: '{wrong}' is not a "), line


@each("name", sorted(SCRIPTS.keys() - {"release", "studies.start"}))  # which open none
def test_a_network_that_is_not_there_is_bad_input(name, capsys, tmp_path):
    code, line = ended(name, capsys, "--backbone", str(tmp_path / "none.safetensors"))
    assert code == 3 and "none.safetensors" in line


@each("name", SCRIPTS)
def test_an_interrupt_is_no_traceback_and_signals_are_handled_as_before(name, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(n) for n in numbers]
    script = importlib.import_module(f"tinytrain.meta.{name}")
    opener = SCRIPTS[name][1]
    monkeypatch.setattr(script if hasattr(script, opener) else study, opener, interrupted)
    assert ended(name, capsys) == (130, "tinytrain: interrupted before it was done")
    assert [signal.getsignal(n) for n in numbers] == before
