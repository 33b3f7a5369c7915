"""A table of texts: a CSV file of sentences and labels is a dataset as a folder of texts is."""

import os
import tracemalloc

import pytest
from cases import each

from tinytrain.base.errors import InputError, UsageError
from tinytrain.datasets import folder_dataset, folder_episode
from tinytrain.episode.input_facts import CLASSES, ONE_CLASS

LINES = "lamp on,light\n\"lamp, on\",light\n'wake' me,sleep\n"


def table(folder, content, name="notes.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(dataset):
    """(sentence, label) of each row."""
    texts = dataset.read.args[0]
    return [(text, dataset.class_names[c]) for text, c in zip(texts, dataset.labels, strict=True)]


@each("content, name", [
    (LINES, "notes.csv"), (LINES.replace("\n", "\r\n"), "notes.CSV"), ("\ufeff" + LINES, "notes.csv"),
    (f"sentence,label\n{LINES}", "notes.csv"), (LINES + "\n\n", "notes.csv"),
    ("Class,Text,when\nlight,lamp on,1\nlight,\"lamp, on\",2\nsleep,'wake' me,3", "notes.csv"),
    ("lamp on\tlight\nlamp, on\tlight\n'wake' me\tsleep", "notes.tsv"),
    ("lamp on\tlight\nlamp, on\tlight\n'wake' me\tsleep", "notes.csv"),
    ("lamp on;light\nlamp, on;light\n'wake' me;sleep", "notes.csv"),
    ("\nsentence;label\nlamp on;light\nlamp, on;light\n'wake' me;sleep", "notes.csv"),
])  # fmt: skip
def test_each_row_is_a_text_of_the_class_that_it_names(tmp_path, content, name):
    dataset = folder_dataset(table(tmp_path, content, name))
    assert rows(dataset) == [("lamp on", "light"), ("lamp, on", "light"), ("'wake' me", "sleep")]
    assert (dataset.kind, dataset.name, dataset.provenance.skipped) == ("text", name, ())


def test_rows_without_a_sentence_or_a_label_are_listed_by_their_line(tmp_path):
    path = table(tmp_path, LINES + "no label\n,light\nlamp, off,light\nlamp off, \n")
    dataset = folder_dataset(path)
    assert len(dataset) == 3
    assert [(fact.file, fact.reason.split(";")[0]) for fact in dataset.provenance.skipped] == [
        (f"{path}/line {line}", why)
        for line, why in (
            (4, "has no label"),
            (5, "has no sentence"),
            (6, "has 3 fields"),
            (7, "has no label"),
        )
    ]


@each("row, lost", [
    ('"lamp,light', "lines 4 to 5"), ('"lamp" on,light', "line 4"), (f"{'a' * 200_000},light", "line 4"),
])  # fmt: skip
def test_a_quote_without_an_end_takes_no_other_row_along_unsaid(tmp_path, row, lost):
    dataset = folder_dataset(table(tmp_path, f'{LINES}{row}\n"on, lamp",light\n"a\nb",light\non,light\n'))
    (skipped,) = dataset.provenance.skipped
    kept = [("on, lamp", "light")] * ("to" not in lost) + [("a\nb", "light"), ("on", "light")]
    assert rows(dataset)[3:] == kept and dataset.names[-2:] == ("line 6", "line 8")
    assert os.path.basename(skipped.file) == lost
    assert "end what a quote begins" in skipped.reason


def test_a_sentence_that_is_there_twice_is_never_on_both_sides(tmp_path):
    lines = "".join(f"lamp {k % 6},light\nme {k},sleep\n" for k in range(12))
    dataset = folder_dataset(table(tmp_path, lines + "me 0,light\n"))
    assert {fact.where for fact in dataset.provenance.duplicates} == {ONE_CLASS, CLASSES}
    episode = folder_episode(dataset, shots=3)
    said = dict(zip(dataset.names, rows(dataset), strict=True))
    support, query = ({said[name] for name in side.names} for side in (episode.support, episode.query))
    assert ("lamp 0", "light") in support | query and not support & query


def test_one_long_sentence_takes_no_more_memory_for_each_of_the_others(tmp_path):
    path = table(tmp_path, f"{'x' * 100_000},light\n" + "me,sleep\n" * 500)
    tracemalloc.start()
    try:
        assert len(folder_dataset(path)) == 501
        assert tracemalloc.get_traced_memory()[1] < 40 * path.stat().st_size
    finally:
        tracemalloc.stop()


@each("content, code, said", [
    ("", "file-damaged", "holds 0 bytes"),
    ("sentence,label\n", "folder-layout", "has 0 rows of a sentence and its label"),
    (b"lamp on,light\nlamp \xff,light\n", "file-damaged", "line 2 has a byte 0xff that is no UTF-8"),
    (f"{'a' * 200_000},light\n", "folder-layout", "line 1 cannot be read .field larger than field limit"),
    ("lamp\n", "folder-layout", "line 1 has no label; a sentence with commas stands in quotes"),
])  # fmt: skip
def test_what_is_no_table_is_refused_with_its_line(tmp_path, content, code, said):
    with pytest.raises(InputError, match=said) as refused:
        folder_dataset(table(tmp_path, content))
    assert refused.value.code == code


def test_a_recording_of_motion_is_no_table_and_a_table_has_its_background_in_it(tmp_path):
    with pytest.raises(InputError, match="is a file, not a folder"):
        folder_dataset(table(tmp_path, "x,y\n" + "0.5,1.5\n" * 40))
    with pytest.raises(UsageError, match="label rows 'background' in it"):
        folder_dataset(table(tmp_path, LINES), background=tmp_path)
