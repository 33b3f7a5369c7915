"""What a network takes: the shape of an image and how its values become numbers of the first layer."""

from dataclasses import dataclass

from tinytrain.network.optional_fields import optional_field, used, written


@dataclass(frozen=True)
class InputSpec:
    """Images `dtype` of `shape` (height, width, channels); a value v enters as ``(v - mean) * scale``.

    `mean` and `scale` hold a number for each channel; a single number given stands for all of them. `resize`
    is how an image of another shape becomes one of `shape`: resized (bilinear) until it just covers it, then
    cropped around the centre. Channels are RGB, or one of anything.

    If `rotated`, the first layer reads the image turned by 180 degrees; callers give it upright. A network
    that pads as TensorFlow's SAME does, more at the end, pads as ours if its kernels are turned, too.
    """

    shape: tuple[int, int, int] = (128, 128, 3)
    dtype: str = "uint8"
    mean: float | tuple[float, ...] = 127.5
    scale: float | tuple[float, ...] = 1 / 127.5
    resize: str = "short-side-bilinear-centre-crop"
    rotated: bool = optional_field(False)

    def __post_init__(self):
        for name in ("mean", "scale"):
            value = getattr(self, name)
            if not isinstance(value, tuple | list):
                object.__setattr__(self, name, (value,) * self.shape[-1])

    @property
    def size(self) -> int | tuple[int, int]:
        """What `Images.read` is asked for: the side of a square, (height, width) of anything else."""
        height, width, _ = self.shape
        return height if height == width else (height, width)

    @property
    def is_plain(self) -> bool:
        """Whether it is a square of 3 channels that all have the same mean and scale."""
        height, width, channels = self.shape
        return (height, channels) == (width, 3) and len(set(self.mean)) == len(set(self.scale)) == 1

    def as_dict(self) -> dict:
        """For JSON and for the digest of the network.

        A plain one has a form with one number for all sides and one for all channels: digests of networks as
        old as that form have to stay what they are.
        """
        if not self.is_plain:
            return written(self)
        optional = {name: getattr(self, name) for name in used(self)}
        return {
            "size": self.shape[0],
            "mean": self.mean[0],
            "scale": self.scale[0],
            "resize": self.resize,
            **optional,
        }
