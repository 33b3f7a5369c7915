"""Everything that README and docs tell a reader to type works, in order, from the state that came before."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import each, quick
from documents import PAGES, ROOT, RUN, SHOWN, Block, blocks, command_lines

from tinytrain.base.console import Parser
from tinytrain.base.errors import UsageError
from tinytrain.cli.main import COMMANDS

BLOCKS = {page.name: blocks(page) for page in PAGES}
ALL = [block for found in BLOCKS.values() for block in found]
SHELL = [block for block in ALL if block.language == "sh"]
NOT_RUN = [block for block in ALL if block.not_run]
RUNNABLE = [page for page in PAGES if any(b.language in RUN and not b.not_run for b in BLOCKS[page.name])]
RESULTS = [ROOT / "RESULTS.md", *sorted(ROOT.glob("results/*/README.md"))]
SECONDS = 3000  # a cold cache of kernels on a busy machine


def run(block: Block, folder: Path) -> None:
    """Run a block in `folder`; its exit code must be the one that the page states."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # compiled kernels
    environment |= {"COLUMNS": "100", "NO_COLOR": "1", "HOME": str(folder)}
    environment.pop("TINYTRAIN_DATA", None)  # a reader has no packs
    shell = [shutil.which("bash"), "-euo", "pipefail", "-c"]
    options = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": SECONDS}
    if block.brings:
        done = subprocess.run([*shell, block.brings], **options)
        assert done.returncode == 0, f"{block} brings: {done.stderr}"
    command = [*shell, block.text] if block.language == "sh" else [sys.executable, "-c", block.text]
    done = subprocess.run(command, **options)
    assert done.returncode == block.exit_code, f"{block}\n{block.text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", quick(sorted(RUNNABLE, key=lambda page: page.name != "README.md")), ids=lambda page: page.name
)
def test_the_commands_of_a_page_work_one_after_another(page, tmp_path):
    for block in BLOCKS[page.name]:
        if block.language in RUN and not block.not_run:
            run(block, tmp_path)


@pytest.mark.parametrize("block", NOT_RUN, ids=str)
def test_what_is_not_run_here_is_listed(block):
    pytest.skip(f"{block} is not run: {block.not_run}")


@each("block", SHELL, ids=str)
def test_every_command_has_a_meaning_whether_it_is_run_or_not(block):
    for words in command_lines(block.text):
        check_words(words)


def check_words(words: list[str]) -> None:
    """Raises UsageError unless the command line can be parsed."""
    if words in (["--version"], ["-V"], ["--help"], []) or words[0] == "help":
        return
    assert words[0] in COMMANDS, f"there is no command {words[0]}"
    if "--help" in words:
        words = words[:-1]
        assert words[-1:] and "--help" not in words
        return
    parser = Parser(prog=f"tinytrain {words[0]}", allow_abbrev=False)
    importlib.import_module(f"tinytrain.cli.commands.{COMMANDS[words[0]][0]}").add_arguments(parser)
    parser.parse(words[1:])


def test_a_command_without_a_meaning_is_found():
    for wrong in ("tinytrain adpt photos", "tinytrain adapt photos --shot 5", "x && tinytrain predict"):
        (words,) = command_lines(wrong)
        with pytest.raises((UsageError, AssertionError)):
            check_words(words)


@each("block", ALL, ids=str)
def test_every_block_says_what_it_is(block):
    assert block.language in (*RUN, *SHOWN), f"{block} is {block.language!r}"
    if block.language == "text":
        typed = [line for line in block.text.splitlines() if re.match(r"(\$ )?(tinytrain|pip) ", line)]
        assert not typed, f"{block} shows commands that nothing runs: {typed}"


@each("page", [*PAGES, *RESULTS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_the_text_is_one(page):
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.M | re.S)
    lines = re.findall(r"`(tinytrain [a-z][^`]*)`", text) + re.findall(r"^    (tinytrain .*)$", text, re.M)
    for line in lines:
        (words,) = command_lines(line) or [[]]
        assert words and (words[0] in COMMANDS or words[0] == "help"), f"{page.name}: {line}"
        if page in RESULTS:
            check_words(words)


def test_comments_above_a_block_say_how_it_is_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: far away -->\n```sh\nls\n```\n<!-- brings: touch a -->\n<!-- exit code: 3 -->\n\n"
        "```sh\nexit 3\n```\n<!-- exit code: 4 -->\ntext\n\n```python\n1\n2\n```\n"
    )
    far, brought, plain = blocks(page)
    assert (far.not_run, brought.brings, brought.exit_code) == ("far away", "touch a", 3)
    assert (plain.language, plain.text, plain.line, plain.exit_code) == ("python", "1\n2\n", 14, 0)
    run(brought, tmp_path)
    assert (tmp_path / "a").exists()
    with pytest.raises(AssertionError, match=r"page\.md:2"):
        run(far.__class__(page, 2, "sh", "false"), tmp_path)


SIMULATED_PINS = """
BUTTONS = {}


class Button:
    def __init__(self, pin, bounce_time):
        BUTTONS[pin] = self


def press_all():
    for pin in (17, 27, 17, 22):  # adapt, confirm, adapt, roll back
        BUTTONS[pin].when_pressed()
"""


def test_the_buttons_of_a_device_adapt_confirm_and_roll_back(tmp_path):
    programs = Path(sys.executable).parent
    script = next(b.text for b in BLOCKS["device.md"] if b.language == "python")
    script, count = re.subn("from signal import pause", "from gpiozero import press_all as pause", script)
    assert count == 1
    (tmp_path / "gpiozero.py").write_text(SIMULATED_PINS)
    (tmp_path / "buttons.py").write_text(script)

    def answer(*words):
        env = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}  # as the service sets it
        options = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True, "timeout": SECONDS}
        done = subprocess.run(words, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    answer("tinytrain", "data", "export", "leaves", "photos", "--classes", "3", "--per-class", "5")
    ended = re.findall(r"^(\w+) ended with exit code (\d+)$", answer(sys.executable, "buttons.py"), re.M)
    assert ended == [("adapt", "0"), ("confirm", "0"), ("adapt", "0"), ("rollback", "0")]
    status = json.loads(answer("tinytrain", "status", "--store", "state", "--json"))
    assert status["confirmed"] and status["current"]["generation"] == 1


def test_the_two_commands_that_a_fresh_machine_starts_with_stand_in_one_line_each():
    text = (ROOT / "README.md").read_text().splitlines()
    for part in (".[test]", "adapt --shots 5 --budget 1MB"):
        first = next(line for line in text if part in line)
        assert first.startswith("python3 -m venv .venv && .venv/bin/pip install "), first


def test_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
