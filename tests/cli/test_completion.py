"""The scripts of ``tinytrain completion`` in the shells that they are for."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tinytrain.backbones.catalogue import NAMES
from tinytrain.cli.commands.completion import NAMES as COMPLETED
from tinytrain.cli.commands.completion import SCRIPTS, WORDS, completed, names_of
from tinytrain.cli.main import COMMANDS, main, parser_of
from tinytrain.firmware_sim.boards.board import load_boards
from tinytrain.policies.registry import POLICIES

BASH = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_tinytrain "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
# Completion of zsh works in a line editor alone: here its functions print what they are given.
ZSH = r"""
compdef() { :; }
compadd() { shift; print -rl -- "$@"; }
_files() { if [[ "$1" == -/ ]]; then print -rl -- *(/N); else print -rl -- *(N); fi; }
_describe() { local row; for row in "${(@P)argv[-1]}"; do print -r -- "${row%%:*}"; done; }
source "$1"; shift
words=("$@"); CURRENT=$#; PREFIX=${words[CURRENT]}
_tinytrain
"""


def in_bash(script, *words) -> list[str]:
    return output(["bash", "-c", BASH, "bash", script, *words])


def in_zsh(script, *words) -> list[str]:
    return [
        word for word in output(["zsh", "-f", "-c", ZSH, "zsh", script, *words]) if word.startswith(words[-1])
    ]


def in_fish(script, *words) -> list[str]:
    line = " ".join(words[:-1]) + f" {words[-1]}"
    rows = output(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"])
    return [row.split("\t")[0] for row in rows]


def output(command: list) -> list[str]:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return [line for line in done.stdout.split("\n") if line]


INSTALLED = str(Path(sys.executable).parent / "tinytrain")
SHELLS = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.fixture(scope="module", params=SHELLS)
def complete(request, tmp_path_factory):
    """Completes words in a folder that holds a folder and two files."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    place = tmp_path_factory.mktemp(shell)
    script = place / "script"
    script.write_text(SCRIPTS[shell])
    (place / "with photos").mkdir()
    (place / "with photos" / "photos").mkdir()
    (place / "with photos" / "my net.safetensors").touch()

    def run(*words, program=INSTALLED):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place / "with photos")
            return {word.rstrip("/") for word in SHELLS[shell](script, program, *words)}

    return run


def test_commands_are_completed(complete):
    assert complete("") == {*COMMANDS, "help"} and complete("ad") == {"adapt"}
    assert complete("help", "") == set(COMMANDS)


def test_actions_of_a_command_are_completed(complete):
    assert complete("bench", "") == {"run", "tune", "report"} and complete("bench", "r") == {"run", "report"}


def test_options_of_the_command_are_completed_and_no_others(complete):
    found = complete("adapt", "--s")
    assert found == {"--shots", "--seconds", "--seed", "--start", "--store"}
    assert complete("bench", "tune", "--gr") == {"--grid"} and complete("bench", "run", "--gr") == set()
    assert complete("plan", "photos", "--pro") == {"--program"}


def test_names_that_options_take_are_completed(complete):
    assert complete("adapt", "--policy", "t") >= {name for name in POLICIES if name.startswith("t")}
    assert complete("predict", "d", "--backbone", "mc") == {"mcunet-5fps"}
    assert complete("simulate", "--board", "rasp") == {n for n in load_boards() if n.startswith("rasp")}
    assert complete("adapt", "--macs-mode", "") == {"mean", "sample"}
    assert complete("backbones", "get", "m") == {n for n in NAMES if n.startswith("m") and n != "motion-3"}
    assert "results" in complete("bench", "run", "") and "leaves" in complete("data", "export", "")


def test_files_and_folders_are_completed_where_they_are_taken(complete):
    assert "my net.safetensors" in {word.replace("\\", "") for word in complete("predict", "m")}
    assert complete("adapt", "") == {"photos"} and complete("adapt", "--store", "") == {"photos"}
    assert complete("adapt", "--shots", "") == set()


def test_where_an_older_version_answers_with_its_script_nothing_is_completed(complete, tmp_path):
    older = tmp_path / "tinytrain"
    older.write_text("#!/bin/sh\necho '# Completion of tinytrain'\necho adapt\n")
    older.chmod(0o755)
    assert complete("", program=str(older)) == set()


def test_a_value_after_an_equals_sign_is_completed_in_bash(tmp_path):
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    assert in_bash(tmp_path / "script", INSTALLED, "adapt", "--policy", "=", "trad") == ["trady"]
    assert "trady" in in_bash(tmp_path / "script", INSTALLED, "adapt", "--policy", "=")


def arguments(parser):
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from arguments(inner)


def test_every_list_of_names_completes_an_argument():
    taken = {action.dest for name in COMMANDS for action in arguments(parser_of(name)[0])}
    assert COMPLETED.keys() <= taken and all(map(names_of, COMPLETED))


def test_only_names_of_data_need_numpy():
    code = (
        "import sys; from tinytrain.cli.commands.completion import NAMES, names_of\n"
        "for argument in NAMES.keys() - {'data', 'sets'}: names_of(argument)\n"
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_no_command_line_begins_with_is_completed_by_nothing():
    for words in (
        ["nonsense", ""],
        ["help", "adapt", ""],
        ["adapt", "--shots", ""],
        ["completion", "bash", "x"],
    ):
        assert completed(words) == ("-", {}), words


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_the_script_or_what_may_come(shell, capsys, monkeypatch):
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == SCRIPTS[shell]
    monkeypatch.setenv(WORDS, "bench\nr\n")
    assert main(["completion", shell]) == 0
    kind, *rows = capsys.readouterr().out.splitlines()
    assert kind == "-" and [row.replace("\t", ":").split(":")[0] for row in rows] == ["run", "report"]
    assert shell == "bash" or "tables and plots of logs" in rows[1]
