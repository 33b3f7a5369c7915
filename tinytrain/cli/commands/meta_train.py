"""``tinytrain meta-train``: train a whole network on few-shot episodes, for few-shot adaptation later."""

from tinytrain.backbones.load import open_backbone
from tinytrain.cli.commands import offline
from tinytrain.cli.commands.common import add_backbone, workers

DESCRIPTION = (
    "Train a network on few-shot episodes of many domains, so that it adapts well to few images. "
    + offline.FILES
)
EXAMPLES = """\
  tinytrain meta-train meta-mcunet-near --backbone mcunet-5fps -o mcunet-near.safetensors
  tinytrain meta-train mine.yaml --backbone net.safetensors -o better.safetensors --threads 2
  tinytrain meta-train mine.yaml --backbone net.safetensors -o better.safetensors --restart
"""


def add_arguments(parser) -> None:
    offline.add_arguments(parser)
    add_backbone(parser)


def run(arguments) -> None:
    recipe, paths = offline.opened_recipe(arguments, "meta-train")
    network = open_backbone(arguments.backbone, "meta-training")

    from tinytrain.meta.training.metatrain import MetaTask
    from tinytrain.meta.training.recipe import digest_of
    from tinytrain.meta.training.sources import open_sources
    from tinytrain.meta.training.validate import Validator

    sources = open_sources(recipe.sources, recipe.seed)
    validator = Validator(recipe.validate, sources, network.input.size)
    task = MetaTask(network, recipe, sources, validator, workers(arguments))
    digest = digest_of(recipe, network.digest)
    offline.execute(task, recipe, paths, digest, arguments, "meta-training")
