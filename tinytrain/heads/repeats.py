"""Images that nearly repeat another one of their class, such as frames of a burst, and what they feign.

If one of them is left out, the others still show it, so it says little about new images. They are found in
sketches: one bit for each value of an embedding, whether it is above that of the mean of all images. The
fraction of bits that differ grows with the angle between two embeddings.
"""

import numpy as np

NEAR = 0.6  # of the median distance to the others of its class: a closer image repeats it
LEAST_BITS = 64  # fewer are too coarse to tell a repeated image
MOST_BYTES = 16_384  # of sketches: of more images, the first ones stand for all
ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


class Sketches:
    """Sketches of up to `n` embeddings of `size` values, with their labels."""

    def __init__(self, n: int, size: int):
        width = -(-size // 8)
        room = min(n, max(1, MOST_BYTES // width))
        self._bits, self._labels = np.empty((room, width), np.uint8), np.empty(room, np.int32)
        self._size, self._seen = size, 0

    def add(self, embeddings: np.ndarray, labels: np.ndarray, centre: np.ndarray) -> None:
        """Take embeddings (n, size) of images with `labels` (n,) as they lie around `centre` (size,)."""
        part = slice(self._seen, min(self._seen + len(labels), len(self._bits)))
        count = part.stop - part.start
        self._bits[part] = np.packbits(embeddings[:count] > centre, axis=1)
        self._labels[part] = labels[:count]
        self._seen = part.stop

    def repeated(self) -> float:
        """Fraction of the images that are recognised without themselves only because others repeat them.

        An image is recognised if it is less far from the others of its class than from any other class, in
        the mean. With fewer than LEAST_BITS it is 0.
        """
        if self._size < LEAST_BITS:
            return 0.0
        bits, labels = self._bits[: self._seen], self._labels[: self._seen]
        way, helped, judged = int(labels.max()) + 1, 0, 0
        counts = np.bincount(labels, minlength=way)
        for i, label in enumerate(labels):
            far = ONES[bits ^ bits[i]].sum(axis=1, dtype=np.float32) / self._size
            classes = np.bincount(labels, far, way) / np.maximum(counts, 1)
            classes[(np.arange(way) == label) | (counts == 0)] = np.inf
            own = np.delete(far[labels == label], (labels[:i] == label).sum())
            if len(own):
                rest = own[own >= NEAR * np.median(own)]
                judged += 1
                helped += int(own.mean() < classes.min()) - int(rest.mean() < classes.min())
        return max(0.0, helped / judged) if judged else 0.0
