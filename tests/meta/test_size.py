"""What counts as a line of code."""

from tinytrain.meta import size

SOURCE = '''"""A docstring
of two lines."""

import os
from math import (
    pi,
)

# a comment
TEXT = """of
two lines"""  # both count


def f(x):
    """Another docstring."""
    return (
        x
    )
'''


def test_blank_lines_comments_docstrings_and_imports_are_not_counted():
    assert size.code_lines(SOURCE) == 6


def test_the_command_counts_packages_and_tests_apart(tmp_path, capsys):
    for name in ("tinytrain/base/a.py", "meta/b.py", "tests/c.py", "docs/d.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(SOURCE)
    assert size.main([str(tmp_path)]) == 0
    found = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert list(found) == ["code", "tests", "meta", "tinytrain/base"]
    assert found["code"] == ["2", "files", "36", "lines", "12", "of", "code"]
