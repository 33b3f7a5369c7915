"""Who hears the events of a session beside the printer: a command for each verdict, counts, and slow ones."""

import json
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from cases import each
from watching import heard, verdict

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.events import Failed, Note
from tinytrain.stream import on_verdict, readers
from tinytrain.stream.events import CUSUM, Drift, Learned, Readapted, TakenBack
from tinytrain.stream.metrics import HELP, Counts, MetricsFile, exposition, of_machine
from tinytrain.stream.on_verdict import OnVerdict
from tinytrain.stream.readers import Apart, Readers

PYTHON = sys.executable


class Waiting(Apart):
    """Hears nothing until it is `free`."""

    def __init__(self):
        super().__init__()
        self.free, self.got = threading.Event(), []

    def hear(self, event):
        self.free.wait()
        self.got.append(event)


def test_of_too_many_events_for_a_slow_reader_the_oldest_are_lost_and_that_is_said_once(monkeypatch):
    monkeypatch.setattr(readers, "MOST", 4)
    reader, events, told = Waiting(), [verdict(str(n)) for n in range(50)], []
    with Readers(told.append, [reader]) as all_readers:
        for event in events:
            all_readers(event)
        assert all_readers.words() == []
        reader.free.set()
    assert reader.got[-4:] == events[-4:] and len(reader.got) <= 5
    assert [e.words() for e in told if isinstance(e, Note)] == [
        "reader: slower than the stream: of more than 4 events that wait the oldest are lost"
    ]


def test_a_reader_that_hangs_keeps_nobody_waiting_and_what_it_did_not_hear_is_counted():
    reader = Waiting()
    reader.patience = 0.01
    (said,) = heard(reader, *(verdict(str(n)) for n in range(3)))
    reader.free.set()
    assert re.fullmatch(r"reader: [23] events were not heard before the end", said)


# ---- a command for each verdict ---------------------------------------------------------------------


def test_a_command_has_each_verdict_as_json_and_in_variables(tmp_path):
    write = (
        "import json,os,sys; told = json.load(sys.stdin); "
        "names = sorted(n for n in os.environ if n[10:].lower() in told); "
        "open(sys.argv[1], 'a').write(json.dumps([told, {n: os.environ[n] for n in names}]) + chr(10))"
    )
    out = tmp_path / "with space" / "out"
    out.parent.mkdir()
    events = verdict("a b.png"), verdict("c.png", None, "unknown", 0.25), Note("not for it")
    assert heard(OnVerdict(f'{PYTHON} -S -c "{write}" "{out}"'), *events) == []
    first, second = map(json.loads, out.read_text().splitlines())
    assert first == [
        {
            "image": "a b.png", "class": "bee", "best_guess": "bee", "confidence": 0.75,
            "verdict": "identified", "drift": "stable",
        },
        {
            "TINYTRAIN_BEST_GUESS": "bee", "TINYTRAIN_CLASS": "bee", "TINYTRAIN_CONFIDENCE": "0.75",
            "TINYTRAIN_DRIFT": "stable", "TINYTRAIN_IMAGE": "a b.png", "TINYTRAIN_VERDICT": "identified",
        },
    ]  # fmt: skip
    assert second[0]["class"] is None and second[1]["TINYTRAIN_CLASS"] == ""


def test_no_shell_reads_the_command_or_a_name(tmp_path):
    for key in ("$(touch x)", "; touch x", "`touch x`"):
        heard(OnVerdict(f"test -e {tmp_path}/$HOME"), verdict(key, key))
    assert heard(OnVerdict("echo '$(exit 1)' ; exit 1"), verdict()) == []


def test_a_command_that_fails_is_said_once_and_run_again(tmp_path):
    command = f"sh -c 'echo . >> {tmp_path}/runs; exit 3'"
    said = heard(OnVerdict(command), verdict(), verdict(), verdict())
    assert said == ["--on-verdict: ended with exit code 3 (said once)"]
    assert (tmp_path / "runs").read_text().count(".") == 3


