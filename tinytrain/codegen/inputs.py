"""What a device reads: images, recordings of motion or clips of sound, and the C of each kind."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tinytrain.codegen.text import array, number, table
from tinytrain.episode.augment import Augmentation
from tinytrain.episode.logmel import LogMel, sparse_triangles, window
from tinytrain.episode.motion import Noisy, reservoir_of
from tinytrain.episode.motion_features import WINDOW, Reservoir, band_of, hann, matrices
from tinytrain.episode.motion_file import MOST_ROWS
from tinytrain.episode.portable import turns
from tinytrain.episode.sound import Change
from tinytrain.network.input_spec import IMAGE, InputSpec

SOURCES = Path(__file__).parent / "c"
MOTION, SOUND = "motion", "sound"
FILES = {  # that are for one kind alone
    IMAGE: ("kernels_image.c",),
    MOTION: ("kernels_fft.c", "motion.c"),
    SOUND: ("kernels_fft.c", "sound.c"),
}
MADE = ("reservoir.c",)  # for some recordings


def obstacle(spec: InputSpec) -> str | None:
    """Why there is no C that reads this. Raises InputError for settings that make no sense."""
    if spec.kind not in FILES:
        return f"it takes inputs of kind {spec.kind}"
    if spec.kind == SOUND:
        settings = LogMel.of(dict(spec.parameters))
        if settings.mag_exp not in (1, 2):
            return "it takes spectra of another power than 1 or 2"
    return None


def settings_of(spec: InputSpec) -> dict:
    """What plan.h says of the input, by name; see `defined`."""
    found = {"MOTION": int(spec.kind == MOTION), "SOUND": int(spec.kind == SOUND)}
    if spec.kind == MOTION:
        asked, reservoir = dict(spec.parameters), reservoir_of(spec)
        found |= {"MOST_ROWS": MOST_ROWS, "AXES": asked["axes"], "NEURONS": 0}
        found |= reservoir_settings(reservoir, asked["axes"]) if reservoir else {}
    if spec.kind == SOUND:
        s = LogMel.of(dict(spec.parameters))
        found |= {
            "RATE": s.sampling_rate, "FFT": s.fft_length, "FRAME": s.sequence_length,
            "HOP": s.sequence_stride, "MAGNITUDE": int(s.mag_exp == 1),
            "DECIBELS": int(s.power_to_db), "TOP": np.float32(s.top_db),
            "MIN_POWER": np.float32(s.min_power), "LOW": np.float32(s.low),
            "CODES_PER_UNIT": np.float32(255 / (s.high - s.low)),
        }  # fmt: skip
    return found


def files_of_input(spec: InputSpec) -> dict[str, str]:
    """The files for this kind of input, by name."""
    found = {name: (SOURCES / name).read_text() for name in FILES[spec.kind]}
    if spec.kind == MOTION:
        _insert(found, "motion.c", _motion_tables())
        if reservoir := reservoir_of(spec):
            found["reservoir.c"] = c_reservoir(reservoir, dict(spec.parameters)["axes"])
    if spec.kind == SOUND:
        _insert(found, "sound.c", _sound_tables(spec))
    return found


def _insert(files: dict[str, str], name: str, tables: list[str]) -> None:
    """Put `tables` in place of the line TABLES."""
    files[name] = files[name].replace("TABLES\n", "\n".join([*tables, ""]))


def _turns(size: int) -> list[str]:
    parts = zip(("cosines", "sines"), turns(size), strict=True)
    return [array(f"static const float {name}", values) for name, values in parts]


def _motion_tables() -> list[str]:
    bands = array("static const uint8_t band_of", band_of(), "of each frequency of a window")
    return [array("static const float hann", hann(WINDOW)), bands, *_turns(WINDOW)]


def _sound_tables(spec: InputSpec) -> list[str]:
    settings, bins = LogMel.of(dict(spec.parameters)), spec.shape[1]
    first, weights = sparse_triangles(settings, bins)
    counts = (weights > 0).sum(axis=0)
    said = "triangles: their first frequencies, how many they have, and weights of these"
    flat = np.concatenate([weights[:count, b] for b, count in enumerate(counts)])
    return [
        array("static const float window", window(settings)),
        array("static const uint16_t first_of", first, said),
        array("static const uint16_t count_of", counts),
        array("static const float weights", flat),
        *_turns(settings.fft_length),
    ]


def reservoir_settings(reservoir: Reservoir, axes: int) -> dict:
    """What reservoir.c needs in plan.h, by name."""
    read = len(matrices(reservoir.neurons, axes, reservoir.seed)[0])
    return {
        "AXES": axes, "NEURONS": reservoir.neurons, "READ": read, "WASHOUT": reservoir.washout,
        "KEPT": np.float32(1 - reservoir.leak), "LEAK": np.float32(reservoir.leak),
    }  # fmt: skip


def c_reservoir(reservoir: Reservoir, axes: int) -> str:
    """reservoir.c, with the tables of a network that `axes` drive."""
    places, recurrent, *driven = matrices(reservoir.neurons, axes, reservoir.seed)
    inputs, bias = (part.astype(np.float32) for part in driven)
    kind = "uint8_t" if reservoir.neurons <= 256 else "uint16_t"
    files = {"reservoir.c": (SOURCES / "reservoir.c").read_text()}
    said = "the neurons that each neuron reads, and by which weights"
    tables = [
        array(f"static const {kind} places", places, said),
        array("static const float recurrent", (recurrent * reservoir.scale).astype(np.float32)),
        array("static const float inputs", inputs),
        array("static const float bias", bias),
    ]
    _insert(files, "reservoir.c", tables)
    return files["reservoir.c"]


class Changes:
    """Changes of items as C has them all; `noise` are those of recordings, by number."""

    def __init__(self):
        self.noise: list[np.ndarray] = []

    def as_augmentation(self, change) -> Augmentation:
        if isinstance(change, Noisy):
            self.noise.append(change.noise.ravel())
            return Augmentation(down=len(self.noise) - 1)
        if isinstance(change, Change):
            return Augmentation(down=change.later, brightness=change.louder, contrast=change.floor)
        return change or Augmentation(contrast=0.0)  # of a clip: none

    def c_noise(self) -> Iterator[str]:
        """Lines of the table of all noise."""
        rows = (f"{{{', '.join(map(number, row))}}}" for row in self.noise or [np.zeros(1, np.float32)])
        return table("const float tt_noise[][TT_CHANNELS]", rows)
