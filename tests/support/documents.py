"""The fenced blocks of the documents, and what comments say about running them.

A comment alone on a line above a block, invisible to readers, may say:

    <!-- not run: REASON -->      the block is only parsed, because it needs a network, a device or hours
    <!-- brings: COMMAND -->      what a reader brings along, such as photographs, is made by COMMAND
    <!-- exit code: NUMBER -->    the block ends with this code
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
RUN = ("sh", "python")
SHOWN = ("text", "yaml", "json", "ini", "toml", "c", "cpp", "javascript")
COMMENT = re.compile(r"<!-- (not run|brings|exit code): (.+) -->")
FENCE = re.compile(r"( *)```(.*)")
ENDS = ("|", "&&", ";", "||", "&", ">", ">>", "2>", "<")


@dataclass(frozen=True)
class Block:
    """A fenced block in line `line` of `page`; `not_run` is the reason, None if it is run."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None = None
    brings: str = ""
    exit_code: int = 0

    def __str__(self):
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a Markdown page, in order."""
    found, comments, lines = [], {}, enumerate(page.read_text().splitlines(), 1)
    for number, line in lines:
        if fence := FENCE.fullmatch(line):
            text = "\n".join(_inside(lines, fence[1], f"{page.name}:{number}"))
            more = comments.get("not run"), comments.get("brings", ""), int(comments.get("exit code", 0))
            found.append(Block(page, number, fence[2], text + "\n", *more))
            comments = {}
        elif comment := COMMENT.fullmatch(line.strip()):
            comments[comment[1]] = comment[2]
        elif line.strip():
            comments = {}
    return found


def _inside(lines, indent: str, where: str):
    """The lines up to the end of a block that was opened with `indent`."""
    for _, line in lines:
        if line == f"{indent}```":
            return
        yield line.removeprefix(indent)
    raise AssertionError(f"{where} is not closed")


def command_lines(text: str) -> list[list[str]]:
    """The words after each `tinytrain` of shell commands."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
        for at in (i for i, word in enumerate(words) if Path(word).name == "tinytrain"):
            rest = words[at + 1 :]
            end = next((i for i, word in enumerate(rest) if word in ENDS), len(rest))
            found.append(rest[:end])
    return found
