"""``tinytrain distil``: train a network to embed images as several larger networks do."""

from tinytrain.backbones.load import load_backbone, open_backbone
from tinytrain.cli.commands import offline
from tinytrain.cli.commands.common import add_backbone, workers

DESCRIPTION = (
    "Train a network to embed images as one or more larger networks, its teachers, do together. "
    f"No labels are needed. {offline.FILES}"
)
EXAMPLES = """\
  tinytrain distil medium-distil --backbone mcunet-5fps -o followed.safetensors
  tinytrain distil mine.yaml --backbone net.safetensors --teacher big.safetensors -o better.safetensors
"""


def add_arguments(parser) -> None:
    offline.add_arguments(parser)
    add_backbone(parser)
    parser.add_argument(
        "--teacher", metavar="NET", action="append", help="teacher instead of the recipe's; may be repeated"
    )


def run(arguments) -> int:
    from dataclasses import replace

    recipe, paths = offline.opened_recipe(arguments, "distil")
    network = open_backbone(arguments.backbone)
    teachers = [load_backbone(name) for name in arguments.teacher or recipe.teachers]

    from tinytrain.meta.training.distil import DistilTask
    from tinytrain.meta.training.recipe import digest_of
    from tinytrain.meta.training.sources import open_sources
    from tinytrain.meta.training.validate import Validator

    sources = open_sources(recipe.sources, recipe.seed)
    validator = Validator(recipe.validate, sources, network.input.size)
    task = DistilTask(network, recipe, sources, validator, teachers, workers(arguments))
    # Digests of the teachers count, not their names or paths.
    digests = [net.digest for net in (network, *teachers)]
    digest = digest_of(replace(recipe, teachers=()), *digests)
    return offline.execute(task, recipe, paths, digest, arguments, "distillation")
