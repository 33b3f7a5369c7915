"""How much to train: a small run of the study, and the figures of known rows."""

import numpy as np
import pytest
from sourcetree import ROOT

from tinytrain.meta.studies import how_much as study
from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget


@pytest.fixture
def arguments(logged):
    return [*logged, "--packs", "signs", "--way", "3", "--shots", "2", "--queries", "2", "--episodes", "1"]


def test_an_episode_is_a_line_with_every_form_and_what_the_policy_chose(arguments, rows, capsys):
    options = [*arguments, "--extents", "0.25", "--heads", "lda,mild-lda"]
    assert study.main(options) == 0
    (row,) = rows()
    kinds = ("1, lda", "0.25, lda", "0.25, mild-lda")
    assert list(row["forms"]) == [f"{macs}, {kind}" for macs in ("15%", "30%") for kind in kinds]
    assert all(0 <= row[key] <= 1 for key in ("cosine", "lda"))
    for macs, name in (("0.15", "15%"), ("0.3", "30%")):
        chosen = row["policy"][macs]
        if (chosen["steps"], chosen["head"]) == (40, "lda"):  # it is not run twice
            assert chosen["adapted"] == row["forms"][f"{name}, 1, lda"]
    assert "0.25, mild-lda" in capsys.readouterr().out


def test_a_policy_that_follows_the_task_is_run_beside_the_plan_that_does_not(arguments, rows, monkeypatch):
    policy = study.find_policy("tinytrain")
    short = study.fixed(policy, 0.05, "mild-lda")
    monkeypatch.setattr(study, "find_policy", lambda name: short)
    assert study.main(arguments) == 0
    (row,) = rows()
    assert {(c["steps"], c["head"]) for c in row["policy"].values()} == {(2, "mild-lda")}


def known(pack, cosine, lda, always, chosen):
    forms = {study.name_of(m, *study.USUAL): a for m, a in zip(study.MACS, always, strict=True)}
    found = {"adapted": chosen, "with guard": cosine, "steps": 10, "head": "mild-lda"}
    policy = {f"{m:g}": found for m in study.MACS}
    return {"pack": pack, "similarity": 0.1, "cosine": cosine, "lda": lda, "forms": forms, "policy": policy}


def cells(lines, macs, pack):
    first = lines.index(f"With {macs} of the MACs:")
    line = next(x for x in lines[first:] if f"| {pack} |" in x)
    return dict(zip(study.HEADER, (c.strip() for c in line.strip("|").split(" | ")), strict=True))


def test_the_policy_is_compared_with_the_best_that_its_macs_allow():
    always = (0.7, 0.9)
    found = [known("a", 0.6, 0.8, always, 0.8), known("a", 0.6, 0.6, always, 0.6)]
    lines = "\n".join(study.summary(found)).splitlines()
    sparing, generous = (cells(lines, macs, "a") for macs in ("15%", "30%"))
    assert (sparing["cosine"], sparing["LDA"], sparing["policy"]) == ("60.0", "70.0", "70.0")
    assert (sparing["best"], sparing["policy - best"]) == ("LDA", "+0.0 ±0.0")
    assert generous["best"] == "always 30%" and generous["policy - best"].startswith("-20.0")
    assert "miss" in generous["policy - best"] and "miss" not in sparing["policy - best"]
    assert generous["policy - always"].startswith("-20.0") and sparing["with guard"] == "60.0"


def test_the_figures_of_the_project_follow_from_its_log(capsys):
    assert study.main(["--summary", "--out", str(ROOT / "results/how_much.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert all(f"| {pack} |" in shown for pack in study.DOMAINS.split(","))


def test_no_target_of_the_benchmarks_decides():
    targets = {"gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch"}
    assert not targets & set(study.DOMAINS.split(","))


def test_the_usual_form_is_always_among_the_fixed_ones():
    args = study.main.parser().parse_args(["--extents", "0.5,1", "--heads", "lda"])
    assert study.forms(args) == [(1.0, "lda"), (0.5, "lda")]


def test_fixed_forms_keep_the_selection():
    policy = study.find_policy("tinytrain")
    plans = [
        adapt(toy_network(), toy_episode(), Budget(2**22, 0.3), p, force=True).plan.recipe
        for p in (policy, study.fixed(policy, 0.5, "cosine"))
    ]
    assert plans[0].updates == plans[1].updates and (plans[1].steps, plans[1].head) == (20, "cosine")
    assert np.allclose(plans[0].rates, plans[1].rates)
