"""Whole benchmark runs: however they are run, stopped and resumed, the log ends up the same."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
import toybench
from cases import quick

from tinytrain.base.errors import UsageError
from tinytrain.base.extras import install
from tinytrain.cli.main import main
from tinytrain.meta.bench import run, session, tuning
from tinytrain.meta.bench.rates import read_rates

NEEDS_JOBLIB = pytest.mark.skipif(find_spec("joblib") is None, reason="joblib is not installed")
TINYTRAIN = [sys.executable, "-m", "tinytrain", "bench"]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    return toybench.write(tmp_path_factory.mktemp("bench"))


def ran(matrix, log, **changes):
    said = []
    result, text = session.run(toybench.options(matrix, log, **changes), said.append)
    return result, text, said


@pytest.fixture(scope="module")
def sequential(matrix, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "sequential.jsonl"
    ran(matrix, log)
    return toybench.lines(log)


def command(matrix, log, *more):
    return [*TINYTRAIN, "run", str(matrix), "-o", str(log), *more]


def test_every_policy_gets_every_episode_with_all_that_a_report_needs(sequential):
    records = [json.loads(line) for line in sequential]
    assert len(records) == 2 * 3 * 3
    assert len({record["digest"] for record in records}) == 2 * 3
    for record in records:
        assert set(record["accuracy"]) == {"before_cosine", "before", "after"}
        assert set(record["memory"]) == {"arena", "paper", "batch_1", "batch_100", "trained_parameters"}
        assert record["memory"]["arena"] <= record["budget"] and record["macs"]["total"] > 0
        trains = record["policy"] != "none"
        assert (
            (record["macs"]["backward_per_sample"] > 0)
            == trains
            == bool(record["memory"]["trained_parameters"])
        )


@NEEDS_JOBLIB
def test_two_processes_write_the_same_records(matrix, sequential, tmp_path):
    ran(matrix, tmp_path / "log", jobs=2)
    assert toybench.lines(tmp_path / "log") == sequential


@NEEDS_JOBLIB
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_stopped_goes_on_and_ends_the_same(matrix, sequential, tmp_path, number):
    log = tmp_path / "log"
    run = command(matrix, log, "--jobs", "2")
    # A group of its own: a terminal or a power cut stops the workers too.
    with subprocess.Popen(run, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not log.exists() or log.read_bytes().count(b"\n") < 1:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        os.killpg(process.pid, number)
        said = process.communicate()[1]
    kept = log.read_bytes().count(b"\n")
    assert 1 <= kept < len(sequential)
    if number == signal.SIGINT:
        assert process.returncode == 130 and "Traceback" not in said and "interrupted" in said
    with log.open("a") as file:
        file.write('{"backbone": "to')  # what a power cut may leave
    result, _, said = ran(matrix, log)
    assert result["new"] == len(sequential) - kept
    assert any(f"{kept} of {len(sequential)} runs are in" in line for line in said)
    assert toybench.lines(log) == sequential


def test_a_finished_run_has_nothing_left_and_other_rates_are_other_runs(matrix, tmp_path):
    small = {"policies": ("last_layer",), "packs": ("signs",), "episodes": 1}
    assert ran(matrix, tmp_path / "log", **small)[0]["new"] == 1
    assert ran(matrix, tmp_path / "log", **small)[0]["new"] == 0
    (tmp_path / "rates.yaml").write_text(
        "{backbone: toy, packs: [glyphs], sampler: s, episodes: 1, code: c, grid: [0.5],"
        " policies: {last_layer: {scale: 0.5, best: 0.5, edge: false, accuracy: [1]}}}"
    )
    assert ran(matrix, tmp_path / "log", **small, rates=str(tmp_path / "rates.yaml"))[0]["new"] == 1


def test_the_file_of_a_backbone_serves_any_part_of_a_matrix(matrix, tmp_path):
    """A part without the backbone and the tuning of another one take the same options as the whole."""
    file = toybench.content(matrix.parent)["backbones"]["toy"]["file"]
    cell = {**toybench.CELL, "packs": ["signs"], "episodes": 1, "policies": ["none"]}
    cells = [{**cell, "backbones": [name]} for name in ("toy", "far")]
    tuning = toybench.content(matrix.parent)["tuning"] | {"backbone": "tuned"}
    path = toybench.write(tmp_path, cells=cells, tuning=tuning)
    given = [("toy", file), ("far", file), ("tuned", file)]
    result, _, _ = ran(path, tmp_path / "log", backbones=("toy",), backbone=given)
    assert result["runs"] == result["new"] == 1
    with pytest.raises(UsageError, match="the matrix has toy, far, tuned"):
        ran(path, tmp_path / "other", backbones=("toy",), backbone=[("fra", file)])
    assert not (tmp_path / "other").exists()


def test_an_estimate_measures_what_the_log_lacks_and_counts_what_is_left(matrix, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "warm_up", lambda: None)
    result, text, _ = ran(matrix, tmp_path / "log", estimate=True)
    assert result["runs"] == 18 - 3 and len(result["kinds"]) == 3
    total = sum(kind["runs"] * kind["seconds_each"] for kind in result["kinds"])
    assert result["seconds"] == pytest.approx(total) and "15 runs are left" in text
    lines = (tmp_path / "log").read_bytes()
    again, _, _ = ran(matrix, tmp_path / "log", estimate=True, jobs=2)
    assert again["seconds"] == pytest.approx(total / 2) and (tmp_path / "log").read_bytes() == lines


def test_an_estimate_does_not_charge_any_run_for_loading_the_kernels(matrix, tmp_path, monkeypatch):
    done, run_job = [], run.run_job
    monkeypatch.setattr(run, "warm_up", lambda: done.append("kernels"))
    monkeypatch.setattr(run, "run_job", lambda job: done.append(job.pack) or run_job(job))
    for _ in range(2):
        ran(matrix, tmp_path / "log", estimate=True)
    assert done[0] == "kernels" and len(done) == 1 + 3 and "kernels" not in done[1:]


def test_tuning_that_could_not_be_written_is_refused_before_any_trial(matrix, tmp_path):
    rates = tmp_path / "none" / "rates.yaml"
    assert (
        main(["bench", "tune", str(matrix), "-o", str(tmp_path / "log"), "--learning-rates", str(rates)]) == 6
    )
    assert not (tmp_path / "log").exists()


def test_tuning_gives_every_policy_the_same_trials_and_says_when_the_best_is_at_the_edge(matrix, tmp_path):
    given = toybench.options(matrix, tmp_path / "log", rates=str(tmp_path / "rates.yaml"))
    result, text = session.tune(given, print)
    assert set(result["policies"]) == {"last_layer", "tinytrain"}
    assert set(result["grid"]) >= {0.5, 1, 2, 4}
    rates = read_rates(tmp_path / "rates.yaml")
    tried = {label: [a for a in row.accuracy if a is not None] for label, row in rates.policies.items()}
    assert all(4 <= len(row) <= 4 + tuning.EXTENSIONS for row in tried.values())
    assert len(toybench.lines(tmp_path / "log")) == 2 * sum(len(row) for row in tried.values())
    for label, row in rates.policies.items():
        assert row.accuracy[rates.grid.index(row.best)] == max(tried[label])
        assert row.accuracy[rates.grid.index(row.scale)] is not None
        assert not row.edge or len(tried[label]) == 4 + tuning.EXTENSIONS
    assert ("at the edge of the grid" in text) == any(row.edge for row in rates.policies.values())


def test_the_command_line_runs_and_reports(matrix, tmp_path):
    small = ["--episodes", "2", "--packs", "signs", "--policies", "none,last_layer", "--json"]
    done = subprocess.run(
        command(matrix, tmp_path / "log", *small), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["runs"] == 4
    report = [*TINYTRAIN, "report", str(tmp_path / "log"), "-o", str(tmp_path / "out"), "--json"]
    found = json.loads(subprocess.run(report, capture_output=True, text=True, check=True).stdout)
    assert found["runs"] == 4 and (tmp_path / "out" / "report.html").is_file()


MISTAKES = {
    "an unknown matrix": (["run", "reslts"], 3, "does not exist"),
    "an unknown joblib backend": (["run", "MATRIX", "--parallel", "loki"], 2, "known: loky, dask, ray"),
    "a backbone that is not there": (
        ["run", "MATRIX", "--backbone", "toy=none.safetensors"],
        3,
        "none.safetensors",
    ),
    "rates in the place of the matrix": (
        ["tune", "MATRIX", "--learning-rates", "MATRIX"],
        2,
        "would replace",
    ),
    "a log that is none": (["report", "MATRIX", "-o", "out"], 3, "line 1 is no record"),
    "nothing to do": ([], 2, "give run, tune or report"),
}


@pytest.mark.parametrize("name", quick(MISTAKES, range(3)))
def test_mistakes_end_in_one_line(name, matrix, tmp_path):
    words, code, message = MISTAKES[name]
    words = [str(matrix) if word == "MATRIX" else word for word in words]
    done = subprocess.run([*TINYTRAIN, *words], capture_output=True, text=True, cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == code and message in last and "Traceback" not in done.stderr


def test_an_unregistered_policy_is_refused_before_any_work(tmp_path):
    cell = {**toybench.CELL, "policies": ["none", "not_yet"]}
    path = toybench.write(tmp_path, cells=[cell])
    done = subprocess.run(command(path, tmp_path / "log"), capture_output=True, text=True)
    assert done.returncode == 2 and "no policy 'not_yet'" in done.stderr and not (tmp_path / "log").exists()


def test_without_joblib_one_process_works_and_two_are_refused_in_one_line(matrix, tmp_path):
    (tmp_path / "joblib.py").write_text("raise ModuleNotFoundError('none', name='joblib')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    small = ["--episodes", "1", "--packs", "signs", "--policies", "none"]
    for jobs, code in (("1", 0), ("2", 2)):
        run = command(matrix, tmp_path / jobs, *small, "--jobs", jobs)
        done = subprocess.run(run, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert f"joblib is not installed; run {install('host')}, or give --jobs 1" in done.stderr


def test_a_local_dask_cluster_of_two_processes_gives_the_same_records(matrix, sequential, tmp_path):
    pytest.importorskip("dask.distributed", reason="dask.distributed is not installed")
    done = subprocess.run(
        command(matrix, tmp_path / "log", "--jobs", "2", "--parallel", "dask"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert toybench.lines(tmp_path / "log") == sequential
