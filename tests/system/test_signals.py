"""An adaptation that is interrupted anywhere: one line, exit code 130, the store and the old file whole.

The process interrupts itself at the n-th call of a Python function, so that the points are spread over all
of it. Two points by default; ``TINYTRAIN_SIGNAL_POINTS=100`` takes that many.
"""

import os
import signal
import subprocess
import sys
import time

import pytest
from cases import each
from toyfiles import write_images, write_network

from tinytrain.delta.file import encode_delta, load_delta
from tinytrain.store import Store

POINTS = int(os.environ.get("TINYTRAIN_SIGNAL_POINTS", "2"))
INTERRUPT_ITSELF = """
import os, sys, tinytrain.cli.main
at, number, calls = int(sys.argv[1]), int(sys.argv[2]), 0
del sys.argv[1:3]
def count(frame, event, argument):
    global calls
    calls += event == "call"
    if event == "call" and calls == at:
        os.kill(os.getpid(), number)
sys.setprofile(count)
code = tinytrain.cli.main.main()
sys.setprofile(None)
if not at:
    print(calls)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    write_network(place)
    write_images(place / "photos", count=4)
    return place


def adapted(place, folder, at=0, number=0, seed=0):
    """The finished process of an adaptation into `folder`, interrupted by signal `number` at call `at`."""
    files = ("--out", folder / "delta.safetensors", "--store", folder / "store")
    # Forced: a network of random weights learns nothing, and this is not about the guard.
    options = ("--seed", seed, "--force", *files)
    task = ("adapt", place / "photos", "--backbone", place / "toy.safetensors", *options)
    command = [sys.executable, "-c", INTERRUPT_ITSELF, *map(str, (at, int(number), *task))]
    return subprocess.run(command, capture_output=True, text=True, timeout=3000)


@pytest.fixture(scope="module")
def first(place):
    """(folder, number of calls) of an adaptation that nobody interrupts; its delta is confirmed."""
    adapted(place, place)  # compiles kernels, where none were kept, in calls that no other run needs
    done = adapted(place, place)
    assert done.returncode == 0, done.stderr
    Store(place / "store").confirm()
    return place, int(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("point", range(POINTS))
def test_an_interrupt_anywhere_leaves_the_old_delta_or_the_new_one(place, first, point):
    """Both signals have the same way into the process, and take turns."""
    (folder, calls), number = first, (signal.SIGINT, signal.SIGTERM)[point % 2]
    old = encode_delta(in_use(folder))
    done = adapted(place, folder, int(calls * (point + 0.5) / POINTS), number, seed=point)
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "tinytrain: interrupted before it was done"
    assert "Traceback" not in done.stderr and done.stdout == ""
    left = {path.name for path in folder.iterdir()}
    assert left == {"photos", "toy.safetensors", "delta.safetensors", "store"}, "no temporary file is left"
    written = encode_delta(load_delta(folder / "delta.safetensors"))  # the old one or the new one, whole
    assert encode_delta(in_use(folder)) in (old, written)


def in_use(folder):
    start = Store(folder / "store").peek()
    assert start.warnings == ()
    return start.delta


HALF_MADE = """
import os, signal, sys, tinytrain.cli.main as cli
class HalfMade:
    def __del__(self):
        raise AttributeError("never finished")
def run(arguments):
    half = HalfMade()
    os.kill(os.getpid(), int(sys.argv[1]))
