"""Many cases as one test: none hides what became of another; and which tests a run selects."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cases import each, quick

SUPPORT = Path(__file__).with_name("support")
ENDS = {
    "passes": lambda: None,
    "wrong": lambda: pytest.fail("is wrong"),
    "raises nothing": lambda: pytest.raises(ValueError).__exit__(None, None, None),
    "breaks": lambda: {}["key"],
    "lacks": lambda: pytest.skip("no such tool"),
    "interrupted": lambda: exec("raise KeyboardInterrupt"),
}


def outcome(names, **options):
    """The cases of these names that were run in full, and how the test of all of them ended."""
    ran = []

    @each("name", names, **options)
    def test(name):
        ran.append(name)
        ENDS[name]()

    try:
        test()
    except BaseException as error:
        return ran, error
    return ran, None


def test_every_case_runs_and_is_named_whatever_became_of_those_before():
    names = ["wrong", "lacks", "passes", "breaks", "raises nothing", "passes"]
    ran, group = outcome(names)
    assert ran == names
    assert group.message == "3 of 6 cases: wrong, breaks, raises nothing"
    assert [type(error).__name__ for error in group.exceptions] == ["Failed", "KeyError", "Failed"]
    assert [error.__notes__ for error in group.exceptions][1] == ["in the case breaks"]


def test_a_skipped_case_is_seen_and_hides_no_other():
    ran, skipped = outcome(["lacks", "passes", "lacks"])
    assert ran == ["lacks", "passes", "lacks"] and isinstance(skipped, pytest.skip.Exception)
    assert str(skipped) == "test, 2 of 3 cases: lacks, lacks: no such tool"
    assert outcome(["passes", "passes"])[1] is None
    assert isinstance(outcome([])[1], pytest.skip.Exception), "of nothing, nothing was shown"


def test_ctrl_c_ends_all_cases():
    ran, error = outcome(["interrupted", "passes"])
    assert ran == ["interrupted"] and isinstance(error, KeyboardInterrupt)


@pytest.mark.parametrize(
    "ids", [{"one": 1, "two": 2}, ["one", "two"], lambda name: {"breaks": "one", "wrong": "two"}[name]]
)
def test_cases_are_called_by_their_ids(ids):
    assert outcome(["breaks", "wrong"], ids=ids)[1].message == "2 of 2 cases: one, two"


def test_cases_and_their_names_are_as_many():
    with pytest.raises(AssertionError):
        each("name", ["a", "b"], ids=["one"])
    with pytest.raises(ValueError):
        each("a, b", [(1, 2, 3)])(lambda a, b: None)()


class Setting:
    value = "usual"


@pytest.fixture
def letter():
    return "x"


class TestFixtures:
    @each(("number", "word"), [(1, "one"), (2, "two"), (3, "three")])
    def test_each_case_has_a_folder_a_patch_and_an_output_of_its_own(
        self, number, word, letter, tmp_path, monkeypatch, capsys
    ):
        assert not list(tmp_path.iterdir()) and Setting.value == "usual" and capsys.readouterr().out == ""
        (tmp_path / "same name").write_text(word)
        monkeypatch.setattr(Setting, "value", number)
        print(letter, number)

    @each("a", [1, 2])
    @each("b", "xy")
    def test_cases_of_cases_have_them_too(self, a, b, tmp_path):
        assert not list(tmp_path.iterdir())
        (tmp_path / f"{a}{b}").touch()


def test_places_of_quick_cases_are_those_that_there_are():
    one, two = quick(["a", ("b", "c")], (0,))
    assert one == "a" and two.values == ("b", "c") and [mark.name for mark in two.marks] == ["slow"]
    with pytest.raises(AssertionError, match="a place without a case"):
        quick(range(3), (0, 8))


FILES = {
    "conftest.py": "from selection import *",
    "pytest.ini": "[pytest]\nmarkers = slow\n",
    "test_a.py": """
import os
import pytest

@pytest.mark.slow
def test_slow():
    pass

def test_fails():
    assert False

@pytest.mark.skipif("TOOL" not in os.environ, reason="no tool")
def test_of_a_tool():
    pass

def test_last():
    if "STOP" in os.environ:
        raise KeyboardInterrupt
""",
    "test_b.py": """
import os
import pytest

pytest.importorskip("os" if "TOOL" in os.environ else "a_package_that_is_nowhere")

def test_of_a_package():
    pass
""",
}
REST = ("--select", "rest")


@pytest.fixture
def select(tmp_path):
    """Runs pytest with these words in a folder of five tests, and gives the names of those that were run."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def run(*words, **variables):
        plugins = {"PYTHONPATH": str(SUPPORT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment = os.environ | plugins | variables
        environment.pop("PYTEST_XDIST_WORKER", None)
        command = [sys.executable, "-m", "pytest", "-v", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        ran = [line for line in done.stdout.splitlines() if re.search("PASSED|FAILED", line.split(" - ")[0])]
        return sorted({re.search(r"::test_(\w+)", line)[1] for line in ran})

    return run


@pytest.mark.parametrize("words", quick([(), ("-p", "xdist", "-n2")], single=True), ids=["alone", "workers"])
def test_the_rest_is_what_is_slow_and_what_quick_runs_have_skipped(select, words):
    assert select(*words) == ["fails", "last"]
    assert select(*REST, *words, TOOL="here") == ["of_a_package", "of_a_tool", "slow"]
    assert select(*REST, *words) == ["slow"], "what the rest needs stays in it"
    assert select(*words, TOOL="here") == ["fails", "last", "of_a_package", "of_a_tool"]
    assert select(*REST, *words, TOOL="here") == ["slow"]
    assert select(*words) == ["fails", "last"]
    assert select(*REST, *words, TOOL="here") == ["of_a_package", "of_a_tool", "slow"]


def test_the_rest_lacks_nothing_that_no_quick_run_came_to(select):
    everything = ["fails", "last", "of_a_package", "of_a_tool", "slow"]
    assert select(*REST, TOOL="here") == everything
    assert select("-k", "slow or fails", TOOL="here") == ["fails"]
    assert select(*REST, TOOL="here") == [name for name in everything if name != "fails"]
    assert select("test_a.py", STOP="here") == ["fails"]
    assert select("-m", "slow") == select("test_a.py::test_slow") == ["slow"]
    assert select("test_b.py", TOOL="here") == ["of_a_package"]
    assert select(*REST, TOOL="here") == ["last", "of_a_tool", "slow"]
    assert select(*REST, "-p", "no:cacheprovider", TOOL="here") == everything
