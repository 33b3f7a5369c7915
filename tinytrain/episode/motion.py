"""Recordings of motion, such as those of an accelerometer: CSV and ``.npy`` files become features."""

import os

import numpy as np

from tinytrain.base.errors import InputError
from tinytrain.base.file_kinds import first_bytes
from tinytrain.episode.augment import USUAL, Ranges
from tinytrain.episode.kind import HEAD, Kind
from tinytrain.episode.motion_features import CENTRE, SCALE, Reservoir, features, names_of
from tinytrain.episode.motion_file import NPY, looks_like, recording
from tinytrain.network.input_spec import InputSpec

MOST_NEURONS = 1000
NOISE = 0.1  # of a feature, in training, as a share of its deviation


class Noisy:
    """An item with noise (1, 1, D) added to its features."""

    def __init__(self, noise: np.ndarray):
        self.noise = noise

    def apply(self, y: np.ndarray, x: np.ndarray, kernels) -> None:
        np.add(x, self.noise, out=y)


class Motion(Kind):
    """An item (1, 1, D) float32 holds the features of a whole file.

    Parameters are `axes`, the `rate` at which files with times are read (0: as they are), and if there is an
    echo state network those of `Reservoir`.
    """

    name, noun, plural, suffixes = "motion", "recording", "recordings", (".csv", ".npy", ".tsv")

    def owns(self, path: str | os.PathLike) -> bool:
        return super().owns(path) and looks_like(first_bytes(path, HEAD))

    def begins(self, head: bytes) -> bool:
        return looks_like(head)

    def suffix(self, content: bytes) -> str:
        return ".npy" if content.startswith(NPY) else ".csv"

    def decode(self, content: bytes, spec: InputSpec) -> np.ndarray:
        asked = dict(spec.parameters)
        values = recording(content, asked["rate"]).values
        if values.shape[1] != asked["axes"]:
            found = f"has {values.shape[1]} columns of motion"
            raise InputError("image-unreadable", f"{found}; the network is for {asked['axes']}")
        return _item(values, reservoir_of(spec))

    def augment(
        self, rng: "np.random.Generator", spec: InputSpec, may_flip: bool, ranges: Ranges = USUAL
    ) -> Noisy:
        """Noise. Features know of no axes that could be turned, and of no time to be stretched."""
        noise = rng.standard_normal(spec.shape, np.float32) * np.float32(NOISE)
        return Noisy(noise / np.asarray(spec.scale, np.float32))

    def picture(self, item: np.ndarray) -> np.ndarray:
        """Features as columns of a chart, the highest of them reaching the top."""
        values = item.ravel() - item.min()
        heights = 63 * values / (float(values.max()) or 1.0)
        chart = np.where(np.arange(64)[::-1, None] <= heights, 60, 235).astype(np.uint8)
        return chart.repeat(2, axis=1)[..., None]

    def chart(self, content: bytes) -> np.ndarray:
        return self.picture(_item(recording(content).values))


def _item(values: np.ndarray, reservoir: Reservoir | None = None) -> np.ndarray:
    with np.errstate(all="ignore"):  # what is no number is named by the caller
        return features(values, reservoir)[None, None]


def reservoir_of(spec: InputSpec) -> Reservoir | None:
    asked = dict(spec.parameters)
    if not 0 <= asked.get("neurons", 0) <= MOST_NEURONS:
        raise InputError("unsupported", f"needs a network of at most {MOST_NEURONS} neurons")
    return Reservoir(*(asked[name] for name in Reservoir._fields)) if "neurons" in asked else None


def motion_spec(axes: int, rate: float = 0.0, reservoir: Reservoir | None = None) -> InputSpec:
    """What a network for recordings of so many axes takes."""
    parameters = {"axes": axes, "rate": rate} | (reservoir._asdict() if reservoir else {})
    names = names_of(axes, reservoir.neurons if reservoir else 0)
    mean, scale = (tuple(kind[name] for name in names) for kind in (CENTRE, SCALE))
    return InputSpec((1, 1, len(names)), "float32", mean, scale, kind="motion", parameters=parameters)
