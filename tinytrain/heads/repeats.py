"""Near-duplicates, such as frames of a burst, and how they inflate the estimated accuracy.

If one of them is left out, the others still show it, so it says little about new images. They are found in
sketches: one bit for each value of an embedding, whether it is above that of the mean of all images. The
fraction of bits that differ grows with the angle between two embeddings.
"""

import numpy as np

NEAR = 0.6  # of the median distance to the others of its class: a closer image repeats it
LEAST_BITS = 64  # fewer are too coarse to tell a repeated image
MOST_BYTES = 24_000  # of sketches: of more images, the first ones stand for all
INTEGER_BYTES = 28  # of a Python integer beside its bits


class Sketches:
    """Sketches of up to `n` embeddings of `size` values, with their labels."""

    def __init__(self, n: int, size: int):
        self._size, self._room = size, min(n, MOST_BYTES // (INTEGER_BYTES + size // 7))
        # Integers: numpy would load code and take copies, which are more bytes than the sketches.
        self._bits, self._labels = [], []

    def add(self, embeddings: np.ndarray, labels: np.ndarray, centre: np.ndarray) -> None:
        """Take embeddings (n, size) of images with `labels` (n,) as they lie around `centre` (size,)."""
        for e, label in zip(embeddings, labels.tolist(), strict=True):
            if len(self._bits) < self._room:
                self._bits.append(int.from_bytes(np.packbits(e > centre).tobytes()))
                self._labels.append(label)

    def repeated(self) -> float:
        """Fraction of the images that are recognised without themselves only because others repeat them.

        An image is recognised if it is less far from the others of its class than from any other class, in
        the mean. With fewer than LEAST_BITS it is 0.
        """
        if self._size < LEAST_BITS:
            return 0.0
        helped, judged = 0, 0
        for i, label in enumerate(self._labels):
            classes = self._distances(i)
            own = sorted(classes.pop(label, ()))
            if own and classes:
                rest = [far for far in own if far >= NEAR * own[len(own) // 2]]
                other = min(map(_mean, classes.values()))
                judged += 1
                helped += int(_mean(own) < other) - int(_mean(rest) < other)
        return max(0.0, helped / judged) if judged else 0.0

    def _distances(self, i: int) -> dict[int, list[int]]:
        """In how many bits the other images of each class differ from image `i`."""
        found: dict[int, list[int]] = {}
        for j, (bits, label) in enumerate(zip(self._bits, self._labels, strict=True)):
            if j != i:
                found.setdefault(label, []).append((bits ^ self._bits[i]).bit_count())
        return found


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)
