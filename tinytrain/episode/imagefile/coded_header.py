"""What the headers of AV1 and HEVC pixels have in common: fields of single bits, and what they say."""

from dataclasses import dataclass

from tinytrain.episode.imagefile.stored import broken


@dataclass(frozen=True)
class Sequence:
    """The largest `width` and `height` of an image, and the bytes of its samples per pixel."""

    width: int
    height: int
    sample_bytes: float


class Bits:
    """The bits of `data`, the highest of each byte first; if they end early, the file is `damaged`."""

    def __init__(self, data: bytes, damaged: str):
        self.number, self.left, self.damaged = int.from_bytes(data), 8 * len(data), damaged

    def take(self, bits: int) -> int:
        self.left -= bits
        if self.left < 0:
            raise broken(self.damaged)
        return self.number >> self.left & (1 << bits) - 1

    def golomb(self) -> int:
        """A number of any length, as HEVC writes it."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                raise broken(self.damaged)
        return (1 << zeros) - 1 + self.take(zeros)
