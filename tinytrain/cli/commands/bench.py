"""``tinytrain bench``: compare policies on paired episodes, tune learning rates, write reports."""

import argparse

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import add_action, add_json, add_number, check_outputs, print_result, say

RUN = (
    "Run every policy of a matrix on the same episodes and write a log. A stopped run continues where it "
    "stopped."
)
TUNE = "Tune the learning rates of every policy with the same effort, on packs that are not targets."
REPORT = "Write tables and plots of logs as a Markdown page and an HTML page."
DESCRIPTION = (
    f"run: {RUN}\ntune: {TUNE}\nreport: {REPORT}\n"
    "MATRIX is a YAML file or the name of a shipped one: results, lead, tiers, offline, first_job, "
    "complete or smoke. "
    "'tinytrain bench run --help' and so on explain the options."
)
RUN_EXAMPLES = """\
  tinytrain bench run smoke -o smoke.jsonl
  tinytrain bench run results --estimate --jobs 2
  tinytrain bench run results -o results.jsonl --jobs 2
  tinytrain bench run complete --jobs 8 --parallel dask --scheduler tcp://host:8786
"""
TUNE_EXAMPLES = "  tinytrain bench tune results -o tuning.jsonl --learning-rates rates.yaml\n"
REPORT_EXAMPLES = (
    "  tinytrain bench report results.jsonl -o report/ --learning-rates rates.yaml --matrix results\n"
)
EXAMPLES = RUN_EXAMPLES + TUNE_EXAMPLES + REPORT_EXAMPLES
DEFAULT_MATRIX = "results"


def add_arguments(parser) -> None:
    parser.add_argument(
        "--estimate", action="store_true", help=f"the same as 'run {DEFAULT_MATRIX} --estimate'"
    )
    add_json(parser)
    actions = parser.add_subparsers(dest="action", metavar="run|tune|report")
    run_ = add_action(actions, "run", "run a matrix", RUN_EXAMPLES, description=RUN)
    tune = add_action(actions, "tune", "tune learning rates", TUNE_EXAMPLES, description=TUNE)
    report = add_action(actions, "report", "tables and plots of logs", REPORT_EXAMPLES, description=REPORT)
    for action in (run_, tune):
        _add_run_arguments(action)
    run_.add_argument("--packs", type=names, metavar="A,B", help="only these packs of the matrix")
    run_.add_argument("--backbones", type=names, metavar="A,B", help="only these backbones")
    _add_learning_rates(run_, "FILE", "tuned learning rates instead of those of the matrix")
    run_.add_argument("--estimate", action="store_true", default=argparse.SUPPRESS, help=ESTIMATE_HELP)
    _add_learning_rates(tune, "FILE.yaml", "file to write the tuned learning rates to", required=True)
    tune.add_argument(
        "--grid", type=factors, metavar="X,Y",
        help="factors of the learning rates instead of those of the matrix; at least 4",
    )  # fmt: skip
    report.add_argument(
        "logs", metavar="LOG", nargs="+", help="logs of 'bench run' (.jsonl or .xz), or pipes"
    )
    report.add_argument(
        "-o", "--out", metavar="DIR", required=True, help="folder for report.md, report.html and plots"
    )
    _add_learning_rates(report, "FILE", "also show the trials of 'bench tune' in FILE")
    report.add_argument("--matrix", metavar="MATRIX", help="also list the runs of MATRIX that the logs lack")
    report.add_argument("--packs", type=names, metavar="A,B", help="only these packs of the logs")
    add_number(report, "--episodes", 1, "only the first N episodes per pack")
    add_json(report, inherited=True)


ESTIMATE_HELP = (
    "print an estimate of the duration and stop; measures one run of every kind that is not in the log"
)


def _add_learning_rates(parser, metavar: str, text: str, required: bool = False) -> None:
    parser.add_argument("--learning-rates", dest="rates", metavar=metavar, required=required, help=text)


def _add_run_arguments(parser) -> None:
    parser.add_argument("matrix", metavar="MATRIX", help="YAML file or name of a shipped matrix")
    parser.add_argument("-o", "--out", metavar="LOG", help="log file; default: name of the matrix + .jsonl")
    add_number(parser, "--jobs", 1, "number of processes, with one thread each", 1)
    parser.add_argument(
        "--parallel", default="loky", metavar="NAME",
        help="joblib backend: loky, dask or ray; default: loky",
    )  # fmt: skip
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of a dask or ray cluster; default: a local one"
    )
    parser.add_argument(
        "--backbone", type=assignment, action="append", default=[], metavar="NAME=FILE",
        help="file of a backbone of the matrix; may be repeated",
    )  # fmt: skip
    parser.add_argument("--data", metavar="DIR", help="folder of the packs; default: $TINYTRAIN_DATA")
    parser.add_argument("--policies", type=names, metavar="A,B", help="only these policies of the matrix")
    add_number(parser, "--episodes", 1, "at most N episodes per pack")
    parser.add_argument(
        "--any-code", action="store_true", help="count runs of other versions of the code as done"
    )
    add_json(parser, inherited=True)


def names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def factors(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < factor < float("inf") for factor in found):
        raise UsageError("usage", f"{text!r} is not a list of factors above 0, such as 0.25,0.5,1,2,4")
    return found


def assignment(text: str) -> tuple[str, str]:
    name, _, file = text.partition("=")
    if not name or not file:
        raise UsageError("usage", f"{text!r} is not NAME=FILE")
    return name, file


def run(arguments) -> None:
    from tinytrain.meta.bench import session

    if arguments.action is None:
        if not arguments.estimate:
            raise UsageError("usage", "give run, tune or report; see tinytrain bench --help")
        as_json = ["--json"] if arguments.json else []
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        return run(parser.parse_args(["run", DEFAULT_MATRIX, "--estimate", *as_json]))
    if arguments.action == "report":
        return _report(arguments)
    if arguments.action == "tune":
        check_outputs(arguments.rates, needed=(arguments.matrix,))
    result, text = (session.tune if arguments.action == "tune" else session.run)(arguments, say)
    print_result(result, text, arguments.json)


def _report(arguments) -> None:
    from tinytrain.meta.bench.pages import write_report

    result = write_report(
        arguments.logs, arguments.out, arguments.rates, arguments.matrix, arguments.packs, arguments.episodes
    )
    text = "\n".join(result["files"])
    print_result(result, text, arguments.json)
