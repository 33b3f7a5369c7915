"""Corrections that another program appends to a file: each is read once, whatever happens to the file."""

import pytest

from tinytrain.base.errors import InputError
from tinytrain.stream.labels import MAX_LINE, Label, LabelFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.csv"


def read(file):
    return [(label.key, label.name) for label in file.read()]


def test_lines_are_read_once_and_a_line_without_its_end_later(path):
    file = LabelFile(str(path))
    assert read(file) == []  # the file is not there yet
    path.write_text('a.png,oak\n"b, c.png","red, oak"\n\nd.png,el')
    assert read(file) == [("a.png", "oak"), ("b, c.png", "red, oak")] and read(file) == []
    with path.open("a") as more:
        more.write("m\r\n")
    assert read(file) == [("d.png", "elm")]


def test_after_a_restart_reading_goes_on_behind_the_mark(path):
    path.write_text("a.png,oak\nb.png,elm\nc.png,ash\n")
    marks = [label.mark for label in LabelFile(str(path)).read()]
    assert read(LabelFile(str(path), marks[0])) == [("b.png", "elm"), ("c.png", "ash")]
    assert read(LabelFile(str(path), marks[2])) == []


@pytest.mark.parametrize("content", ["x.png,ash\n", "a.png,oak\nb.png,ash\nc.png,ash\nd.png,elm\n"])
def test_another_file_in_its_place_is_read_from_its_beginning(path, content):
    path.write_text("a.png,oak\nb.png,elm\n")
    mark = [label.mark for label in LabelFile(str(path)).read()][-1]
    path.write_text(content)
    assert len(read(LabelFile(str(path), mark))) == content.count("\n")


def test_a_file_that_is_begun_again_while_it_is_read_is_read_again(path):
    file = LabelFile(str(path))
    path.write_text("a.png,oak\nb.png,elm\n")
    assert len(read(file)) == 2
    path.unlink()
    path.write_text("c.png,ash\n")
    assert read(file) == [("c.png", "ash")]


@pytest.mark.parametrize("mark", ["", "x", ":", "99999999999999999999:0", "-1:0", "5:0123456789abcdef"])
def test_a_mark_that_no_line_has_is_the_beginning(path, mark):
    path.write_text("a.png,oak\n")
    assert read(LabelFile(str(path), mark)) == [("a.png", "oak")]


@pytest.mark.parametrize(
    "line", ["a.png", "a.png,oak,elm", ",oak", "a.png, ", '"a.png,oak', "x" * (MAX_LINE + 9)]
)
def test_a_line_that_is_none_is_named_and_the_others_are_read(path, line):
    path.write_text(f"a.png,oak\n{line}\nb.png,elm\n")
    found = list(LabelFile(str(path)).read())
    errors = [one for one in found if isinstance(one, InputError)]
    labels = [(one.key, one.name) for one in found if isinstance(one, Label)]
    assert errors and all(error.code == "label-line" for error in errors)
    assert labels == [("a.png", "oak"), ("b.png", "elm")]


def test_a_folder_in_its_place_is_an_error_in_one_line(path):
    path.mkdir()
    with pytest.raises(InputError, match="labels-unreadable"):
        read(LabelFile(str(path)))
