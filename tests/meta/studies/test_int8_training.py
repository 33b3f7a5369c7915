"""Int8 training against float32 training: a small run, and what became of the codes."""

from types import SimpleNamespace

import pytest

from tinytrain.meta.studies import int8_forward
from tinytrain.meta.studies import int8_training as study

FORMS = "float32@1MB,int8@1MB,int8*0.000001@1MB"


def test_rows_say_how_many_codes_training_changed(toy8_file, log, rows, capsys):
    options = ["--backbone", toy8_file, "--out", log, "--forms", FORMS, "--packs", "glyphs", "--macs", 1]
    options += ["--way", 3, "--shots", 5, "--queries", 2, "--episodes", 1]
    assert study.main([str(option) for option in options]) == 0
    (row,) = rows()
    moved = [row["forms"][form]["moved"] for form in FORMS.split(",")]
    assert moved[0] is None and 0 < moved[1] <= 1 and moved[2] == 0
    head, _, *lines = capsys.readouterr().out.split("| form |")[1].splitlines()[:5]
    place = head.split("|").index(" moved ")
    assert [line.split("|")[place + 2].strip() for line in lines] == ["-", f"{100 * moved[1]:.0f} %", "0 %"]


@pytest.mark.parametrize(("withheld", "accuracy"), [(None, 0.5), (0.7, 0.7)])
def test_a_form_counts_what_was_trained_or_else_what_is_kept(withheld, accuracy, monkeypatch):
    facts = {
        "accuracy": {"withheld": withheld, "after": 0.5},
        "memory": {"arena": 1, "trained_parameters": 0},
    }
    report = SimpleNamespace(to_json=lambda: facts, guard=SimpleNamespace(kept="cosine"))
    monkeypatch.setattr(study, "adapt", lambda *a, **k: report)
    monkeypatch.setattr(study, "moved", lambda report: None)
    args = SimpleNamespace(policy="none", optimizer=None, macs=0.15, seed=0)
    assert study.facts_of(None, None, args, study.form("none@1MB"), 0)["accuracy"] == accuracy


def test_a_forward_pass_in_int8_is_compared_with_float32_on_the_same_episode(toy8_file, log, rows, capsys):
    options = ["--backbone", toy8_file, "--out", log, "--episodes", 1, "--packs", "glyphs,leaves"]
    options += ["--way", 3, "--shots", 3, "--queries", 2]
    assert int8_forward.main([str(option) for option in options]) == 0
    for row in rows():
        assert all(0 <= row[form] <= 1 for form in ("float32", *int8_forward.FORMS))
    shown = capsys.readouterr().out
    assert "own: points above float32" in shown and shown.count("\nglyphs ") == len(int8_forward.FORMS)
