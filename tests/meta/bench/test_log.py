"""The log: what a kill leaves, what damage is, and one run at a time."""

import json
import lzma
import os
import threading
from contextlib import contextmanager

import pytest
from cases import each
from toybench import record, written

from tinytrain.base.errors import InputError, StorageError
from tinytrain.meta import run_log
from tinytrain.meta.bench.record import KEY, checked, key_of, keys_of
from tinytrain.meta.run_log import MAX_BYTES, Log, opened, read_log


def test_a_torn_last_line_is_dropped_and_overwritten(tmp_path):
    path = written(tmp_path / "log", record(episode=0), record(episode=1), torn='{"pack": "sig')
    assert len(read_log(path)) == 2
    with opened(path, checked) as log:
        log.append([record(episode=2)])
        assert [r["episode"] for r in log.rows] == [0, 1, 2]
    assert [r["episode"] for r in read_log(path)] == [0, 1, 2]


def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "notes"
    path.write_text("notes\nwithout an end")
    with pytest.raises(InputError, match="line 1 is no record"):
        opened(path).__enter__()
    assert path.read_text() == "notes\nwithout an end"


def test_a_compressed_log_is_read_like_the_log(tmp_path):
    path = written(tmp_path / "log", record(episode=0), record(episode=1), torn='{"pack": "sig')
    packed = tmp_path / "log.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    assert read_log(packed) == read_log(path) and len(read_log(packed)) == 2


def test_a_damaged_compressed_log_is_refused_and_none_is_written_to(tmp_path):
    packed = tmp_path / "log.xz"
    packed.write_bytes(lzma.compress(json.dumps(record()).encode() + b"\n"))
    whole = packed.read_bytes()
    with pytest.raises(InputError, match="xz -dk"):
        opened(packed).__enter__()
    assert packed.read_bytes() == whole
    for damaged in (whole[:-8], b"no archive", b"", whole + b"more", whole + whole):
        packed.write_bytes(damaged)
        with pytest.raises(InputError, match="decompressed") as caught:
            read_log(packed)
        assert caught.value.code == "file-damaged"


def test_a_small_archive_of_more_than_any_log_holds_is_refused_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(run_log, "MAX_BYTES", 2**22)
    path = tmp_path / "log.xz"
    path.write_bytes(lzma.compress(b"\n" * 2**24, preset=0))
    with pytest.raises(InputError, match="it holds 4,194,304 bytes or more"):
        read_log(path)
    wide = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**24}]
    path.write_bytes(lzma.compress(b"{}\n", filters=wide))
    with pytest.raises(InputError, match="Memory usage limit"):
        read_log(path)


def test_an_empty_log_holds_no_records(tmp_path):
    (tmp_path / "log").touch()
    assert read_log(tmp_path / "log") == []


@contextmanager
def slow_pipe(data: bytes):
    """A pipe as a shell makes it of ``<(...)``; the second half of `data` comes late."""
    reader, writer = os.pipe()
    os.write(writer, data[: len(data) // 2])
    late = threading.Timer(0.2, lambda: (os.write(writer, data[len(data) // 2 :]), os.close(writer)))
    late.start()
    yield f"/dev/fd/{reader}"
    late.join()
    os.close(reader)


def test_a_log_is_read_from_a_pipe_up_to_the_size_of_any_log(monkeypatch):
    lines = (json.dumps(record()).encode() + b"\n") * 10
    with slow_pipe(lines) as path:
        assert len(read_log(path)) == 10
    monkeypatch.setattr(run_log, "MAX_BYTES", len(lines) - 1)
    with (
        slow_pipe(lines) as path,
        pytest.raises(InputError, match=r"gave more than the .* of a log") as caught,
    ):
        read_log(path)
    assert caught.value.code == "file-kind"


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="gave 0 bytes; start what writes to it first"):
        read_log(tmp_path / "pipe")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_not_written_and_only_a_pipe_is_read(tmp_path, kind):
    path = {"pipe": tmp_path / "pipe", "device": "/dev/zero", "folder": tmp_path}[kind]
    os.mkfifo(tmp_path / "pipe")
    if kind != "pipe":
        with pytest.raises(InputError, match="name a regular file"):
            read_log(path)
    with pytest.raises(StorageError, match=r"choose the name of a file|name a file inside it"):
        opened(path).__enter__()


def test_a_file_beyond_the_size_of_any_log_is_not_read(tmp_path):
    with open(tmp_path / "log", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    for read in (read_log, lambda path: opened(path).__enter__()):
        with pytest.raises(InputError, match=r"more than the 134\.2 MB") as refused:
            read(tmp_path / "log")
        assert refused.value.code == "file-kind"


@each("line", ["{", "[1]", '{"pack": "signs"}', "3"])
def test_a_broken_line_in_the_middle_is_named(tmp_path, line):
    path = tmp_path / "log"
    path.write_text(json.dumps(record()) + "\n" + line + "\n" + json.dumps(record()) + "\n")
    with pytest.raises(InputError, match="line 2 is no record") as caught:
        read_log(path, checked)
    assert caught.value.code == "file-damaged"


def test_of_a_log_whose_writer_knows_its_size_what_follows_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(run_log, "MAX_BYTES", 100)
    log = Log(tmp_path / "log")
    for step in range(50):
        log.append([{"step": step}])
    assert log.size > 100 and Log(log.path, size=log.size).rows == log.rows
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + b'{"step": 50}\n{"st')
    again = Log(log.path, size=len(whole))
    again.append([])
    assert again.rows == log.rows and log.path.read_bytes() == whole
    log.path.write_bytes(whole + b" " * 101)
    with pytest.raises(InputError, match="file-kind"):
        Log(log.path, size=log.size)


def test_other_code_is_another_run_unless_any_code_will_do():
    for any_code in (False, True):
        assert (key_of(record(code="other"), any_code) in keys_of([record()], any_code)) == any_code


@each("name", [name for name in KEY if name != "code"])
def test_everything_that_decides_a_run_is_in_its_key(name):
    other = record(**{name: "another" if isinstance(record()[name], str) else 2})
    assert key_of(other) not in keys_of([record()])


def test_two_runs_do_not_write_the_same_log(tmp_path):
    with opened(tmp_path / "log"), pytest.raises(StorageError, match="another run is writing") as caught:
        opened(tmp_path / "log").__enter__()
    assert caught.value.code == "store-busy"


def test_a_log_that_cannot_be_written_or_read_is_one_line(tmp_path):
    with pytest.raises(StorageError, match="create the folder first"), opened(tmp_path / "no" / "log"):
        pass
    with pytest.raises(InputError, match="does not exist"):
        read_log(tmp_path / "none")
