"""What a device reads: images, recordings of motion or clips of sound, and the C of each kind."""

from pathlib import Path

import numpy as np

from tinytrain.codegen.text import array
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
    if spec.kind == SOUND and LogMel.of(dict(spec.parameters)).mag_exp not in (1, 2):
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
            "DECIBELS": int(s.power_to_db), "TOP": float(s.top_db), "MIN_POWER": float(s.min_power),
            "LOW": float(s.low), "CODES_PER_UNIT": 255 / (s.high - s.low),
        }  # fmt: skip
    return found


def files_of_input(spec: InputSpec) -> dict[str, str]:
    """The files for this kind of input, by name."""
    found = {name: (SOURCES / name).read_text() for name in FILES[spec.kind]}
    if spec.kind == MOTION:
        found["motion.c"] = _with("motion.c", _motion_tables())
        if reservoir := reservoir_of(spec):
            found["reservoir.c"] = c_reservoir(reservoir, dict(spec.parameters)["axes"])
    if spec.kind == SOUND:
        found["sound.c"] = _with("sound.c", _sound_tables(spec))
    return found


def _with(name: str, tables: list[str]) -> str:
    """A source with `tables` in place of the line TABLES."""
    return (SOURCES / name).read_text().replace("TABLES\n", "\n".join([*tables, ""]))


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
        "KEPT": float(1 - reservoir.leak), "LEAK": float(reservoir.leak),
    }  # fmt: skip


def c_reservoir(reservoir: Reservoir, axes: int) -> str:
    """reservoir.c, with the tables of a network that `axes` drive."""
    places, recurrent, inputs, bias = matrices(reservoir.neurons, axes, reservoir.seed)
    kind = "uint8_t" if reservoir.neurons <= 256 else "uint16_t"
    said = "the neurons that each neuron reads, and by which weights"
    tables = [
        array(f"static const {kind} places", places, said),
        array("static const float recurrent", recurrent * reservoir.scale),
        array("static const float inputs", inputs),
        array("static const float bias", bias),
    ]
    return _with("reservoir.c", tables)


def as_augmentation(change, noise: list[np.ndarray]) -> Augmentation:
    """A change of any item as C has it; that of a recording becomes a row of `noise`, and is its number."""
    if isinstance(change, Noisy):
        noise.append(change.noise.ravel())
        return Augmentation(down=len(noise) - 1)
    if isinstance(change, Change):
        return Augmentation(down=change.later, brightness=change.louder, contrast=change.floor)
    return change or Augmentation(contrast=0.0)  # of a clip: none
