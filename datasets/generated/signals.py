"""Generated domains of signals: sounds as spectra, traces on a screen, motion beside itself. For development.

A class is a way to sound, to swing or to move. An image of it has its own pitch, pace, loudness and noise.
"""

import numpy as np
from PIL import Image, ImageDraw

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import Domain, as_bytes, corners, noise, pose, through_camera

N_CLASSES = 48
RATE, WINDOW = 8192, 256  # samples of a second of sound, and of one spectrum
KINDS = ("rise", "fall", "warble", "throb", "stack", "clicks", "hiss", "steps")
HARMONICS = 4


def _parameters(domain: str, class_id: int, count: int) -> np.ndarray:
    """What makes a class, (count,) in 0..1."""
    return rng_for(0, domain, "class", class_id).random(count)


def _sound_name(class_id: int) -> str:
    return f"{KINDS[class_id % len(KINDS)]} {class_id:02d}"


def _wave(class_id: int, rng) -> np.ndarray:
    """A second of a sound, (RATE,) about -1..1, that begins and ends within it."""
    kind, (low, pace, depth) = KINDS[class_id % len(KINDS)], _parameters("signal-sounds", class_id, 3)
    t = np.arange(RATE) / RATE
    base = 250 * 4**low * np.exp(rng.normal(0, 0.2))
    pace = 2 * 5**pace * np.exp(rng.normal(0, 0.2))
    turn = rng.uniform(0, 2 * np.pi)
    beat = np.sin(2 * np.pi * pace * t + turn)
    pitch = {
        "rise": (1 + 2 * depth) ** (2 * ((pace / 3 * t + turn / 6) % 1)),
        "fall": (1 + 2 * depth) ** (-2 * ((pace / 3 * t + turn / 6) % 1)) * 2,
        "warble": 1 + (0.1 + 0.4 * depth) * beat,
        "steps": 1 + np.floor(pace * t + turn) * (3 + round(2 * depth)) % 5 / 3,
    }.get(kind, np.ones(RATE))
    phase = 2 * np.pi * np.cumsum(base * pitch) / RATE
    partials = np.arange(1, 3 + round(4 * depth) * (1 + (kind == "stack")))
    odd = class_id // len(KINDS) % 2 and kind != "rise"
    wave = sum(np.sin(k * (1 + odd) * phase) / k for k in partials)
    if kind == "hiss":
        spectrum = np.fft.rfft(rng.standard_normal(RATE))
        away = np.log2(np.maximum(np.fft.rfftfreq(RATE, 1 / RATE), 1) / base / 1.5)
        wave = 20 * np.fft.irfft(spectrum * np.exp(-((away / (0.15 + 0.6 * depth)) ** 2)))
    if kind in ("throb", "hiss"):
        wave = wave * np.clip(0.5 + (0.5 + 2 * depth) * beat, 0, 1)
    if kind == "clicks":
        wave = wave * np.exp(-((pace * t + turn) % 1) * (4 + 16 * depth))
    return wave * ((t > rng.uniform(0, 0.35)) & (t < rng.uniform(0.65, 1)))


def _sound(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """The spectrum of a sound, another one and noise: time to the right, frequency upwards."""
    rng = rng_for(seed, "signal-sounds", class_id, image_id)
    wave = _wave(class_id, rng) + rng.uniform(0.1, 0.7) * _wave(int(rng.integers(N_CLASSES)), rng)
    wave = wave + rng.standard_normal(RATE) * np.exp(rng.uniform(-2.5, 0.3))
    frames = np.lib.stride_tricks.sliding_window_view(wave, WINDOW)[:: WINDOW // 4]
    power = np.log(np.abs(np.fft.rfft(frames * np.hanning(WINDOW))[:, :96].T) + 0.3)[::-1]
    shown = np.clip((power - power.min()) / np.ptp(power), 0, 1) ** rng.uniform(0.8, 1.6)
    image = Image.fromarray((shown * 255).astype(np.uint8)).resize((size, size), Image.Resampling.BILINEAR)
    return np.repeat(np.asarray(image)[..., None], 3, axis=2)


def _swing(domain: str, class_id: int, t: np.ndarray, axis: int, rng) -> np.ndarray:
    """A periodic signal of a few harmonics that are nearly those of the class, about -1..1."""
    numbers = _parameters(domain, class_id, 6 * HARMONICS).reshape(3, 2, HARMONICS)[axis]
    size = numbers[0] * np.exp(rng.normal(0, 0.1, HARMONICS)) / np.arange(1, HARMONICS + 1) ** 0.5
    phase = 2 * np.pi * numbers[1] + rng.normal(0, 0.1, HARMONICS)
    wave = (size[:, None] * np.sin(np.arange(1, HARMONICS + 1)[:, None] * t + phase[:, None])).sum(axis=0)
    return wave / np.abs(wave).max()


def _trace(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """A line on a screen or on paper, as uint8 (size, size, 3)."""
    rng, side = rng_for(seed, "signal-traces", class_id, image_id), 2 * size
    t = np.linspace(0, 2 * np.pi * rng.uniform(1.3, 2), 200) + rng.normal(0, 0.3)
    wave = _swing("signal-traces", class_id, t, 0, rng) * rng.uniform(0.45, 0.8)
    wave = wave + rng.normal(0, rng.uniform(0, 0.04), 200) + rng.uniform(-0.15, 0.15)
    project = pose(rng, side, degrees=(3, 5, 5), scale=(0.4, 0.5), shift=0.04)
    dark, light = rng.uniform(5, 60, 3), rng.uniform(150, 255, 3)
    screen, ink = (dark, light) if rng.random() < 0.5 else (light, dark)
    canvas = Image.new("RGB", (side, side), as_bytes(screen))
    draw = ImageDraw.Draw(canvas)
    for at in np.linspace(-1, 1, int(rng.integers(5, 12))):
        for line in (((-1, at), (1, at)), ((at, -1), (at, 1))):
            draw.line(
                corners(project(np.array(line))), as_bytes(screen + (ink - screen) * 0.25), max(1, side // 96)
            )
    path = project(np.stack([np.linspace(-1, 1, 200), -wave], axis=1))
    draw.line(corners(path), as_bytes(ink), max(1, round(side * rng.uniform(0.01, 0.025))), joint="curve")
    return through_camera(canvas.reduce(2), rng)


def _motion(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """How far each moment is from each other one, an axis of the sensor in each channel: (size, size, 3)."""
    rng, count = rng_for(seed, "signal-motion", class_id, image_id), 96
    pace = np.exp(rng.normal(0, 0.25) + 0.25 * noise(rng, 6, count)[0])
    t = np.cumsum(pace) * (2 * np.pi * 2 / count) + rng.uniform(0, 2 * np.pi)
    channels = []
    for axis in range(3):
        wave = _swing("signal-motion", class_id, t, axis, rng) + rng.normal(0, rng.uniform(0.02, 0.15), count)
        channels.append(np.abs(wave[:, None] - wave) * rng.uniform(100, 160))
    image = Image.fromarray(np.clip(np.stack(channels, axis=2), 0, 255).astype(np.uint8))
    return np.array(image.resize((size, size), Image.Resampling.BILINEAR))


SIGNALS = {
    domain.name: domain
    for domain in (
        Domain("signal-sounds", N_CLASSES, _sound_name, _sound, may_flip=False),
        Domain("signal-traces", N_CLASSES, "trace {:02d}".format, _trace, may_flip=False),
        Domain("signal-motion", N_CLASSES, "motion {:02d}".format, _motion, may_flip=False),
    )
}
