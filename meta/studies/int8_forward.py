"""What the forward pass in int8 costs: an LDA head on embeddings in float32 and in int8, paired episodes.

    python -m tinytrain.meta.studies.int8_forward --backbone mcunet-5fps --episodes 100 --out forward.jsonl
    python -m tinytrain.meta.studies.int8_forward --summary --out results/int8_forward_mcunet-5fps.jsonl

Nothing is adapted. "own" are the codes that come with the network, as published checkpoints have them;
"calibrated" those that `tinytrain calibrate` finds on generated domains, which are none of the packs.
"""

import sys
from functools import cache

import numpy as np

from tinytrain.datasets.calibration import calibration_images
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.heads import accuracy, head_of
from tinytrain.meta.studies.study import (
    TARGETS,
    TASK,
    Study,
    by_pack,
    decoded_episode,
    episodes_option,
    percent,
    strata,
    task_options,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.networks import embed
from tinytrain.runtime.calibrate import calibrated_network
from tinytrain.runtime.device import Device
from tinytrain.runtime.embedder import Embedder

FORMS = ("own", "calibrated")


@cache
def forms(network: Network) -> dict[str, Embedder]:
    images = calibration_images().held(network.input.shape)
    found = {"own": network} if network.quantisation else {}
    found["calibrated"] = calibrated_network(network, images)
    return {name: Embedder(each, precision="int8") for name, each in found.items()}


def of_lda(support: np.ndarray, query: np.ndarray, episode) -> float:
    """The accuracy of an LDA head on embeddings of any length."""
    unit = query / np.maximum(np.linalg.norm(query, axis=1, keepdims=True), 1e-6)
    head = head_of("lda", support, episode.support.labels)
    return accuracy(head, unit.astype(np.float32), episode.query.labels)


def run_job(network: Network, dataset, args, episode: int) -> dict:
    drawn = decoded_episode(network, dataset, args, episode)
    parts = drawn.support, drawn.query
    device = Device(threads=1)
    result = {"float32": of_lda(*(embed(network, part, device) for part in parts), drawn)}
    for name, each in forms(network).items():
        result[name] = of_lda(*map(each.embed, parts), drawn)
    return result


def summary(rows: list[dict]) -> list[str]:
    """Accuracy in per cent, and what int8 differs by, in points with 95 % intervals."""
    lines = []
    for form in [name for name in FORMS if name in rows[0]]:
        lines += [f"{form}: points above float32", ""]
        for pack, mine in by_pack(rows, "mean"):
            found = stratified(strata(mine, lambda row, form=form: 100 * (row[form] - row["float32"])))
            plain = percent([row["float32"] for row in mine])
            lines.append(f"{pack:<14} float32 {plain:>5}  int8 {found.text(2, signed=True)}  ({len(mine)})")
        lines.append("")
    return lines


OPTIONS = (*task_options(), episodes_option(20))
main = Study("int8_forward", __doc__, "tinytrain-small-2", TARGETS, run_job, summary, OPTIONS, TASK)


if __name__ == "__main__":
    sys.exit(main())
