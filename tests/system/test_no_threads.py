"""A process that may start no thread (TasksMax=1, a limit of processes) works on one."""

import os
import shutil
import subprocess
import sys

import pytest
from toyfiles import write_images, write_network

REFUSED = (
    "int pthread_create(void *t, const void *a, void *(*f)(void *), void *x) { return 11; } /* EAGAIN */"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A network, images, and a library by which the system refuses every thread."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc here, which makes a system without threads")
    place = tmp_path_factory.mktemp("threads")
    write_network(place)
    write_images(place / "photos", count=4)
    (place / "refused.c").write_text(REFUSED)
    make = ["gcc", "-shared", "-fPIC", "-o", place / "refused.so", place / "refused.c"]
    subprocess.run(make, check=True)
    return place


def run(place, *words, **environment):
    words = [sys.executable, "-m", "tinytrain", *words]
    return subprocess.run(words, cwd=place, env=os.environ | environment, capture_output=True, text=True)


def test_an_adaptation_without_threads_gives_the_same_bytes(place):
    words = ("adapt", "photos", "--policy", "last_layer", "--backbone", "toy.safetensors", "--threads", "2")
    for name, environment in (("with", {}), ("without", {"LD_PRELOAD": str(place / "refused.so")})):
        done = run(place, *words, "--force", "--out", f"{name}.safetensors", **environment)
        assert done.returncode == 0, done.stderr
    assert (place / "with.safetensors").read_bytes() == (place / "without.safetensors").read_bytes()


def test_what_cannot_do_without_threads_says_so(monkeypatch, capsys):
    from tinytrain.base.console import guarded

    def fail(arguments):
        try:
            raise RuntimeError("can't start new thread")
        finally:
            raise RuntimeError("cannot join thread before it is started")

    assert guarded(fail, []) == 3 and "allow more (TasksMax=, ulimit -u)" in capsys.readouterr().err
