"""``tinytrain bench``: compare policies on paired episodes, tune their rates, report."""

import argparse

from tinytrain.base.console import at_least
from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import add_json, check_outputs, print_result, say

DESCRIPTION = (
    "run: every policy of a matrix on the same episodes, into a log; a run that was stopped goes on where"
    " it was. tune: learning rates, with the same effort for every policy, on a pack that is no target. "
    "report: tables and plots of logs, as one Markdown and one HTML page. MATRIX is a YAML file or the "
    "name of a shipped one: results, offline, complete or smoke."
)
EXAMPLES = """\
  tinytrain bench run smoke -o smoke.jsonl
  tinytrain bench run results --estimate --jobs 2
  tinytrain bench run results -o results.jsonl --jobs 2
  tinytrain bench run complete -o complete.jsonl --jobs 8 --parallel dask --scheduler tcp://host:8786
  tinytrain bench tune results -o tuning.jsonl --rates rates.yaml
  tinytrain bench report results.jsonl -o report/ --rates rates.yaml --matrix results
"""
DEFAULT_MATRIX = "results"


def add_arguments(parser) -> None:
    parser.add_argument(
        "--estimate", action="store_true", help=f"the same as: run {DEFAULT_MATRIX} --estimate"
    )
    add_json(parser)
    actions = parser.add_subparsers(dest="action", metavar="run|tune|report")
    run_ = actions.add_parser("run", help="run a matrix")
    tune = actions.add_parser("tune", help="find learning rates")
    report = actions.add_parser("report", help="tables and plots of logs")
    for action in (run_, tune):
        _add_run_arguments(action)
    run_.add_argument("--packs", type=names, metavar="A,B", help="only these packs of the matrix")
    run_.add_argument("--backbones", type=names, metavar="A,B", help="only these backbones")
    run_.add_argument("--rates", metavar="FILE", help="tuned rates instead of the matrix's own")
    run_.add_argument("--estimate", action="store_true", default=argparse.SUPPRESS, help=ESTIMATE_HELP)
    tune.add_argument("--rates", metavar="FILE.yaml", required=True, help="where the tuned rates are written")
    tune.add_argument(
        "--grid", type=factors, metavar="X,Y", help="factors instead of the matrix's own, at least 4"
    )
    report.add_argument("logs", metavar="LOG", nargs="+", help="logs of 'bench run', also .xz, or pipes")
    report.add_argument(
        "-o", "--out", metavar="DIR", required=True, help="folder for report.md, report.html, plots"
    )
    report.add_argument("--rates", metavar="FILE", help="also show the trials that 'bench tune' wrote there")
    report.add_argument("--matrix", metavar="MATRIX", help="also say which of its runs the logs lack")
    report.add_argument("--packs", type=names, metavar="A,B", help="only these packs of the logs")
    report.add_argument("--episodes", type=at_least(1), metavar="N", help="only the first N per pack")
    add_json(report, inherited=True)


ESTIMATE_HELP = (
    "print how long all of it takes and stop; one run of every kind that is not in the log is measured"
)


def _add_run_arguments(parser) -> None:
    parser.add_argument("matrix", metavar="MATRIX", help="YAML file, or the name of a shipped matrix")
    parser.add_argument("-o", "--out", metavar="LOG", help="log; default: the name of the matrix with .jsonl")
    parser.add_argument(
        "--jobs", type=at_least(1), default=1, metavar="N", help="processes of one thread each"
    )
    parser.add_argument(
        "--parallel", default="loky", metavar="NAME", help="joblib backend: loky, dask or ray"
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a dask or ray cluster; default: a local one"
    )
    parser.add_argument(
        "--backbone", type=assignment, action="append", default=[], metavar="NAME=FILE",
        help="the file of a backbone of the matrix; may be given again",
    )  # fmt: skip
    parser.add_argument("--data", metavar="DIR", help="folder of the packs; default: TINYTRAIN_DATA")
    parser.add_argument("--policies", type=names, metavar="A,B", help="only these policies of the matrix")
    parser.add_argument("--episodes", type=at_least(1), metavar="N", help="at most N per pack")
    parser.add_argument(
        "--any-code", action="store_true", help="runs of other versions of the code count as done"
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
        raise UsageError("bad-grid", f"{text!r} is no list of factors above 0, such as 0.25,0.5,1,2,4")
    return found


def assignment(text: str) -> tuple[str, str]:
    name, _, file = text.partition("=")
    if not name or not file:
        raise UsageError("usage", f"{text!r} is not NAME=FILE")
    return name, file


def run(arguments) -> int:
    from tinytrain.meta.bench import session

    if arguments.action is None:
        if not arguments.estimate:
            raise UsageError("usage", "give run, tune or report; see tinytrain bench --help")
        as_json = ["--json"] if arguments.json else []
        return run(_parsed(["run", DEFAULT_MATRIX, "--estimate", *as_json]))
    if arguments.action == "report":
        return _report(arguments)
    if arguments.action == "tune":
        check_outputs(arguments.rates, needed=(arguments.matrix,))
    result, text = (session.tune if arguments.action == "tune" else session.run)(arguments, say)
    print_result(result, text, arguments.json)
    return 0


def _parsed(words: list[str]):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def _report(arguments) -> int:
    from tinytrain.meta.bench.pages import write_report

    result = write_report(
        arguments.logs, arguments.out, arguments.rates, arguments.matrix, arguments.packs, arguments.episodes
    )
    text = "\n".join(result["files"])
    print_result(result, text, arguments.json)
    return 0
