"""Corrections that another program writes to a file: each is given once, however the file is saved."""

import os

import pytest
from cases import each

from tinytrain.base.errors import InputError
from tinytrain.stream.labels import MAX_LINE, Label, LabelFile, Meaning, meaning

BEFORE = "a.png,oak\nb.png,elm\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.csv"


def read(file, **options):
    return [(label.key, label.name) for label in file.read(**options)]


def marks_of(labels):
    return dict(label.mark.split(":") for label in labels)


def test_lines_are_read_once_and_a_line_without_its_end_later(path):
    file = LabelFile(str(path))
    assert read(file) == []  # the file is not there yet
    path.write_text('a.png,oak\n"b, c.png","red, oak"\n\nd.png,el')
    assert read(file) == [("a.png", "oak"), ("b, c.png", "red, oak")] and read(file) == []
    with path.open("a") as more:
        more.write("m\r\n")
    assert read(file) == [("d.png", "elm")]


def test_the_last_line_needs_no_line_break_where_the_file_has_ended(path):
    path.write_text("a.png,oak\nb.png,elm")
    assert read(LabelFile(str(path)), ended=True) == [("a.png", "oak"), ("b.png", "elm")]


def replaced(path, content):
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def written_anew(path, content):
    path.unlink()
    path.write_bytes(content)


def rewritten(path, content):
    path.write_bytes(content)


def emptied_first(path, content, file=None):
    path.write_bytes(b"")
    assert read(file) == []
    path.write_bytes(content)


SAVED = {
    "nothing new": (BEFORE, []),
    "a line more": (BEFORE + "c.png,ash\n", [("c.png", "ash")]),
    "a line more in front": ("c.png,ash\n" + BEFORE, [("c.png", "ash")]),
    "another order": ("b.png,elm\na.png,oak\n", []),
    "a line less": ("b.png,elm\n", []),
    "another label": ("a.png,ash\nb.png,elm\n", [("a.png", "ash")]),
    "another label behind": (BEFORE + "a.png,ash\n", [("a.png", "ash")]),
    "other line breaks": ("a.png,oak\r\nb.png,elm\r\n", []),
    "a byte order mark": ("\ufeff" + BEFORE, []),
    "a comment and an empty line": ("# by hand\n\n" + BEFORE, []),
    "quotes and spaces": ('"a.png", oak\nb.png ,"elm"\n', []),
    "another file": ("x.png,ash\n", [("x.png", "ash")]),
}


@pytest.mark.parametrize("save", [replaced, written_anew, rewritten, emptied_first])
@pytest.mark.parametrize(("after", "new"), SAVED.values(), ids=list(SAVED))
def test_a_file_that_is_saved_anew_gives_what_is_new_also_after_a_restart(path, save, after, new):
    path.write_text(BEFORE)
    file = LabelFile(str(path))
    marks = marks_of(file.read())
    save(path, after.encode(), **({"file": file} if save is emptied_first else {}))
    assert read(file) == new and read(file) == []
    assert read(LabelFile(str(path), marks)) == new


def test_a_label_that_is_changed_and_changed_back_is_given_each_time(path):
    file, marks = LabelFile(str(path)), {}
    for name in ("oak", "elm", "oak"):
        path.write_text(f"a.png,{name}\n")
        found = list(file.read())
        assert [label.name for label in found] == [name]
        assert [label.name for label in LabelFile(str(path), marks).read()] == [name]
        marks |= marks_of(found)
    assert read(LabelFile(str(path), marks)) == []


def test_an_image_that_has_several_lines_has_nothing_new_after_a_restart(path):
    path.write_text("a.png,oak\na.png,elm\na.png,oak\n")
    file = LabelFile(str(path))
    marks = marks_of(file.read())
    assert read(LabelFile(str(path), marks)) == []
    with path.open("a") as more:  # a camera that writes all images to one file
        more.write("a.png,oak\n")
    assert read(file) == read(LabelFile(str(path), marks)) == [("a.png", "oak")]


@pytest.mark.parametrize(
    "line", ["a.png", "a.png,oak,elm", ",oak", "a.png, ", '"a.png,oak', "x" * (MAX_LINE + 9)]
)
def test_a_line_that_is_none_is_named_once_and_the_others_are_read(path, line):
    path.write_text(f"a.png,oak\n{line}\nb.png,elm\n")
    file = LabelFile(str(path))
    found = list(file.read())
    errors = [one for one in found if isinstance(one, InputError)]
    labels = [(one.key, one.name) for one in found if isinstance(one, Label)]
    assert errors and all(error.code == "labels-unreadable" for error in errors)
    assert labels == [("a.png", "oak"), ("b.png", "elm")]
    replaced(path, f"{line}\n".encode())
    assert list(file.read()) == []


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_an_error_in_one_line(path, make):
    make(path)
    with pytest.raises(InputError, match="labels-unreadable"):
        read(LabelFile(str(path)))


CLASSES = ("sunflower", "rose", "undo", "+x")


@each(
    ("text", "names", "means"),
    [
        ("rose", CLASSES, Meaning("rose")),
        ("2", CLASSES, Meaning("rose")),
        ("+fern", CLASSES, Meaning("fern", new=True)),
        ("+ fern", CLASSES, Meaning("fern", new=True)),
        ("+sun", CLASSES, Meaning("sun", new=True)),
        ("+rose", CLASSES, Meaning("rose")),
        ("+x", CLASSES, Meaning("+x")),
        ("=+x", CLASSES, Meaning("+x")),
        ("undo", CLASSES, Meaning("undo")),
        ("=undo", CLASSES, Meaning("undo")),
        ("u", CLASSES, Meaning(command="undo")),
        ("undo", ("a", "b"), Meaning(command="undo")),
        ("+undo", ("a", "b"), Meaning("undo", new=True)),
        ("?", CLASSES, Meaning(command="help")),
        ("help", CLASSES, Meaning(command="help")),
        ("q", CLASSES, Meaning(command="quit")),
        ("quit", CLASSES, Meaning(command="quit")),
        ("q", ("p", "q"), Meaning("q")),
        ("2", ("2", "7"), Meaning("2")),
        ("e\u0301", ("\u00e9", "b"), Meaning("\u00e9")),
    ],
)
def test_a_word_is_a_class_a_command_a_number_or_a_new_class(text, names, means):
    assert meaning(text, names) == means


@each(
    ("text", "names", "says"),
    [
        ("sun", CLASSES, "did you mean sunflower? Type it in full, or +sun for a new class"),
        ("Rose", CLASSES, "did you mean rose?"),
        ("sunflowr", CLASSES, "did you mean sunflower?"),
        ("fern", CLASSES, "no class 'fern'; +fern is a new class"),
        ("5", CLASSES, "no class '5'"),
        ("0", CLASSES, "no class '0'"),
        ("1", ("2", "7"), "no class '1'"),  # not the first class: classes are called by numbers
        ("=fern", CLASSES, "no class 'fern'"),
        ("=u", CLASSES, "no class 'u'"),
        ("=2", CLASSES, "no class '2'"),
        ("9" * 5000, CLASSES, "no class"),
        ("+", CLASSES, "no class ''"),
    ],
)
def test_a_word_that_is_nothing_is_asked_about_and_never_a_class(text, names, says):
    with pytest.raises(InputError) as raised:
        meaning(text, names)
    assert raised.value.code == "unknown-class" and says in str(raised.value)
