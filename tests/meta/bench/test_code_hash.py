"""The hash of the code: no module that makes a number is left out."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import toybench

from tinytrain.base.errors import InputError
from tinytrain.meta.bench.codehash import sources
from tinytrain.meta.bench.episode import run_job
from tinytrain.meta.bench.jobs import expand, open_backbones
from tinytrain.meta.bench.matrix import load_matrix

# What an episode imports besides: packages that only hold others, stored kernels, pages, checks, the matrix.
CHANGE_NOTHING = (
    "compile_cache/", "report/__init__.py", "report/html.py", "report/text.py", "report/page/",
    "report/conclusion.py", "report/layout.py", "base/page.py", "base/shell.py", "onnx/__init__.py",
    "base/answer.py", "base/extras.py", "base/svg.py", "base/yaml_file.py", "meta/__init__.py",
    "bench/__init__.py",
    "bench/checks.py", "bench/codehash.py", "bench/jobs.py", "bench/matrix.py", "bench/rates.py",
)  # fmt: skip
RUN = """
import sys
from tinytrain.meta.bench.episode import run_job
from tinytrain.meta.bench.jobs import expand, open_backbones
from tinytrain.meta.bench.matrix import load_matrix
matrix, _ = load_matrix(sys.argv[1])
run_job(expand(matrix, {}, open_backbones(matrix, ["toy"], {}))[0])
for name, module in sys.modules.items():
    if name.split(".")[0] == "tinytrain" and getattr(module, "__file__", None):
        print(module.__file__)
"""


def test_every_module_that_an_episode_runs_is_in_the_hash_or_changes_no_number(tmp_path):
    command = [sys.executable, "-c", RUN, str(toybench.write(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {Path(line) for line in done.stdout.splitlines()}
    assert len(loaded) > 50
    left = loaded - {path for _, path in sources()}
    assert not [str(path) for path in left if not any(part in str(path) for part in CHANGE_NOTHING)]


def test_a_worker_with_other_code_than_its_parent_refuses_the_job(tmp_path):
    matrix, _ = load_matrix(toybench.write(tmp_path))
    job = expand(matrix, {}, open_backbones(matrix, ["toy"], {}))[0]
    job = replace(job, entries=job.entries[:1])
    assert len(run_job(job)) == 1
    with pytest.raises(InputError, match="the run began with 0123456789abcdef") as refused:
        run_job(replace(job, code="0123456789abcdef"))
    assert refused.value.code == "run-mismatch"
