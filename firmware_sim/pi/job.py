"""One whole adaptation, written down so that two machines can be compared: ``job.py OUT.npz QUERIES PHOTOS``.

The default job of the README (five classes, five images each, 1 MB) on the shipped backbone, judged by
QUERIES images per class, all from the folder PHOTOS: drawing them anew would give other images on another
machine. The job is the same on every machine, to the last bit.
"""

import sys
import time

import numpy as np

import tinytrain
from tinytrain.backbones.catalogue import SHIPPED
from tinytrain.datasets import folder_dataset, sample_episode
from tinytrain.episode.episode import Episode

WAY, SHOTS, SEED = 5, 5, 0


def job(queries: int, photos: str) -> Episode:
    """The images of the job, from a folder with a folder per class."""
    return sample_episode(folder_dataset(photos), WAY, SHOTS, queries, SEED, 0)


def main(out: str, queries: int, photos: str) -> None:
    network, episode = tinytrain.load_backbone(SHIPPED.name), job(queries, photos)
    start = time.perf_counter()
    device = tinytrain.Device(threads=1)
    report = tinytrain.adapt(network, episode, tinytrain.Budget(memory=1_000_000), device=device, force=True)
    seconds = time.perf_counter() - start
    after = report.answers.after
    arrays = {f"{s.layer}.{s.part}": s.values for s in report.delta.slices}
    arrays |= {f"channels of {s.layer}.{s.part}": s.channels for s in report.delta.slices}
    np.savez(
        out, labels=episode.query.labels, before=report.answers.before, after=after,
        losses=report.ran.losses, head=report.delta.head.weights, backend=report.ran.backend, **arrays,
    )  # fmt: skip
    right = (after == episode.query.labels).mean()
    print(f"adapted in {seconds:.1f} s, {report.ran.backend} kernels, {right:.1%} of {len(after)} right")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
