"""Whole adaptations on several threads: they take turns, and give the same bits."""

import pytest

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies import threads as study


@pytest.fixture
def arguments(toy8_file):
    return ["--backbone", toy8_file, "--packs", "glyphs", "--way", "3"]


@pytest.mark.slow
def test_every_number_of_threads_has_its_line_for_each_form(arguments, capsys):
    assert (
        study.main([*arguments, "--repeats", "2", "--forms", "15%@60kB,30%@60kB", "--threads", "1,2,3"]) == 0
    )
    _, _, *rows = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert [(row[0], row[3]) for row in rows] == [(f, n) for f in ("15%@60kB", "30%@60kB") for n in "123"]
    for first, other in ((rows[0], rows[1]), (rows[3], rows[5])):
        assert first[5] == first[7] == "1.00"
        assert float(other[5]) == pytest.approx(float(first[4]) / float(other[4]), rel=0.1)


def test_a_result_that_depends_on_the_threads_is_an_error(arguments, monkeypatch):
    count = iter(range(100))
    monkeypatch.setattr(study, "encode_delta", lambda delta: next(count))
    with pytest.raises(SystemExit, match="2 threads give another result than 1"):
        study.study([*arguments, "--forms", "15%@60kB"])


@pytest.mark.parametrize("threads", ["0", "1,x", "1,,2", ""])
def test_threads_are_whole_numbers_from_one_on(threads, arguments, capsys):
    assert study.main([*arguments, "--threads", threads]) == 2
    said = capsys.readouterr().err
    assert "is not a whole number of at least 1" in said and said.count("\n") == 1


def test_a_form_without_memory_is_refused_in_one_line():
    with pytest.raises(UsageError, match="a form is such as 15%@1MB"):
        study.budget_of("15%")
