"""Generated sounds: what sounds, how its pitch and its resonances move, and in which rhythm, drawn by seed.

A class has a source (a voice or an engine, a bell, a noise, a crackle, or two of them), a rhythm and a short
tune: for each of a few events a pitch, resonances and a loudness. Each clip has its own pitch, pace, length
and phases. Classes of one block of BLOCK share source and rhythm.
"""

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import Domain
from tinytrain.episode.wav import wav_of

RATE, WINDOW, HOP = 16_000, 512, 256  # samples of a second, of a spectrum, and between two of them
SOURCES = ("voice", "bell", "noise", "crackle")
RHYTHMS = ("once", "steady", "regular", "irregular")
BLOCK = 100
# So that blocks of neighbouring numbers, which are kept from training, differ in both.
BLOCKS = [(SOURCES[k % 4], RHYTHMS[(k + k // 4) % 4]) for k in range(16)]
FORMANTS = 3
# Short tunes of a voice, for first tries: no encoder is trained on their classes.
WORDS = {"aruna": 1207, "doki": 1210, "gobba": 1213, "melu": 1227, "sheeta": 1203, "wao": 1231}


def wav_bytes(samples: np.ndarray) -> bytes:
    """A WAV file of 16 bits of samples (n,), the largest of which becomes 0.9."""
    return wav_of(np.rint(samples * (0.9 * 32767 / max(float(np.abs(samples).max()), 1e-9))), RATE)


def sound(class_id: int, clip: int, seed: int = 0, block: tuple[str, str] | None = None) -> np.ndarray:
    """Samples (n,) float64 of a clip of 0.4 to 2 seconds, of the source and rhythm of another `block`."""
    source, rhythm = block or BLOCKS[class_id // BLOCK]
    c, v = rng_for(0, "sounds", "class", class_id), rng_for(seed, "sounds", class_id, clip)
    events = int(c.integers(1, 5))
    steps, lengths = c.normal(0, 0.5, events) * (c.random() < 0.7), np.exp(c.normal(0, 0.5, events))
    loud = np.exp(c.normal(0, 0.5, events))
    formants = np.exp(c.uniform(np.log(250), np.log(6500), (events, FORMANTS)))
    if c.random() < 0.5:  # all alike
        formants[:] = formants[0]
    widths, floor = np.exp(c.uniform(-2.6, -0.2, FORMANTS)), np.exp(c.uniform(-6, -1))
    second = SOURCES[c.integers(4)] if c.random() < 0.5 else source
    share = c.uniform(0.15, 0.6, events) if c.random() < 0.5 else np.full(events, c.uniform(0.1, 0.5))
    rate, attack, decay = np.exp(c.uniform(np.log([0.7, 0.002, 0.02]), np.log([14, 0.12, 0.8])))

    seconds = v.uniform(0.4, 1.1) if rhythm == "once" else v.uniform(0.9, 2)
    t = np.arange(int(RATE * seconds)) / RATE
    pace, pitch, size = np.exp(v.normal(0, [0.12, 0.16, 0.08]))
    starts = _starts(rhythm, seconds, rate * pace, lengths, v)
    number = np.searchsorted(starts, t, side="right") - 1
    since, which = t - starts[number], number % events
    # Pitch in octaves: that of the event, a glide in it, a vibrato, and what is never the same.
    glide, shape = c.normal(0, 0.6) * (c.random() < 0.6), c.uniform(2, 9)
    wobble, speed = c.uniform(0, 0.25), c.uniform(3, 30)
    octaves = steps[which] + glide * (1 - np.exp(-shape * since))
    octaves = octaves + wobble * np.sin(2 * np.pi * speed * pace * t + v.uniform(0, 6))
    wander = np.interp(t, np.linspace(0, seconds, 9), v.normal(0, 0.04, 9))
    base = np.exp(c.uniform(*np.log([30, 900] if "voice" in (source, second) else [150, 4000]))) * pitch
    phase = 2 * np.pi * np.cumsum(np.minimum(base * 2 ** (octaves + wander), 5000)) / RATE + v.uniform(0, 6)
    settings = [(c.uniform(0.3, 3.5), c.uniform(0.5, 4), np.exp(c.uniform(-7, -3))) for _ in range(2)]
    parts = [_source(name, phase, *drawn, v) for name, drawn in zip((source, second), settings, strict=True)]
    mixed = parts[0] * (1 - share[which]) + parts[1] * share[which]

    if rhythm == "steady":
        depth = c.uniform(0, 0.9)
        beat = 0.5 + 0.5 * np.sin(2 * np.pi * rate * pace * t + v.uniform(0, 6))
        envelope = 1 - depth * beat ** c.uniform(0.5, 4)
        slow = np.interp(t, np.linspace(0, seconds, 6), v.normal(0, 0.4, 6))
        envelope = envelope * np.exp(slow)
    else:
        own = loud[which] * np.exp(v.normal(0, 0.2, number.max() + 1))[number]
        kept = 0.2 * lengths[which] / pace if c.random() < 0.4 else 0  # a plateau before it decays
        envelope = own * (1 - np.exp(-since / attack)) * np.exp(-np.maximum(since - kept, 0) / decay)
    shaped = _resonant(mixed * envelope, which, formants * size, widths, floor, c.uniform(-0.2, 1.2))
    return shaped + shaped.std() * np.exp(v.uniform(-7, -2)) * v.standard_normal(len(shaped))


def _starts(rhythm: str, seconds: float, rate: float, lengths: np.ndarray, v) -> np.ndarray:
    """When events begin, in seconds, the first one at 0."""
    if rhythm == "once":  # a short tune, as a word is
        gaps = 0.22 * lengths * np.exp(v.normal(0, 0.15, len(lengths)))
        return np.concatenate([[0], np.cumsum(gaps)[:-1]])
    spread = {"steady": 0.02, "regular": 0.03, "irregular": 0.7}[rhythm]
    gaps = np.exp(v.normal(0, spread, int(seconds * rate * 3) + 2)) / rate
    return np.concatenate([[0], np.cumsum(gaps)])


def _source(name: str, phase: np.ndarray, sharp: float, ratio: float, dense: float, v) -> np.ndarray:
    """What sounds before it is shaped, of about the same loudness."""
    if name == "voice":  # pulses, the sharper the more overtones
        x = np.exp(np.exp(sharp) * (np.cos(phase) - 1))
        x = x - x.mean()
    elif name == "bell":
        x = np.sin(phase + sharp * np.exp(-ratio) * 4 * np.sin(ratio * phase))
    elif name == "noise":
        x = v.standard_normal(len(phase))
    else:
        x = v.standard_normal(len(phase)) * (v.random(len(phase)) < dense)
    return x / (x.std() + 1e-9)


def _resonant(x: np.ndarray, which: np.ndarray, formants, widths, floor: float, tilt: float) -> np.ndarray:
    """`x` through the resonances (events, FORMANTS) in hertz of its events, which pass into each other."""
    padded = np.pad(x, (WINDOW, WINDOW))
    window = np.sqrt(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    octave = np.log2(np.maximum(np.fft.rfftfreq(WINDOW, 1 / RATE), 60))
    away = (octave - np.log2(formants)[..., None]) / widths[:, None] / 2
    table = (floor + np.exp(-(away**2)).sum(axis=1)) * 2 ** (-tilt * (octave - 10))
    at = np.clip(np.arange(len(frames)) * HOP - WINDOW // 2, 0, len(x) - 1)
    gains = np.log(table)[which[at]]
    kernel = np.hanning(7) / np.hanning(7).sum()
    edges = np.pad(gains, ((3, 3), (0, 0)), mode="edge")
    smooth = np.exp(sum(weight * edges[k : k + len(gains)] for k, weight in enumerate(kernel)))
    shaped = np.fft.irfft(np.fft.rfft(frames * window) * smooth) * window
    out = np.zeros(len(padded) + WINDOW)
    for k in range(WINDOW // HOP):  # frames that do not overlap, all at once
        mine = shaped[k :: WINDOW // HOP].ravel()
        out[k * HOP : k * HOP + len(mine)] += mine
    return out[WINDOW : WINDOW + len(x)]


def word(name: str, number: int, seed: int = 0) -> bytes:
    """The WAV file of a clip of one of WORDS."""
    return wav_bytes(sound(WORDS[name], number, seed, ("voice", "once")))


sounds = Domain(
    "sounds", BLOCK * len(BLOCKS), lambda c: f"{'-'.join(BLOCKS[c // BLOCK])}-{c:04d}",
    lambda c, clip, seed, _: wav_bytes(sound(c, clip, seed)),
    usual=range(1000, 1200, 4), kind="sound",  # no encoder is trained on these
)  # fmt: skip
