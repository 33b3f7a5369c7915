"""The command line itself: fast help, and one line and exit code for every mistake."""

import argparse
import json
import os
import resource
import subprocess
import sys

import pytest
from cases import each

from tinytrain.base.console import guarded
from tinytrain.base.errors import BudgetError, StorageError, TinytrainError, one_line, visible
from tinytrain.cli.commands import bench, common
from tinytrain.cli.help import COMMAND_GROUPS, SECTIONS, full_help
from tinytrain.cli.main import COMMANDS, main, parser_of
from tinytrain.heads import SUMMARIES as HEAD_SUMMARIES
from tinytrain.heads.registry import HEADS
from tinytrain.plan.budget import AUTO
from tinytrain.policies import SUMMARIES
from tinytrain.policies.registry import POLICIES
from tinytrain.program.backends import SUMMARIES as PRECISION_SUMMARIES
from tinytrain.program.backends.registry import BACKENDS


def run(*arguments, **options):
    """A finished process of the command line."""
    command = [sys.executable, "-m", "tinytrain", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["adapt", "--help"], ["-V"], []])
def test_help_answers_in_a_fifth_of_a_second(words):
    """Of processor time, which other work on the machine changes little."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run(*words).returncode == (0 if words else 2)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.2, times


def test_help_names_every_command_and_documents_every_exit_code():
    text = full_help()
    assert all(f"\n  {name}" in text for name in COMMANDS)
    codes = {error.exit_code for error in TinytrainError.__subclasses__()} | {0, 130}
    assert codes == {0, 2, 3, 4, 5, 6, 130}
    assert all(f"\n  {code} " in text for code in codes)


def actions_of(command: str) -> dict[str, argparse.ArgumentParser]:
    """The parsers of what a command does, by name; none if it does one thing."""
    parser, _ = parser_of(command)
    return next((a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)), {})


@each("words", [(c, *action) for c in COMMANDS for action in [(), *((name,) for name in actions_of(c))]])
@each("columns, widest", [(200, 100), (80, 80)])
def test_every_command_and_action_has_help_with_examples_that_wraps(
    words, columns, widest, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = help_of(*words, capsys=capsys)
    assert f"  tinytrain {' '.join(words)}" in text.split("examples:")[1]
    assert max(map(len, text.splitlines())) <= widest


def help_of(*words, capsys) -> str:
    with pytest.raises(SystemExit) as done:
        main([*words, "--help"])
    assert done.value.code == 0
    return capsys.readouterr().out


@each("command", SECTIONS)
def test_every_option_is_in_a_section_of_the_help(command, capsys):
    assert "\nothers:" not in help_of(command, capsys=capsys)


@each("command, several", [("adapt", True), ("check", True), ("plan", False), ("meta-train", False)])
def test_help_names_several_networks_only_where_they_are_taken(command, several, capsys):
    text = " ".join(help_of(command, capsys=capsys).split())
    assert ("duo, best" in text) == ("joined by +" in text) == several


def test_the_help_of_everything_fits_80_columns_and_has_each_command_in_one_section(capsys):
    grouped = [name for names in COMMAND_GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped)) and COMMANDS.keys() <= set(grouped)
    assert max(map(len, full_help().splitlines())) <= 80


def test_help_takes_a_command_and_an_action(capsys):
    for words in (["adapt"], ["bench", "run"]):
        with pytest.raises(SystemExit):
            main(["help", *words])
        assert capsys.readouterr().out == help_of(*words, capsys=capsys)
    assert main(["help"]) == 0 and capsys.readouterr().out == full_help()
    assert main(["help", "adpt"]) == 2 and "did you mean adapt?" in capsys.readouterr().err


def test_a_folder_in_place_of_a_command_is_told_what_to_run(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert f"run: tinytrain adapt {tmp_path}; see" in capsys.readouterr().err


def test_the_usage_of_a_command_with_images_says_that_they_may_be_many(capsys):
    assert help_of("predict", capsys=capsys).startswith(
        "usage: tinytrain predict DELTA [IMAGE ...] [OPTION ...]"
    )


def test_without_a_command_the_first_ones_to_type_are_shown_and_stdout_stays_empty(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "tinytrain adapt photos/ --out" in err and "bench" not in err
    assert err.count("\n") < 20 and max(map(len, err.splitlines())) <= 80


def test_the_version_has_a_short_option(capsys):
    assert main(["-V"]) == main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and first.startswith("tinytrain ")


@each("command", ["adapt", "plan", "simulate"])
@each(
    "what, summaries, known",
    [
        ("policies", SUMMARIES, {*POLICIES}),
        ("heads", HEAD_SUMMARIES, {*HEADS}),
        ("precisions", PRECISION_SUMMARIES, {AUTO, *BACKENDS}),
    ],
)
def test_help_names_all_that_can_be_chosen_with_half_a_line_each(
    command, what, summaries, known, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    table = help_of(command, capsys=capsys).split(f"\n{what}:\n")[1].split("\n\n")[0]
    rows = dict(line.split(maxsplit=1) for line in table.splitlines())
    assert list(rows) == list(summaries) and summaries.keys() == known
    assert all(rows.values()), "none is continued on a line of its own"


def test_an_example_that_is_too_long_stays_one_command_for_a_shell(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = help_of("predict", capsys=capsys).split("examples:\n")[1]
    assert "tinytrain predict mine.safetensors photos/ more/*.jpg --reject 60% --json" in " ".join(
        text.replace(" \\\n", " ").split()
    )


def test_every_option_with_a_default_shows_it(capsys):
    for name in COMMANDS:
        parser, _ = parser_of(name)
        text = " ".join(parser.format_help().split())
        for action in parser._actions:
            if action.option_strings and action.default not in (None, False, argparse.SUPPRESS, []):
                assert "default" in parser._get_formatter()._get_help_string(action), (name, action.dest)
        assert "None" not in text


@each("name", sorted(COMMANDS.keys() - {"data", "completion"}))
def test_every_command_that_prints_results_has_json(name):
    parsers = actions_of(name).values() or [parser_of(name)[0]]
    assert all("--json" in parser.format_help() for parser in parsers)


MISTAKES = {
    "a misspelt command": (["adpt"], "did you mean adapt?"),
    "an unknown command": (["frobnicate"], "no command 'frobnicate'; see tinytrain --help"),
    "a misspelt option": (["adapt", "--bugdet", "1MB"], "did you mean --budget?"),
    "a misspelt option with =": (["adapt", "--seeed=1"], "did you mean --seed?"),
    "a name like an option": (
        ["predict", "d", "-x.png"],
        "-x.png; if it is a name, write -- before the names",
    ),
    "an option behind --": (
        ["rename", "d", "--", "-x", "y", "--out", "z"],
        "--out behind --, where names are",
    ),
    "a result without a file": (["merge", "a", "b", "-o", "-"], "'-' names no file"),
    "a result without a name": (["adapt", "--out", ""], "'' names no file"),
    "an abbreviated option": (["adapt", "--bud", "1MB"], "unknown argument --bud"),
    "an option without value": (["adapt", "--budget"], "expected one argument"),
    "a size that is none": (["adapt", "--budget", "big"], "'big' is not a size"),
    "a fraction of zero": (["adapt", "--macs", "0%"], "not a fraction above 0"),
    "one class": (["adapt", "--way", "1"], "at least 2"),
    "no shots": (["adapt", "--shots", "0"], "at least 1"),
    "half a shot": (["adapt", "--shots", "0.5"], "at least 1"),
    "no threads": (["adapt", "--threads", "0"], "at least 1"),
    "an unknown policy": (["adapt", "--policy", "tinytrian"], "did you mean tinytrain?"),
    "an unknown mode": (["adapt", "--macs-mode", "median"], "invalid choice"),
    "a folder and a pack": (["adapt", "photos", "--data", "signs"], "not both"),
    "what a delta to go on from settles": (["adapt", "--from", "x", "--head", "lda"], "--head would have no"),
    "mirroring what is remembered": (["adapt", "--from", "x", "--flip"], "--flip would have no"),
    "images to add without delta": (["adapt", "--add", "x"], "go together"),
    "an extension that is not kept": (["adapt", "--from", "x", "--add", "y"], "needs --out"),
    "a report of unknown kind": (["adapt", "--report", "x.pdf"], "must end in .html, .json, .txt"),
    "a command without its files": (["predict", "x"], "required: IMAGE"),
    "an action that is none": (["data", "delete"], "invalid choice"),
}


@each("name", MISTAKES)
def test_a_usage_mistake_is_one_line_and_exit_code_2_and_with_json_one_object(name, capsys):
    arguments, words = MISTAKES[name]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.startswith("tinytrain: ") and err.count("\n") == 1
    assert main([*arguments[:1], "--json", *arguments[1:]]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["exit_code"] == 2 and words in error["message"] and err.count("\n") == 1


def test_an_error_after_the_result_is_no_second_object(monkeypatch, capsys):
    def late(arguments):
        common.print_result({"done": 1}, "", as_json=True)
        raise StorageError("write-failed", "too late")

    monkeypatch.setattr("tinytrain.cli.commands.info.run", late)
    assert main(["info", "--json"]) == 6 and json.loads(capsys.readouterr().out) == {"done": 1}
    assert main(["info", "nothing", "--json"]) == 6 and json.loads(capsys.readouterr().out) == {"done": 1}
    monkeypatch.undo()
    assert main(["info", "nothing", "--json"]) == 3 and "error" in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), MemoryError(), OSError(28, "full")])
def test_every_early_end_with_json_is_an_object_on_stdout(raised, monkeypatch, capsys):
    def fail(arguments):
        raise raised

    monkeypatch.setattr("tinytrain.cli.commands.info.run", fail)
    code = main(["info", "--json"])
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["exit_code"] == code and error["message"] in err and code in (6, 130)


def test_a_budget_error_with_json_gives_the_smallest_budget_as_a_number(monkeypatch, capsys):
    def fail(arguments):
        raise BudgetError("budget-too-small", "too little", 1000)

    monkeypatch.setattr("tinytrain.cli.commands.info.run", fail)
    assert main(["info", "--json"]) == 4 and json.loads(capsys.readouterr().out)["error"]["smallest"] == 1000


def test_a_full_disk_behind_stdout_is_exit_code_6():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tinytrain", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 6 and done.stderr == (
        "tinytrain: write-failed: No space left on device; free some space and run again\n"
    )


@each("closed", [">&-", "2>&-", ">&- 2>&-"])
@each("arguments, code", [("--version", 0), ("nonsense", 2)])
def test_streams_that_are_closed_are_no_error(closed, arguments, code):
    command = f"exec {sys.executable} -m tinytrain {arguments} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == code and "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "tinytrain", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0


@pytest.mark.parametrize("command, remedy", [("import", "a smaller network or file"), ("eval", "images")])
def test_the_remedy_for_memory_fits_the_command(capsys, command, remedy):
    def fail(arguments):
        raise MemoryError

    assert guarded(fail, [command]) == 6
    err = capsys.readouterr().err
    assert err.startswith("tinytrain: out-of-memory: ") and remedy in err


def test_an_error_of_the_system_is_one_line_that_names_the_path(monkeypatch, capsys):
    def fail(*_):
        raise PermissionError(13, "Permission denied", "/locked/x")

    monkeypatch.setattr("tinytrain.cli.commands.info.open_backbone", fail)
    assert main(["info"]) == 3
    err = capsys.readouterr().err
    assert err == "tinytrain: system: /locked/x: Permission denied; check the path and its rights\n"

    def unnamed(*_):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("tinytrain.cli.commands.info.open_backbone", unnamed)
    assert main(["info"]) == 3 and capsys.readouterr().err == "tinytrain: system: Connection refused\n"


def test_json_may_stand_before_the_action_of_bench(capsys):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    for words in (["--json", "report", "x", "-o", "y"], ["report", "x", "-o", "y", "--json"]):
        assert parser.parse_args(words).json
    assert not parser.parse_args(["report", "x", "-o", "y"]).json


def test_a_bug_keeps_its_traceback(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("tinytrain.cli.commands.info.open_backbone", fail)
    with pytest.raises(ZeroDivisionError):
        main(["info"])


def test_messages_cannot_steer_the_terminal(capsys):
    assert main(["info", "\x1b[31mred\nx.safetensors"]) == 3
    err = capsys.readouterr().err
    assert "\x1b" not in err and err.count("\n") == 1 and "\\x1b[31mred" in err


def test_results_cannot_steer_the_terminal_and_json_is_exact(capsys):
    common.print_result({"class": "\x1b[31mred"}, "\x1b[31mred", as_json=False)
    common.print_result({"class": "\x1b[31mred"}, "", as_json=True)
    text, rest = capsys.readouterr().out.split("\n", 1)
    assert text == "\\x1b[31mred" and json.loads(rest) == {"class": "\x1b[31mred"}
    assert visible("one\ntwo") == "one\\ntwo", "in a row of a table"


def test_foreign_text_becomes_one_short_line_without_control_characters():
    assert one_line("a\n\t b ") == "a b" and one_line(KeyError("\n")) == "'\\n'"
    assert one_line("\x1b[31mred") == "\\x1b[31mred"
    assert one_line("x" * 10, 10) == "x" * 10 and one_line("\x1b" * 10, 10) == "\\x1b\\x ..."


def test_python_m_and_the_console_script_are_the_same():
    assert run("--version").stdout.startswith("tinytrain ")
    script = os.path.join(os.path.dirname(sys.executable), "tinytrain")
    if os.path.exists(script):
        assert subprocess.check_output([script, "--version"], text=True) == run("--version").stdout
