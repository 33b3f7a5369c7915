"""What a network takes: an item of a kind, and how its values become numbers of the first layer."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tinytrain.network.optional_fields import optional_field, used, written

if TYPE_CHECKING:  # what decodes images has no room for numpy
    import numpy as np

IMAGE = "image"
DTYPES = ("uint8", "float32")


@dataclass(frozen=True)
class InputSpec:
    """Images, `dtype` of `shape` (height, width, channels); a value v enters as ``(v - mean) * scale``.

    `mean` and `scale` hold a number for each channel; a single number given stands for all of them. `resize`
    is how an image of another shape becomes one of `shape`: resized (bilinear) until it just covers it, then
    cropped around the centre. Channels are RGB, or one of anything.

    Another `kind` than images is read as `tinytrain.episode.kind` says, with `parameters`, all of them: pairs
    (name, value) in the order of their names, also given as a dict. It has any number of channels; `resize`
    means nothing to it.

    If `rotated`, the first layer reads the image turned by 180 degrees; callers give it upright. A network
    that pads as TensorFlow's SAME does, more at the end, pads as ours if its kernels are turned, too.
    """

    shape: tuple[int, int, int] = (128, 128, 3)
    dtype: str = "uint8"
    mean: float | tuple[float, ...] = 127.5
    scale: float | tuple[float, ...] = 1 / 127.5
    resize: str = "short-side-bilinear-centre-crop"
    rotated: bool = optional_field(False)
    kind: str = optional_field(IMAGE)
    parameters: tuple[tuple[str, str | int | float | bool], ...] = optional_field(())

    def __post_init__(self):
        if isinstance(self.parameters, dict):  # a frozen value has no dict
            object.__setattr__(self, "parameters", tuple(sorted(self.parameters.items())))
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
    def item(self) -> tuple:
        """What an item is and how it is read: networks that agree in it can look at the same one."""
        return self.kind, self.shape, self.dtype, self.resize, self.parameters

    @cached_property
    def of_row(self) -> tuple["np.ndarray", "np.ndarray"]:
        """`mean` and `scale` of every number of a row: (width * channels,) float32 each."""
        import numpy as np

        mean, scale = (np.tile(np.array(part, np.float32), self.shape[1]) for part in (self.mean, self.scale))
        return mean, scale

    @property
    def words(self) -> str:
        """For messages: the shape of images, of other kinds all that is said of what they are."""
        shape = " x ".join(map(str, self.shape))
        if self.kind == IMAGE:
            return shape
        settings = "".join(f", {name} {value}" for name, value in self.parameters)
        return f"{self.kind} ({shape} {self.dtype}{settings})"

    @property
    def is_plain(self) -> bool:
        """Whether it is for images, squares of 3 channels that all have the same mean and scale."""
        height, width, channels = self.shape
        if (self.kind, self.dtype) != (IMAGE, "uint8"):
            return False
        return (height, channels) == (width, 3) and len(set(self.mean)) == len(set(self.scale)) == 1

    def as_dict(self) -> dict:
        """For JSON and for the digest of the network.

        A plain one has a form with one number for all sides and one for all channels: digests of networks as
        old as that form have to stay what they are.
        """
        if not self.is_plain:
            fields = written(self)
            return fields | {"parameters": dict(self.parameters)} if self.parameters else fields
        optional = {name: getattr(self, name) for name in used(self)}
        return {
            "size": self.shape[0],
            "mean": self.mean[0],
            "scale": self.scale[0],
            "resize": self.resize,
            **optional,
        }
