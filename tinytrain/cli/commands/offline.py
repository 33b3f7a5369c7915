"""Options and steps that the commands of the offline stage share."""

from tinytrain.base.errors import UsageError
from tinytrain.cli.commands.common import (
    add_json,
    add_number,
    add_threads,
    backbone_files,
    check_outputs,
    print_result,
    say,
)

FILES = (
    "RECIPE is a YAML file or the name of a shipped one. The run also writes, next to the result, a "
    ".checkpoint (a stopped run continues from it, to the same result), a .jsonl (log) and an .svg (learning "
    "curve)."
)


def add_arguments(parser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="YAML file or name of a shipped recipe")
    parser.add_argument("-o", "--out", metavar="NET.safetensors", required=True, help="network to write")
    add_number(parser, "--seed", 0, "seed instead of the recipe's")
    add_number(parser, "--steps", 1, "steps instead of the recipe's")
    parser.add_argument(
        "--restart", action="store_true", help="delete the files of an earlier run and start again"
    )
    parser.add_argument(
        "--resume", action="store_true", help="fail if there is no checkpoint to continue from"
    )
    add_threads(parser)
    add_json(parser)


def opened_recipe(arguments, kind: str):
    """The recipe with the changes of the command line, and the paths of the run's files."""
    from pathlib import Path

    from tinytrain.meta.training.checkpoint import Paths
    from tinytrain.meta.training.recipe import changed, load_recipe

    if not arguments.out.endswith(".safetensors"):
        raise UsageError("usage", f"{arguments.out!r} must end in .safetensors")
    if arguments.restart and arguments.resume:
        raise UsageError("usage", "--restart and --resume exclude each other")
    recipe = load_recipe(arguments.recipe, kind)
    length = "episodes" if kind == "meta-train" else "steps"
    changes = {"seed": arguments.seed, length: arguments.steps}
    recipe = changed(recipe, **{k: v for k, v in changes.items() if v is not None})
    paths = Paths(Path(arguments.out))
    networks = (vars(arguments).get(name) for name in ("backbone", "teacher"))
    check_outputs(arguments.out, needed=[file for name in networks for file in backbone_files(name)])
    if arguments.resume and not paths.checkpoint.exists():
        raise UsageError("usage", f"{paths.checkpoint} does not exist; start without --resume")
    if arguments.restart:
        for path in (paths.checkpoint, paths.log, paths.curve):
            path.unlink(missing_ok=True)
    return recipe, paths


def execute(task, recipe, paths, digest: str, arguments, stage: str) -> None:
    """Train, write the network, print the result."""
    from tinytrain.base.progress import ProgressLine
    from tinytrain.meta.training.loop import Run
    from tinytrain.meta.training.offline import finish, table

    with ProgressLine() as line:

        def report(step, steps, loss, note):
            line.note = note
            line(stage, step, steps, loss)

        def tell(text):
            line.clear()
            say(text)

        try:
            with paths.held():
                finished = finish(task, Run(task, recipe, paths, digest, report, tell), paths)
        finally:
            task.close()
    print_result({"out": str(paths.result), **finished.json()}, table(finished), arguments.json)
