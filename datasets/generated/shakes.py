"""Generated recordings of an accelerometer in a hand, as CSV files: six movements, no two alike.

Gravity points somewhere near the axis z. Files are of 2 to 4 seconds, whatever the movement.
"""

import numpy as np

from tinytrain.base.random_streams import rng_for

NAME = "shakes"
CLASSES = ("circle", "knock", "shake", "still", "tilt", "walk")
RATE = 50  # rows a second


def recording_of(name: str, number: int, seed: int = 0) -> bytes:
    """The CSV file of one recording: a header, then times in seconds and accelerations in g."""
    rng = rng_for(seed, NAME, name, number)
    t = np.arange(int(RATE * rng.uniform(2, 4))) / RATE
    size, pace = np.exp(rng.normal(0, 0.2, 2))
    phase = 2 * np.pi * (pace * t + rng.uniform())
    lean = np.tile(rng.normal(0, 0.15, 2), (len(t), 1))
    if name == "tilt":
        lean += 0.6 * size * np.sin(phase[:, None] * 0.4 + [0, 1.5])
    values = np.column_stack([np.sin(lean), np.ones(len(t))])
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    if name == "shake":
        values[:, 0] += 1.2 * size * np.sin(4 * phase)
    if name == "circle":
        values[:, :2] += 0.4 * size * np.stack([np.cos(phase), np.sin(phase)], axis=1)
    if name == "walk":
        values[:, 2] += 0.25 * size * (np.sin(1.8 * phase) + 0.5 * np.sin(3.6 * phase))
        values[:, 1] += 0.1 * size * np.sin(0.9 * phase)
    if name == "knock":
        since = (t + rng.uniform(0, 0.5)) % (0.6 / pace)
        values[:, 2] += 1.5 * size * np.exp(-30 * since) * np.cos(90 * since)
    values += rng.normal(0, 0.02, values.shape)
    rows = np.column_stack([t, values])
    lines = (f"{time:.2f},{x:.4f},{y:.4f},{z:.4f}\n" for time, x, y, z in rows)
    return ("time_s,x_g,y_g,z_g\n" + "".join(lines)).encode()
