"""Scripts and documents name files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATTERNS = ("*.md", "tests/*.md", ".ci/*", "firmware_sim/pi/*.sh")
FILES = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
START = r"(?<![\w./-])"
NAMED = re.compile(rf"{START}(?:[a-z_]+/)*test_\w+\.py|{START}(?:tests|tinytrain|meta|\.ci)/[\w/.]*\w")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(path):
    names = NAMED.findall(path.read_text())
    missing = {n for n in names if not (ROOT / n).exists() and not (ROOT / "tests" / n).exists()}
    assert not missing, f"{path.name} names {sorted(missing)}"


def test_files_are_named_at_all():
    named = {path.name: len(NAMED.findall(path.read_text())) for path in FILES}
    assert named["campaigns"] > 10 and named["README.md"] > 5
