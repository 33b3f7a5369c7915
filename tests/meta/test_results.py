"""RESULTS.md is made from logs, says which of them are stale, and README says the same figures."""

import importlib
import re
import shlex
import shutil
from pathlib import Path

import pytest
from cases import each
from toybench import written

from tinytrain.base.errors import InputError
from tinytrain.meta.bench.codehash import code_hash
from tinytrain.meta.results import facts, main, page_of, results, state
from tinytrain.meta.run_log import read_log

ROOT = Path(__file__).parents[2]
LOGS = sorted(path.name for path in ROOT.glob("results/*.jsonl*"))
PAGES = "\n".join(path.read_text() for at in ("results/*", "docs") for path in ROOT.glob(f"{at}/*.md"))
STUDIES = [log for log in LOGS if "settings" in read_log(ROOT / "results" / log)[0]]
PAGE = "# Tiny\n\n[All results](../../RESULTS.md). Measured: 1 May 2026; `results/strangers.jsonl`.\n\n"
ROW = {kind: {"n": 10, "refused": refused} for kind, refused in (("own", 1), ("same", 4), ("other", 9))}


def folder(path: Path, template: str, *codes: str) -> Path:
    """A folder of results with a template, a page and its log, a row of each of `codes`."""
    (path / "tiny").mkdir(parents=True)
    (path / "tiny" / "README.md").write_text(PAGE + "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n")
    (path / "template.md").write_text(template)
    packs = ("gtsrb", "omniglot", "flowers12", "dtd10", "pacs_sketch")
    rows = [
        ROW | {"pack": p, "shots": s, "settings": {"code": c}} for p in packs for s in (1, 5) for c in codes
    ]
    written(path / "strangers.jsonl", *rows)
    return path


def test_the_page_of_results_is_what_its_command_writes(tmp_path):
    shutil.copytree(ROOT / "results", tmp_path / "results")
    assert main([str(tmp_path)]) == 0
    written = (tmp_path / "RESULTS.md").read_text()
    assert written == (ROOT / "RESULTS.md").read_text(), "type: python -m tinytrain.meta.results"
    assert len(written.splitlines()) <= 250


def test_every_log_has_a_page_that_says_when_it_was_made():
    for log in LOGS:
        page, when = page_of(ROOT / "results", log)
        assert when.endswith("2026") and (ROOT / "results" / page).is_dir()


@each("log", STUDIES)
def test_a_page_has_the_command_that_prints_the_figures_of_a_log(log, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    options = rf"--summary (?:.* )?--(?:out|before) results/{re.escape(log)}(?: .*)?"
    commands = re.findall(rf"^ +python -m tinytrain\.(\S+) ({options})$", PAGES, re.M)
    assert commands, f"no page says how to print the figures of results/{log}"
    for script, options in commands:
        words = shlex.split(re.sub(" --plot .*", "", options))
        assert importlib.import_module(f"tinytrain.{script}").main(words) == 0
        assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("codes", "stale"), [((code_hash(),), False), (("0" * 16,), True), ((code_hash(), "0" * 16), True)]
)
def test_a_log_is_stale_as_soon_as_other_code_made_one_of_its_rows(tmp_path, codes, stale):
    text = results(folder(tmp_path / "results", "Prose.\n\n@unknown\n", *codes))
    assert "| 5 | all | 10.0 | 40.0 | 90.0 |" in text
    mark = ", **stale**" if stale else ""
    assert text.endswith(f"\n\nFrom [`results/strangers.jsonl`](results/tiny/README.md), 1 May 2026{mark}.\n")


@each(
    ("changed", "stale"),
    [
        ({}, False),
        ({"seconds": 9, "own": ROW["own"] | {"seconds": 9}}, False),
        ({"same": {"n": 10, "refused": 5}}, True),
        ({"settings": {"code": code_hash(), "seed": 2}}, True),
        ({"settings": {"code": "1" * 16}}, True),
    ],
)
def test_a_log_of_other_code_is_not_stale_if_todays_gives_the_same_but_for_seconds(tmp_path, changed, stale):
    made = folder(tmp_path / "results", "", "0" * 16)
    row = {"pack": "gtsrb", "shots": 5, "settings": {"code": code_hash()}, **ROW}
    first = {"pack": "gtsrb", "shots": 5, "settings": {"code": "0" * 16}, **ROW}
    written(made / "strangers.jsonl", first, first | {"pack": "dtd10"})
    (made / "again").mkdir()
    written(made / "again" / "strangers.jsonl", row | changed)
    assert state(made, "tiny") == f"1 May 2026 | 1{', 1 **stale**' if stale else ''}"


def test_a_page_counts_its_logs_and_those_that_are_stale(tmp_path):
    made = folder(tmp_path / "results", "", "0" * 16)
    assert state(made, "tiny") == "1 May 2026 | 1, 1 **stale**"
    (made / "strangers.jsonl").unlink()
    assert state(made, "tiny") == "1 May 2026 | none"
    (made / "tiny" / "README.md").write_text("# Tiny\n")
    with pytest.raises(InputError, match="bad-value"):
        facts(made, "tiny")


def test_a_table_without_a_log_is_copied_from_its_page(tmp_path):
    text = results(folder(tmp_path / "results", "@copy tiny: c, a\n"))
    assert text.startswith("| c | a |\n|---|---|\n| 3 | 1 |\n\nMeasured 1 May 2026; no log is kept.")


@pytest.mark.parametrize("line", ["@unheard", "@copy tiny: a, z"])
def test_a_template_that_names_no_table_is_refused(tmp_path, line):
    with pytest.raises(InputError, match="bad-value"):
        results(folder(tmp_path / "results", f"{line}\n"))


def test_a_log_that_no_page_names_is_refused(tmp_path):
    made = folder(tmp_path / "results", "@estimate\n")
    with pytest.raises(InputError, match="bad-value"):
        page_of(made, "estimate.jsonl")


def test_readme_has_the_figures_of_the_headline():
    def accuracies(name: str, before: str) -> list[str]:
        text = (ROOT / name).read_text()
        return re.findall(rf"^\| {before}[^|]+ \| (\d\d\.\d ±\d\.\d) \|", text, re.M)

    readme, results = accuracies("README.md", ""), accuracies("RESULTS.md", r"mcunet-5fps \| ")
    assert len(readme) == 5 and set(readme) <= set(results)
