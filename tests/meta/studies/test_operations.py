"""The study of what steps leave out: forms by name, and those of another version beside those of this one."""

import pytest
from cases import each
from toybench import written

from tinytrain.base.errors import UsageError
from tinytrain.meta.studies import operations as study


def row(episode, accuracy, code="new", seed=7, form="policy@15%"):
    settings = {"way": 5, "shots": 5, "queries": 9, "seed": seed, "policy": "p", "budget": "1MB"}
    facts = {"accuracy": accuracy, "before": 0.5, "executed": 4e9, "seconds": 1.0}
    settings |= {"backbone": "b", "code": code, "forms": form}
    return {"pack": "signs", "episode": episode, "settings": settings, "forms": {form: facts}}


def test_a_form_says_steps_passes_and_macs():
    assert study.form("single40@15%") == study.Form(0.15, True, 40)
    assert study.form("policy@30%") == study.Form(0.3)
    other = study.Form(0.15, named="sparse_update", memory=1_600_000)
    assert study.form("sparse_update/1.6MB@15%") == other
    for wrong in ("treble40@15%", "nothing@15%", "policy/much@15%", "single40/1MB@15%"):
        with pytest.raises(UsageError, match=f"there is no form {wrong}"):
            study.form(wrong)


def test_forms_of_another_version_come_first_and_only_the_same_episodes_are_compared(tmp_path, capsys):
    old = [row(k, 0.5, "old") for k in range(3)] + [row(3, 0.9, "old", seed=8)]
    new = [row(k, 0.6 + k / 100) for k in range(1, 5)]
    for name, rows in (("old", old), ("new", new)):
        written(tmp_path / name, *rows)
    given = ["--summary", "--out", str(tmp_path / "new"), "--before", str(tmp_path / "old")]
    assert study.main(given) == 0
    *_, before, now, _ = capsys.readouterr().out.splitlines()
    before, now = ([cell.strip() for cell in line.split("|")[1:-1]] for line in (before, now))
    assert before[:3] == ["policy@15% before", "50.0", "50.0"] and before[-1] == "2"
    assert now[:3] == ["policy@15%", "61.5", "61.5"] and now[3].startswith("+11.50")


def test_a_run_that_lacks_the_form_to_compare_with_takes_its_first_one(tmp_path, capsys):
    written(tmp_path / "log", row(0, 0.5), row(0, 0.6, form="single40@15%"))
    assert study.main(["--summary", "--above", "policy@15%", "--out", str(tmp_path / "log")]) == 0
    shown = capsys.readouterr().out
    assert "| above policy@15% |" in shown and "| above single40@15% |" in shown


@each("line", ["{", "[]", '{"pack": "signs"}', '{"settings": {}}'])
def test_a_line_that_no_study_wrote_is_named(tmp_path, capsys, line):
    written(tmp_path / "log", row(0, 0.5), torn=f"{line}\n")
    assert study.main(["--summary", "--out", str(tmp_path / "log")]) == 3
    assert "line 2 is no record of ours" in capsys.readouterr().err


def test_a_log_to_compare_with_has_to_be_there(tmp_path, capsys):
    assert study.main(["--summary", "--out", str(tmp_path / "new"), "--before", str(tmp_path / "none")]) == 3
    assert "none does not exist" in capsys.readouterr().err


def test_logs_without_a_common_episode_say_so(tmp_path, capsys):
    for name, seed in (("old", 1), ("new", 2)):
        written(tmp_path / name, row(0, 0.5, seed=seed))
    assert study.main(["--summary", "--out", str(tmp_path / "new"), "--before", str(tmp_path / "old")]) == 0
    assert "no episode is in both logs" in capsys.readouterr().out
