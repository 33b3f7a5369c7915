"""What the forward pass in int8 costs: an LDA head on embeddings in float32 and in int8, paired episodes.

    python -m tinytrain.meta.studies.int8_forward --backbone mcunet-5fps --episodes 100 --out forward.jsonl
    python -m tinytrain.meta.studies.int8_forward --summary --out results/int8_forward_mcunet-5fps.jsonl

Nothing is adapted. "own" are the codes that come with the network, as published checkpoints have them;
"calibrated" those that `tinytrain calibrate` finds on generated domains, whose ranges are cut where the mean
square error is least; "whole" those without a cut. The generated domains are none of the packs.
"""

import sys

import numpy as np

from tinytrain import kernels as kernel_table
from tinytrain.base.console import Parser, guarded
from tinytrain.datasets.calibration import calibration_images
from tinytrain.drift.recent import fitted
from tinytrain.episode.episode import Images
from tinytrain.heads.registry import find_head
from tinytrain.meta.bench.statistics import stratified
from tinytrain.meta.studies.int8_network import Int8Network
from tinytrain.meta.studies.study import (
    EPISODES,
    add_episodes,
    add_log,
    decoded_episode,
    episode_jobs,
    run_study,
    study_parser,
)
from tinytrain.network.network import Network
from tinytrain.pipeline.check import embed
from tinytrain.runtime.calibrate import calibrated
from tinytrain.runtime.device import Device

PACKS = "gtsrb,omniglot,flowers12,dtd10,pacs_sketch"
FORMS = ("own", "calibrated", "whole")


PREPARED: dict[str, dict[str, Int8Network]] = {}


def forms(network: Network) -> dict[str, Int8Network]:
    if network.digest not in PREPARED:
        images, kernels = calibration_images().held(network.input.shape), kernel_table.load()
        found = {"own": network} if network.quantisation else {}
        found["calibrated"] = calibrated(network, images)
        found["whole"] = calibrated(network, images, kept=(1.0,))
        PREPARED[network.digest] = {name: Int8Network(each, kernels) for name, each in found.items()}
    return PREPARED[network.digest]


def int8_embeddings(network: Int8Network, images: Images) -> np.ndarray:
    rows = []
    for i in range(len(images)):
        image = images.image(i, network.network.input.shape)
        rows.append(network.embeddings(network.run(image[None])[-1])[0])
    return np.stack(rows)


def accuracy(support: np.ndarray, query: np.ndarray, episode) -> float:
    """Of an LDA head on embeddings of any length."""
    head = fitted(find_head("lda"), kernel_table.load(), support, episode.support.labels)
    unit = query / np.maximum(np.linalg.norm(query, axis=1, keepdims=True), 1e-6)
    found = head.logits(unit.astype(np.float32)).argmax(axis=1)
    return float((found == episode.query.labels).mean())


def run_job(network: Network, dataset, args, episode: int) -> dict:
    drawn = decoded_episode(network, dataset, args, episode)
    parts = drawn.support, drawn.query
    device = Device(threads=1)
    result = {"float32": accuracy(*(embed(network, part, device) for part in parts), drawn)}
    for name, each in forms(network).items():
        result[name] = accuracy(*(int8_embeddings(each, part) for part in parts), drawn)
    return result


def summary(rows: list[dict]) -> list[str]:
    """Accuracy in per cent, and what int8 differs by, in points with 95 % intervals."""
    packs = list(dict.fromkeys(row["pack"] for row in rows))
    lines = []
    for form in [name for name in FORMS if name in rows[0]]:
        lines += [f"{form}: points above float32", ""]
        strata = [
            [100 * (row[form] - row["float32"]) for row in rows if row["pack"] == pack] for pack in packs
        ]
        for pack, values in [*zip(packs, ([each] for each in strata), strict=True), ("mean", strata)]:
            chosen = [row for row in rows if pack in ("mean", row["pack"])]
            plain = 100 * float(np.mean([row["float32"] for row in chosen]))
            found = stratified(values)
            half = "-" if found.half is None else f"{found.half:.2f}"
            lines.append(f"{pack:<14} float32 {plain:5.1f}  int8 {found.mean:+.2f} ±{half}  ({len(chosen)})")
        lines.append("")
    return lines


def parser() -> Parser:
    p = study_parser("int8_forward", __doc__.split("\n")[0], "tinytrain-small-2", PACKS)
    add_episodes(p, 20)
    add_log(p, adapts=False)
    return p


def main(arguments: list[str] | None = None) -> int:
    return guarded(run, arguments)


def run(arguments: list[str]) -> None:
    args = parser().parse(arguments)
    run_study(args, episode_jobs, EPISODES, run_job, summary)


if __name__ == "__main__":
    sys.exit(main())