@pytest.fixture
def begun(monkeypatch):
    """The processes that were begun so far; with each, whether those before it had ended."""
    found, popen = [], subprocess.Popen

    def begin(*words, **options):
        before = [process.poll() is not None for process, _ in found]
        found.append((popen(*words, **options), before))
        return found[-1][0]

    monkeypatch.setattr(on_verdict.subprocess, "Popen", begin)
    return found


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(monkeypatch, begun):
    monkeypatch.setattr(on_verdict, "SECONDS", 0.3)
    said = heard(OnVerdict("sh -c 'sleep 300 & wait'"), verdict(), verdict())
    assert said == ["--on-verdict: took longer than 0.3 s and was ended (said once)"]
    assert [before for _, before in begun] == [[], [True]]
    assert have_ended(*(process.pid for process, _ in begun))


def test_a_session_that_ends_by_an_exception_ends_the_command_and_runs_no_other(begun):
    told = []
    with pytest.raises(KeyboardInterrupt), Readers(told.append, [OnVerdict("sleep 300")]) as all_readers:
        all_readers(verdict())
        all_readers(verdict())
        while not begun:
            time.sleep(0.001)
        raise KeyboardInterrupt
    ((process, _),) = begun
    assert have_ended(process.pid) and told[2:] == [
        Note("--on-verdict: 1 events were not heard before the end")
    ]


def test_a_command_that_has_not_ended_when_its_time_at_the_end_is_over_is_ended(begun):
    reader = OnVerdict("sleep 300")
    reader.patience = 0.3
    heard(reader, verdict())
    assert [process.returncode for process, _ in begun] in ([], [-15])


def have_ended(*groups):
    """Whether the processes of these process groups end by what was sent to them already."""

    def are_there():
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(FileNotFoundError, ProcessLookupError):
                state, _, group, *_ = path.read_text().rpartition(")")[2].split()
                if int(group) in groups and state not in "ZX":
                    return True
        return False

    return not all(are_there() and time.sleep(0.01) is None for _ in range(1000))


@each("command", ["", "  ", "no-such-program-here --x", "'unbalanced"])
def test_a_command_without_a_program_is_refused(command):
    with pytest.raises(UsageError, match="--on-verdict"):
        OnVerdict(command)


# ---- counts -----------------------------------------------------------------------------------------


def counted(*events):
    counts = Counts(now=iter(range(100, 200)).__next__)
    for event in events:
        counts(event)
    return counts


def parsed(text):
    """{name with labels: value} of the text form of Prometheus, as its grammar says."""
    found, known, ended = {}, set(), text.endswith("\n")
    assert ended
    for line in text.splitlines():
        if line.startswith("#"):
            known.add(re.fullmatch(r"# (?:HELP|TYPE) ([a-zA-Z_:][\w:]*) .+", line)[1])
            continue
        label = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
        sample = re.fullmatch(rf"([a-zA-Z_:][\w:]*)((?:\{{{label}(?:,{label})*\}})?) (\S+)", line)
        assert sample and sample[1] in known, line
        assert sample[1] + sample[2] not in found
        found[sample[1] + sample[2]] = float(sample[3])
    return found


