"""Bytes of one training step of one image in int8, for SparseUpdate's published configurations.

The authors' code for microcontrollers says for each configuration how many bytes of working memory a step
takes: batch 1, SGD, and neither support images nor heads such as ours. That is counted here, too: activations
and gradients of activations at their peak (with rows of the image, as it is not kept), the trained weights
and biases as they are stored and what rounding left of them, and the gradients of all of them in float32.
"""

import sys

from tinytrain.backbones.load import load_backbone
from tinytrain.base.console import at_least, guarded
from tinytrain.meta.studies.study import study_parser
from tinytrain.network.network import Network
from tinytrain.plan.costs import n_trained
from tinytrain.plan.recipe import Recipe, Update
from tinytrain.policies.sparse_update import KILOBYTES, published, updates_of
from tinytrain.program.segments import SegmentBank

HEADINGS = ("backbone", "configuration, kB", "parameters", "activations", "trained", "gradients", "all")


def step_bytes(network: Network, updates: tuple[Update, ...]) -> dict[str, int]:
    """Bytes by what they are for; `all` is their sum."""
    recipe = Recipe("step", updates, ((0.0, 0.0),) * len(updates), "sgd").in_precision("int8")
    bank = SegmentBank(network, recipe)
    kinds = ("prefix", "backward") if bank.start else ("backward",)
    own = ("features", "grad embedding")
    activations = max(bank.get(kind).nbytes for kind in kinds) + sum(bank.externals[n].nbytes for n in own)
    weights = sum(u.n_weights(network) for u in updates)
    biases = sum(u.n_biases(network) for u in updates)
    found = {
        "activations": activations,
        "trained": 2 * weights + 4 * biases,
        "gradients": 4 * n_trained(network, updates),
    }
    return found | {"all": sum(found.values())}


def parser():
    p = study_parser("int8_step", __doc__.split("\n")[0], "mcunet-5fps", "")
    p.add_argument("--most", type=at_least(1), default=5, help="configurations, smallest first; default: all")
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    network = load_backbone(args.backbone)
    print(f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS), sep="\n")
    for size, configuration in list(zip(KILOBYTES, published(network), strict=True))[: args.most]:
        updates = updates_of(network, configuration)
        cells = [network.name, size, n_trained(network, updates), *step_bytes(network, updates).values()]
        print("| " + " | ".join(c if isinstance(c, str) else f"{c:,}" for c in cells) + " |")


if __name__ == "__main__":
    sys.exit(main())
