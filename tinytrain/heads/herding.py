"""Which few embeddings of a class stand for all of it."""

import numpy as np


def herded(embeddings: np.ndarray, labels: np.ndarray, most) -> list[int]:
    """Indices, class by class, of embeddings whose mean is near that of their class.

    `embeddings` (n, d) have length 1, `labels` (n,). `most` is how many of each class are taken at most, a
    number or (way,). The first ones are the most telling: each is the best addition to those before it
    (Rebuffi et al., "iCaRL", CVPR 2017, equation 4).
    """
    found = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        room = int(np.broadcast_to(most, int(labels.max()) + 1)[label])
        found += sorted(members.tolist()) if len(members) <= room else _chosen(embeddings, members, room)
    return found


def _chosen(embeddings: np.ndarray, members: np.ndarray, count: int) -> list[int]:
    of_class = embeddings[members].astype(float)
    mean, total, left = of_class.mean(axis=0), np.zeros(of_class.shape[1]), list(range(len(members)))
    chosen = []
    for k in range(1, count + 1):
        away = [np.square(mean - (total + of_class[i]) / k).sum() for i in left]
        chosen.append(left.pop(int(np.argmin(away))))
        total += of_class[chosen[-1]]
    return sorted(int(members[i]) for i in chosen)