def test_counts_are_those_of_the_events_and_what_never_happened_is_zero():
    assert parsed(exposition(counted().samples())) == {
        'tinytrain_verdicts_total{verdict="identified"}': 0,
        'tinytrain_verdicts_total{verdict="uncertain"}': 0,
        'tinytrain_verdicts_total{verdict="unknown"}': 0, "tinytrain_verdict_seconds_total": 0,
        "tinytrain_corrections_total": 0, "tinytrain_correction_seconds_total": 0,
        "tinytrain_undone_total": 0, 'tinytrain_drifts_total{found="images"}': 0,
        'tinytrain_drifts_total{found="cusum"}': 0, "tinytrain_last_verdict_timestamp_seconds": 0,
        "tinytrain_start_timestamp_seconds": 100,
    }  # fmt: skip
    events = [
        verdict(seconds=0.25), verdict(seconds=0.5), verdict(state="unknown", name=None, seconds=0.25),
        Learned("a", "bee", seconds=0.5), TakenBack("a", None, "bee"), Drift("a", CUSUM),
        Readapted(True, "kept"), Readapted(False, "not"), Failed(InputError("image-unreadable", "no"), {}),
    ]  # fmt: skip
    found = parsed(exposition(counted(*events).samples()))
    assert {name[10:]: value for name, value in found.items() if value} == {
        'verdicts_total{verdict="identified"}': 2, 'verdicts_total{verdict="unknown"}': 1,
        "verdict_seconds_total": 1, 'errors_total{code="image-unreadable"}': 1, "corrections_total": 1,
        "correction_seconds_total": 0.5, "undone_total": 1, 'drifts_total{found="cusum"}': 1,
        'readaptations_total{done="true"}': 1, 'readaptations_total{done="false"}': 1,
        "last_verdict_timestamp_seconds": 103, "start_timestamp_seconds": 100,
    }  # fmt: skip


def test_labels_are_escaped_as_the_form_asks():
    text = exposition([("temperature_celsius", {"zone": "z0", "type": 'a"b\\c\nd'}, 1.5)])
    assert text.splitlines()[-1] == r'tinytrain_temperature_celsius{zone="z0",type="a\"b\\c\nd"} 1.5'
    assert parsed(text)


def test_names_follow_the_rules_of_prometheus():
    assert all(name.endswith(("_total", "_seconds", "_bytes", "_celsius")) for name in HELP)
    text = exposition([(name, {}, 1) for name in HELP])
    for name, kind in re.findall(r"^# TYPE tinytrain_(\w+) (.+)$", text, re.MULTILINE):
        assert kind == ("counter" if name.endswith("_total") else "gauge")
    assert text.count("# TYPE ") == len(HELP)


def test_temperatures_memory_and_the_store_are_told_where_the_system_tells_them(tmp_path):
    for zone, (kind, text) in {"0": ("cpu-thermal", "48312"), "1": ("x", "broken")}.items():
        folder = tmp_path / "sys/class/thermal" / f"thermal_zone{zone}"
        folder.mkdir(parents=True)
        (folder / "type").write_text(f"{kind}\n")
        (folder / "temp").write_text(f"{text}\n")
    (tmp_path / "store/kept").mkdir(parents=True)
    (tmp_path / "store/kept/a.png").write_bytes(b"12345")
    found = of_machine(tmp_path / "store", tmp_path)
    assert found == [
        ("store_bytes", {}, 5),
        ("temperature_celsius", {"zone": "thermal_zone0", "type": "cpu-thermal"}, 48.312),
    ]
    ((name, _, size),) = of_machine(root="/proc/self/root/")[:1]
    assert name == "memory_bytes" and size > 2**20


def test_a_file_of_counts_is_written_now_and_then_and_at_the_end_and_never_in_halves(tmp_path):
    now = [0.0]
    file = MetricsFile(str(tmp_path / "m.prom"), clock=lambda: now[0])
    for at, verdicts in ((0, 1), (1, 1), (14.9, 1), (15, 4)):
        now[0] = at
        file(verdict())
        assert list(file.between()) == []
        found = parsed((tmp_path / "m.prom").read_text())
        assert found['tinytrain_verdicts_total{verdict="identified"}'] == verdicts
    heard(file, verdict())
    found = parsed((tmp_path / "m.prom").read_text())
    assert found['tinytrain_verdicts_total{verdict="identified"}'] == 5
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]


def test_a_file_that_cannot_be_written_is_told_once_and_written_when_it_can_be(tmp_path):
    now = [0.0]
    file = MetricsFile(str(tmp_path / "away" / "m.prom"), clock=lambda: now[0])
    told = []
    for at in (0, 15, 30):
        now[0] = at
        told += file.between()
    (failed,) = told
    assert failed.error.code == "write-failed" and "images are looked at all the same" in failed.words()
    (tmp_path / "away").mkdir()
    now[0] = 45
    assert list(file.between()) == [] and (tmp_path / "away" / "m.prom").exists()
