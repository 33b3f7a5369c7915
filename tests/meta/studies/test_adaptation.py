"""Whole adaptations take turns, on several threads with the same bits; marks are read as they were set."""

import json
import os
import shlex
import sys

import pytest
from cases import each

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies import adaptation as study

# In place of another machine: a mark of its own, then those of the start, the images and the adaptation.
COUNTER = """
import json, os, sys
form = sys.argv[sys.argv.index("--forms") + 1]
assert "--mark" in sys.argv and "-m" in sys.argv
with open(os.environ["RUNS"], "a") as log:
    log.write(f"{form} {sys.argv[-1]}\\n")
cost = {"float32@1MB": 90, "int8@256KB": 30}[form] * (sys.argv[-1] == "--mark")
with open(os.environ["COUNT"] + ".marks", "w") as marks:
    marks.write("".join(f"{n * 1_000_000}\\n" for n in (3, 7, 8, 8 + cost)))
macs = {"float32@1MB": 100_000_000, "int8@256KB": 50_000_000}[form]
print(json.dumps([5, 6, macs]))
"""


@pytest.fixture
def arguments(toy8_file):
    return ["--backbone", toy8_file, "--packs", "glyphs", "--way", "3"]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


@pytest.mark.slow
def test_forms_and_threads_take_turns_and_are_compared_with_the_first(arguments, capsys):
    forms = ["--forms", "float32@1MB,int8@1MB,15%@60kB", "--threads", "1,3"]
    assert study.main([*arguments, "--repeats", "2", *forms]) == 0
    head, _, *lines = map(cells, capsys.readouterr().out.splitlines())
    assert [line[:2] for line in lines] == [
        [form, threads] for form in ("float32@1MB", "int8@1MB", "15%@60kB") for threads in "13"
    ]
    assert all(cell.endswith(" (1.00)") for cell in lines[0][-3:])
    for name in study.TIMES:
        (first, _), (value, share) = (line[head.index(name)].split() for line in (lines[0], lines[3]))
        assert float(share.strip("()")) == pytest.approx(float(value) / float(first), abs=0.02, rel=0.1)


def test_a_result_that_depends_on_the_threads_is_an_error(arguments, monkeypatch):
    count = iter(range(100))
    monkeypatch.setattr(study, "encode_delta", lambda delta: next(count))
    with pytest.raises(SystemExit, match="2 threads give another result than 1"):
        study.study([*arguments, "--forms", "15%@60kB", "--threads", "1,2"])


def test_a_form_runs_a_step_to_compile_and_then_all_to_be_counted(arguments, tmp_path, capsys, monkeypatch):
    (tmp_path / "counter.py").write_text(COUNTER)
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    command = shlex.join([sys.executable, str(tmp_path / "counter.py")])
    assert study.main([*arguments, "--forms", "float32@1MB,int8@256KB", "--count", command]) == 0
    runs = (tmp_path / "runs").read_text().splitlines()
    assert runs == [f"{form} {last}" for form in ("float32@1MB", "int8@256KB") for last in ("1", "--mark")]
    _, _, *lines = map(cells, capsys.readouterr().out.splitlines())
    assert lines == [
        ["float32@1MB", "1", "5", "6", "100", "90 (1.00)", "7"],
        ["int8@256KB", "1", "5", "6", "50", "30 (0.33)", "7"],
    ]


def test_three_marks_are_set_and_none_inside_the_adaptation(arguments, capsys, monkeypatch):
    asked, adapted = [], study.adapted

    def watched(*given):
        before = len(asked)
        report = adapted(*given)
        assert len(asked) == before
        return report

    number = os.getpid()
    watched(study.load_backbone(arguments[1]), *prepared(arguments))  # whatever is loaded once
    monkeypatch.setattr(os, "getpid", lambda: asked.append(1) or number)
    monkeypatch.setattr(study, "adapted", watched)
    assert study.main([*arguments, "--forms", "int8@256KB", "--mark"]) == 0
    assert len(asked) == 3
    trained, arena, macs = json.loads(capsys.readouterr().out)
    assert 0 < arena <= 256_000 and trained > 0 and macs > 0


def prepared(arguments):
    """What `adapted` takes after the network."""
    args = study.parser().parse_args(arguments)
    return study.support_alone(study.load_backbone(args.backbone), args), "int8@256KB", args


@each("name, said", [("int8", "no form"), ("15%", "no form"), ("int4@1MB", "int4"), ("@1MB", "''")])
def test_what_is_no_form_is_refused(name, said):
    with pytest.raises(UsageError, match=said):
        study.budget_of(name)