cli.run = run
sys.exit(cli.main([]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_an_interrupt_leaves_half_made_prints_nothing(number):
    command = [sys.executable, "-c", HALF_MADE, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 130 and done.stderr == "tinytrain: interrupted before it was done\n"


IN_A_FINALIZER = """
import os, sys, time, tinytrain.cli.main as cli
number, times, seconds = map(int, sys.argv[1:])
class Gone:
    def __del__(self):
        os.kill(os.getpid(), number)
def run(arguments):
    for _ in range(times):
        Gone()
    time.sleep(seconds)
    return 0
cli.run = run
code = cli.main()
if not times:
    Gone()
sys.exit(code)
"""


def with_finalizers(number, times, seconds):
    """What becomes of a command that loses `times` interrupts to finalizers, and one once it is done if 0."""
    command = [sys.executable, "-c", IN_A_FINALIZER, *map(str, (int(number), times, seconds))]
    return subprocess.run(command, capture_output=True, text=True, timeout=3000)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_meets_a_finalizer_is_not_lost(number, times):
    """Python ignores what a finalizer raises; llvmlite's are many while kernels are loaded."""
    done = with_finalizers(number, times, seconds=100)
    assert done.returncode == 130 and done.stderr == "tinytrain: interrupted before it was done\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_meets_a_finalizer_at_the_end_or_after_it_harms_nothing(number):
    assert with_finalizers(number, 1, seconds=0).returncode in (0, 130)
    done = with_finalizers(number, 0, seconds=0)
    assert done.returncode == 0 and done.stderr == ""


AT_THE_END = """
import atexit, os, sys, tinytrain.cli.main as cli
number = int(sys.argv.pop(1))
class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), number=number):
        kill(process, number)
last = Last()
sys.keep = Last()
atexit.register(os.kill, os.getpid(), number)
sys.exit(cli.main())
"""


@each(("arguments", "code"), [(["--version"], 0), (["data", "--help"], 0), (["adpt"], 2)])
@each("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_python_takes_itself_apart_changes_nothing(number, arguments, code):
    command = [sys.executable, "-c", AT_THE_END, str(int(number)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == code and done.stderr.count("\n") == (code != 0), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_has_answered_ends_with_0_or_130_whenever_a_signal_comes(number):
    command = [sys.executable, "-m", "tinytrain", "--version"]
    for k in range(10 * POINTS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.read(1)
            time.sleep(k * 1e-3)
            process.send_signal(number)
            err = process.stderr.read()
        said = {0: "", 130: "tinytrain: interrupted before it was done\n"}
        assert err == said.get(process.returncode), (k, process.returncode, err)


TWO_AT_ONCE = """
import os, signal, sys, tinytrain.cli.main as cli
def run(arguments):
    signal.pthread_sigmask(signal.SIG_BLOCK, (2, 15))
    os.kill(os.getpid(), 2)
    os.kill(os.getpid(), 15)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (2, 15))
cli.run = run
sys.exit(cli.main())
"""


def test_two_signals_at_once_are_one_interrupt():
    done = subprocess.run([sys.executable, "-c", TWO_AT_ONCE], capture_output=True, text=True, timeout=3000)
    assert done.returncode == 130 and done.stderr == "tinytrain: interrupted before it was done\n"


HANGS_AT_EXIT = """
import atexit, sys, time, tinytrain.cli.main as cli
atexit.register(time.sleep, 100)
code = cli.main()
print("over", file=sys.stderr, flush=True)
sys.exit(code)
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["adpt"], 2)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_process_that_hangs_at_its_exit(number, arguments, code):
    command = [sys.executable, "-c", HANGS_AT_EXIT, *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while process.stderr.readline() != "over\n":
            pass
        process.send_signal(number)
        time.sleep(0.5)
        assert process.poll() is None, "one signal may have been meant for the work that is done"
        process.send_signal(number)
        try:
            assert process.wait(90) == code
        finally:
            process.kill()


WITH_A_TIMER = """
import os, signal, sys, time, tinytrain.cli.main as cli
due, lost = float(sys.argv[1]), int(sys.argv[2])
class Gone:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
def run(arguments):
    if lost:
        Gone()
    time.sleep(0.2)
    return 0
cli.run = run
rung = []
signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
signal.setitimer(signal.ITIMER_REAL, due)
code = cli.main([])
time.sleep(1 if not rung else 0)
print(code, len(rung))
"""


@pytest.mark.parametrize(
    ("due", "lost", "said"),
    [(0.5, 0, "0 1"), (0.1, 0, "0 1"), (0.5, 1, "130 1")],
    ids=["after the command", "during it", "after an interrupt that met a finalizer"],
)
def test_a_timer_of_whoever_calls_a_command_goes_on(due, lost, said):
    command = [sys.executable, "-c", WITH_A_TIMER, str(due), str(lost)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.stdout.strip() == said, done.stderr
