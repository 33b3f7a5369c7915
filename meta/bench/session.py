"""The steps of ``tinytrain bench run`` and ``tune``, from the options of the command line to a result."""

from collections.abc import Callable

from tinytrain.base.errors import UsageError
from tinytrain.base.progress import ProgressLine
from tinytrain.meta.bench import tuning
from tinytrain.meta.bench.jobs import Job, count_runs, expand, open_backbones, pending
from tinytrain.meta.bench.matrix import Matrix, load_matrix
from tinytrain.meta.bench.narrow import narrowed
from tinytrain.meta.bench.parallel import BACKENDS, Workers
from tinytrain.meta.bench.rates import Rates, load_rates, save_rates
from tinytrain.meta.bench.record import checked, key_of, keys_of
from tinytrain.meta.bench.run import Kind, estimate, run_jobs
from tinytrain.meta.run_log import Log, opened
from tinytrain.policies.own import given_policy

Say = Callable[[str], None]


def run(options, say: Say) -> tuple[dict, str]:
    """Run a matrix, or only estimate it; the result as JSON values and as text. Raises TinytrainErrors."""
    matrix, rates = load_matrix(options.matrix)
    crew = _checked(matrix, options)
    matrix = narrowed(matrix, options.backbones, options.packs, options.policies, options.episodes)
    if options.rates:
        rates = load_rates(options.rates)
    if untuned := [
        x
        for x in matrix.labels
        if matrix.scale(x, rates) is None and given_policy(matrix.entry(x).policy).trains
    ]:
        say(f"learning rates as the policies have them, not tuned: {', '.join(untuned)}")
    jobs = _jobs(matrix, rates, options)
    out = options.out or f"{matrix.name}.jsonl"
    with opened(out, checked) as log, ProgressLine() as line:
        left = _left(jobs, log, options)
        if getattr(options, "estimate", False):
            return _estimated(estimate(left, log, line), crew.jobs)
        done = _run(left, jobs, log, crew, line, say)
    result = {"log": out, "runs": count_runs(jobs), "new": done, "code": jobs[0].code}
    text = f"{out}: {result['runs']} runs, {done} of them new; next: tinytrain bench report {out} -o report/"
    return result, text


def tune(options, say: Say) -> tuple[dict, str]:
    """Run a grid of learning rates and write the best ones. Raises TinytrainErrors."""
    matrix, _ = load_matrix(options.matrix)
    if matrix.tuning is None:
        raise UsageError("usage", f"{matrix.name} has no tuning section; add one with a backbone and a pack")
    crew = _checked(matrix, options)
    matrix = narrowed(matrix, policies=options.policies)
    grids = tuning.same_grid(matrix, options.grid or matrix.tuning.grid)
    out = options.out or f"{matrix.name}-tuning.jsonl"
    with opened(out, checked) as log, ProgressLine() as line:
        found = _tried(matrix, grids, log, options, crew, line, say)
        for _ in range(tuning.EXTENSIONS):
            if not any(row.edge for row in found.policies.values()):
                break
            grids = tuning.extended(grids, found)
            found = _tried(matrix, grids, log, options, crew, line, say)
    save_rates(options.rates, found)
    result = {"rates": options.rates, "log": out, **tuning.facts(found)}
    return result, tuning.table(found) + f"\n\nwritten to {options.rates}"


def _tried(matrix: Matrix, grids, log: Log, options, crew: Workers, line: ProgressLine, say: Say) -> Rates:
    """The best of `grids`, once what `log` lacks has been run."""
    trial = tuning.trials(matrix, grids, options.episodes)
    jobs = _jobs(trial, tuning.scales(grids), options)
    _run(_left(jobs, log, options), jobs, log, crew, line, say)
    keys = keys_of((job.identity(entry) for job in jobs for entry in job.entries), options.any_code)
    mine = [record for record in log.rows if key_of(record, options.any_code) in keys]
    return tuning.chosen(trial, mine, grids, jobs[0].code)


def _checked(matrix: Matrix, options) -> Workers:
    """The workers asked for. Raises UsageError for an unknown backend or the file of an unknown backbone.

    `matrix` is the whole one: the same files serve every part of it.
    """
    if options.parallel not in BACKENDS:
        raise UsageError("unknown-name", f"no backend {options.parallel!r}; known: {', '.join(BACKENDS)}")
    known = [*matrix.run_backbones, *([matrix.tuning.backbone] if matrix.tuning else [])]
    if unknown := [name for name, _ in options.backbone if name not in known]:
        raise UsageError(
            "unknown-name", f"--backbone {unknown[0]}: the matrix has {', '.join(dict.fromkeys(known))}"
        )
    return Workers(options.jobs, options.parallel, options.scheduler)


def _jobs(matrix: Matrix, rates: dict[str, float], options) -> list[Job]:
    for label in matrix.labels:  # before any work is done
        given_policy(matrix.entry(label).policy)
    backbones = open_backbones(matrix, matrix.run_backbones, dict(options.backbone))
    return expand(matrix, rates, backbones, options.data)


def _left(jobs: list[Job], log: Log, options) -> list[Job]:
    done = keys_of(log.rows, options.any_code)
    return pending(jobs, lambda run: key_of(run, options.any_code) in done)


def _run(left: list[Job], jobs: list[Job], log: Log, crew: Workers, line: ProgressLine, say: Say) -> int:
    total, new = count_runs(jobs), count_runs(left)
    if new < total:
        say(f"goes on: {total - new} of {total} runs are in {log.path}")
    return run_jobs(left, log, crew, line)


def _estimated(found: dict[Kind, tuple[int, float]], jobs: int) -> tuple[dict, str]:
    rows = [{**kind._asdict(), "runs": n, "seconds_each": seconds} for kind, (n, seconds) in found.items()]
    rows.sort(key=lambda row: -row["runs"] * row["seconds_each"])
    lines = [
        "{:8.1f} min  {runs:>6} x {seconds_each:6.2f} s  {label}, {backbone}, {sampler}".format(
            row["runs"] * row["seconds_each"] / 60, **row
        )
        for row in rows
    ]
    runs, total = sum(row["runs"] for row in rows), sum(r["runs"] * r["seconds_each"] for r in rows) / jobs
    lines.append(f"{runs} runs are left: {total / 3600:.2f} h on {jobs} process{'es' if jobs > 1 else ''}")
    return {"runs": runs, "seconds": total, "jobs": jobs, "kinds": rows}, "\n".join(lines)
