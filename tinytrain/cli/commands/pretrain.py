"""``tinytrain pretrain``: train a network from random weights, on classes or on a teacher's embeddings."""

from tinytrain.backbones.load import open_backbone
from tinytrain.cli.commands import offline
from tinytrain.cli.commands.common import workers

DESCRIPTION = (
    "Train a network from random weights: without a teacher on the classes of the recipe's sources, with one "
    f"on the teacher's embeddings of the same images. {offline.FILES}"
)
EXAMPLES = """\
  tinytrain pretrain shipped-pretrain --teacher mcunet-5fps -o small.safetensors
  tinytrain pretrain mine.yaml -o mine.safetensors --threads 2
"""


def add_arguments(parser) -> None:
    offline.add_arguments(parser)
    parser.add_argument("--teacher", metavar="NET", help="teacher network instead of the recipe's")


def run(arguments) -> None:
    from dataclasses import replace

    recipe, paths = offline.opened_recipe(arguments, "pretrain")

    from tinytrain.episode.kinds import kind_of
    from tinytrain.meta.training.pretrain import PretrainTask
    from tinytrain.meta.training.recipe import digest_of
    from tinytrain.meta.training.sources import open_sources
    from tinytrain.meta.training.validate import Validator

    recipe = replace(recipe, teacher=arguments.teacher or recipe.teacher)
    teacher = open_backbone(recipe.teacher, "a teacher") if recipe.teacher else None
    spec = recipe.architecture.spec
    sources = open_sources(recipe.sources, recipe.seed, spec)
    validator = Validator(recipe.validate, sources, kind_of(spec.kind).asked(spec))
    task = PretrainTask(recipe, sources, validator, teacher, workers(arguments))
    name = recipe.teacher and "given"  # the digest of the teacher counts, not its path
    digest = digest_of(replace(recipe, teacher=name), teacher.digest if teacher else "")
    offline.execute(task, recipe, paths, digest, arguments, "pre-training")
