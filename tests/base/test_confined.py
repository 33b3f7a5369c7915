"""The process for files of strangers: its limits end it, and whoever asks goes on."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tinytrain.base import confined
from tinytrain.base.errors import InputError

JOBS = """
import os, signal, time
from tinytrain.base.errors import InputError

LEAK = []

def answer(file, job, n=0):
    if job == "leak":
        LEAK.append(b"x" * n)
        return {}, b""
    if job == "echo":
        return {"pid": os.getpid(), "given": n}, file.read()
    if job == "refuse":
        raise InputError("image-unreadable", "is broken")
    if job == "memory":
        return {}, bytes(n)
    if job == "loop":
        while True:
            pass
    if job == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if job == "write":
        with open(n, "w") as written:
            written.write("x")
    if job == "sleep":
        print("asleep", flush=True)
        time.sleep(n)
        return {}, b""
"""


NOT_READ = {kind: (kind, "it {}") for kind in ("large", "broken", "alone")}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    (tmp_path / "jobs_of_a_test.py").write_text(JOBS)
    monkeypatch.syspath_prepend(str(tmp_path))
    confined.end()
    yield lambda job, data=b"", **more: confined.ask("jobs_of_a_test", data, NOT_READ, job=job, **more)
    confined.end()


def pid() -> int:
    return confined._child.process.pid


def gone(number: int) -> bool:
    for _ in range(5000):
        if not Path(f"/proc/{number}").exists():
            return True
        time.sleep(0.02)
    return False


def test_one_process_answers_request_after_request(ask, tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    found = [ask("echo", bytes([k]) * 3, n=k) for k in range(5)]
    assert found == [({"pid": pid(), "given": k}, bytes([k]) * 3) for k in range(5)]
    with open(tmp_path / "file", "rb") as file:
        assert ask("echo", file)[1] == b"12345"


def test_an_error_for_the_user_comes_back_as_it_is(ask):
    with pytest.raises(InputError, match=r"^image-unreadable: is broken$"):
        ask("refuse")


@pytest.mark.parametrize(
    "job, kind, words",
    [
        ({"job": "memory", "n": 2**28}, "large", "takes more than 256 MB or 1 seconds"),
        ({"job": "loop"}, "large", "takes more than 256 MB or 1 seconds"),
        ({"job": "crash"}, "broken", "its decoder failed .*-11"),
        ({"job": "write", "n": "jobs-were-here"}, "broken", "failed"),
    ],
    ids=lambda given: given["job"] if isinstance(given, dict) else None,
)
def test_what_goes_too_far_ends_the_process_and_the_next_request_is_answered(
    ask, job, kind, words, monkeypatch, tmp_path
):
    monkeypatch.setattr(confined, "SECONDS", 1)
    if "write" in job.values():
        job = job | {"n": str(tmp_path / "written")}
    with pytest.raises(InputError, match=words) as caught:
        ask(**job)
    assert caught.value.code == kind
    assert ask("echo", b"x")[1] == b"x"
    assert not (tmp_path / "written").exists() or not (tmp_path / "written").stat().st_size


def test_a_process_that_was_ended_in_between_is_started_again(ask):
    ask("echo")
    first = pid()
    for end in (lambda: os.kill(first, signal.SIGTERM), lambda: os.kill(pid(), signal.SIGKILL)):
        end()
        time.sleep(0.1)
        assert ask("echo", b"x")[1] == b"x"
    assert pid() != first


def test_what_a_decoder_leaks_is_no_burden_for_the_next_file(ask):
    for _ in range(6):
        ask("leak", n=10**8)
    assert ask("memory", n=10**8)[1] == bytes(10**8)


def test_threads_get_their_own_answers(ask):
    wrong = []

    def many(k: int) -> None:
        for n in range(20):
            answer, content = ask("echo", bytes([k]) * n, n=n)
            if answer["given"] != n or content != bytes([k]) * n:
                wrong.append((k, n))

    threads = [threading.Thread(target=many, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_fork_has_a_process_of_its_own_and_leaves_that_of_its_parent(ask):
    ask("echo")
    first = pid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if ask("echo", b"x")[1] == b"x" and pid() != first else 2
        finally:
            confined.end()
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert ask("echo")[0]["pid"] == first == pid()


@pytest.mark.parametrize("why", ["no program", "no fork", "no interpreter"])
def test_where_none_can_be_started_the_reason_is_said(ask, why, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    if why == "no fork":
        monkeypatch.setattr(subprocess, "Popen", refuse)
    else:
        monkeypatch.setattr(sys, "executable", "/nothing" if why == "no program" else "/bin/false")
    with pytest.raises(InputError, match=r"No such file|unavailable|ended with 1") as caught:
        ask("echo")
    assert caught.value.code == "alone"


PARENT = """
import sys
sys.path.insert(0, sys.argv[1])
from tinytrain.base import confined
confined.ask("jobs_of_a_test", b"", {}, job="echo")
print(confined._child.process.pid, flush=True)
try:
    confined.ask("jobs_of_a_test", b"", {}, job="sleep", n=60)
except KeyboardInterrupt:
    print("interrupted", confined._child, flush=True)
    confined.ask("jobs_of_a_test", b"", {}, job="echo")
    print("answered", flush=True)
"""


def test_ctrl_c_reaches_who_asked_and_the_process_ends_with_it(ask, tmp_path):
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        number = int(parent.stdout.readline())
        time.sleep(0.2)
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.read() == "interrupted None\nanswered\n"
    assert parent.wait() == 0 and gone(number)


def test_without_a_request_it_ends_when_who_asked_does(ask, tmp_path):
    script = PARENT[: PARENT.index("try:")]
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert gone(int(done.stdout)) and not done.stderr


def test_after_a_pause_it_ends_and_the_next_request_starts_another(ask, monkeypatch):
    monkeypatch.setattr(
        confined,
        "COMMAND",
        confined.COMMAND.replace("; confined.serve", "; confined.IDLE_SECONDS = 0.05; confined.serve"),
    )
    ask("echo")
    first = pid()
    assert confined._child.process.wait(100) == 0
    assert ask("echo", b"x")[1] == b"x" and pid() != first
