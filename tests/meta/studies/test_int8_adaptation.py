"""Whole adaptations in both precisions: costs of a small run, and marks that are read as they were set."""

import json
import os
import shlex
import sys

import pytest

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies import int8_adaptation as study

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
print(json.dumps({"trained": 5, "arena": 6, "macs": macs}))
"""


@pytest.fixture
def arguments(toy8_file):
    return ["--backbone", toy8_file, "--packs", "glyphs", "--way", "3"]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_forms_take_turns_and_are_compared_with_the_first(arguments, capsys):
    assert study.main([*arguments, "--repeats", "2", "--forms", "float32@1MB,int8@1MB"]) == 0
    head, _, first, second = map(cells, capsys.readouterr().out.splitlines())
    assert (first[0], second[0]) == ("float32@1MB", "int8@1MB")
    costs = [float(row[head.index("processor time, ms")].replace(",", "")) for row in (first, second)]
    assert first[-2:] == ["1.00", "1.00"]
    assert float(second[-2]) == pytest.approx(costs[1] / costs[0], rel=0.2)


def test_a_form_runs_a_step_to_compile_and_then_all_to_be_counted(arguments, tmp_path, capsys, monkeypatch):
    (tmp_path / "counter.py").write_text(COUNTER)
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    command = shlex.join([sys.executable, str(tmp_path / "counter.py")])
    assert study.main([*arguments, "--forms", "float32@1MB,int8@256KB", "--count", command]) == 0
    runs = (tmp_path / "runs").read_text().splitlines()
    assert runs == [f"{form} {last}" for form in ("float32@1MB", "int8@256KB") for last in ("1", "--mark")]
    _, _, first, second, _, start = capsys.readouterr().out.splitlines()
    assert cells(first)[-3:] == ["90", "1.00", "1.00"] and cells(second)[-3:] == ["30", "0.33", "0.67"]
    assert start == "the start alone: 7 M instructions"


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
    facts = json.loads(capsys.readouterr().out)
    assert 0 < facts["arena"] <= 256_000 and facts["trained"] > 0 and facts["macs"] > 0


def prepared(arguments):
    """What `adapted` takes after the network."""
    args = study.parser().parse_args(arguments)
    return study.support_alone(study.load_backbone(args.backbone), args), "int8@256KB", args


@pytest.mark.parametrize("name", ["int8", "int4@1MB", "@1MB"])
def test_what_is_no_form_is_refused(name):
    with pytest.raises(UsageError, match="there is no form"):
        study.budget_of(name)
