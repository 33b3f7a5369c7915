"""Cost against shots and classes: a small run of the study, and lines fitted to known costs."""

import itertools
import xml.etree.ElementTree as ET

from sourcetree import ROOT

from tinytrain.meta.studies import scaling as study
from tinytrain.meta.studies.study import read_study


def test_every_task_is_a_line_with_its_costs_and_all_steps(logged, rows, tmp_path, capsys):
    plot = tmp_path / "plot.svg"
    words = ["--packs", "signs", "--counts", "5,6,7", "--budgets", "200kB", "--repeats", "1"]
    assert study.main([*logged, *words, "--plot", str(plot)]) == 0
    tasks = [(row["way"], row["shots"]) for row in rows()]
    assert tasks == [(5, 5), (5, 6), (5, 7), (6, 5), (7, 5)]
    assert all(row["seconds"] > 0 and 0 < row["arena"] <= 200_000 for row in rows())
    executed = {task: row["executed"] for task, row in zip(tasks, rows(), strict=True)}
    assert executed[5, 5] < executed[5, 6] < executed[5, 7]
    assert len(capsys.readouterr().out.splitlines()) >= 2 + 2 * len(study.COSTS)
    texts = [node.text for node in ET.parse(plot).iter("{http://www.w3.org/2000/svg}text")]
    assert {"shots, 200kB", "classes, 200kB", *(cost.title for cost in study.COSTS)} <= set(texts)


def known(cost, whole=lambda n: n <= 10):
    """Rows of shots and classes whose seconds are ``cost(n)``."""
    tasks = [(5, n) for n in (5, 6, 8, 10, 15, 20, 50)]
    tasks += [(n, 5) for n in (6, 8, 10, 15, 20, 50)]
    return [
        {
            "budget": "1MB", "way": way, "shots": shots, "step": 50 if whole(max(way, shots)) else 49,
            **dict.fromkeys(("seconds", "executed", "arena"), cost(max(way, shots))),
        }
        for way, shots in tasks
    ]  # fmt: skip


def test_costs_on_two_lines_are_on_their_lines():
    lines = study.summary(known(lambda n: 1 + 0.5 * n if n <= 10 else 4 + 0.2 * n))
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells == [
        "1MB",
        "shots",
        "processor time, s",
        "0.1",
        "0.0%",
        "0.04",
        "0.0%",
        "3.5",
        "6",
        "8",
        "14",
    ]


def test_a_cost_that_grows_with_the_square_is_far_from_its_line():
    fit = study.fitted([(n, n * n) for n in (15, 20, 30, 50)])
    assert fit.farthest > 0.15
    assert study.fitted([(5, 1), (6, 2)]) is None


def test_the_drawing_of_the_log_in_the_documentation_is_that_of_its_rows():
    rows = read_study(ROOT / "results" / "scaling.jsonl")
    assert study.drawing(rows) == (ROOT / "docs" / "images" / "scaling.svg").read_text()


def test_titles_and_names_of_the_plots_lie_apart():
    svg = ET.fromstring(study.drawing(known(lambda n: n)))
    at = [(float(t.get("x")), float(t.get("y"))) for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    names = sorted(y for x, y in at if x > 560)
    assert len(names) == 2 * len(study.COSTS) and all(b - a >= 16 for a, b in itertools.pairwise(names))
    assert max(y for _, y in at) < float(svg.get("height"))


def test_a_plot_has_a_name_of_its_kind_and_a_summary_needs_a_log(capsys, tmp_path):
    assert study.main(["--plot", "plot.png"]) == 2
    assert study.main(["--summary", "--plot", str(tmp_path / "plot.svg")]) == 2
    kind, log = capsys.readouterr().err.splitlines()
    assert "'plot.png' must end in .svg" in kind and "name it with --out" in log
