"""A generated domain: the counter of a water meter as a small camera sees it. Nothing to download.

A class is a meter and the figure of its last wheel. The wheel before it shows any figure, which says nothing
about the class. An image has its own turn of the wheels, pose, reflections, dirt, light, blur, noise and
compression. A network must learn from few images which of two alike things matters: training shows here.
"""

from dataclasses import dataclass
from functools import cache
from string import ascii_uppercase

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.camera import (
    Domain,
    as_bytes,
    corners,
    noise,
    patchwork,
    pose,
    rotation,
    through_camera,
)
from tinytrain.datasets.generated.sign_shapes import box, regular

FIGURES = 10
METERS = 20
N_CLASSES = FIGURES * METERS
OVERSAMPLING = 2
CENTRE = 0.25  # of the image, from the wall between both wheels: the camera looks at the last one
NEAR = 0.2  # how far the last wheel is turned from its figure at most; at 0.5 nobody could say which it is
STEP = 0.8  # from a figure to the next one, as an angle of the wheel
HALF = 0.62  # of the height of the window
WIDE = 0.46  # half the width of a wheel
STRIPS = 8  # that a drum is drawn with
PLATES = np.array([(222, 222, 216), (228, 220, 194), (186, 198, 208), (60, 62, 66), (52, 84, 140)])
WHEELS = np.array([(28, 28, 30), (226, 226, 220)])
LAST = np.array([(172, 30, 30), (182, 44, 28), (150, 24, 44)])
# Corners of the line of each figure, in a box of -1..1.
LINES = (
    [(0, -1), (0.8, -1), (0.8, 1), (-0.8, 1), (-0.8, -1), (0, -1)],
    [(-0.5, -0.55), (0.1, -1), (0.1, 1)],
    [(-0.7, -0.5), (-0.6, -1), (0.8, -1), (0.8, -0.1), (-0.8, 1), (0.8, 1)],
    [(-0.7, -0.6), (-0.6, -1), (0.8, -1), (0.7, -0.1), (-0.2, 0), (0.8, 0.1), (0.8, 1), (-0.7, 1),
     (-0.8, 0.6)],
    [(0.4, 1), (0.4, -1), (-0.8, 0.45), (0.8, 0.45)],
    [(0.7, -1), (-0.6, -1), (-0.7, -0.1), (0.8, -0.5), (0.8, 1), (-0.6, 1), (-0.8, 0.6)],
    [(0.6, -1), (-0.8, -0.7), (-0.8, 1), (0.8, 1), (0.8, -0.15), (-0.7, -0.1), (-0.7, 0.2)],
    [(-0.8, -1), (0.8, -1), (0, 0), (-0.2, 1)],
    [(0, 0), (-0.8, -0.3), (-0.6, -1), (0.6, -1), (0.8, -0.3), (-0.8, 0.3), (-0.8, 1), (0.8, 1), (0.8, 0.3),
     (0, 0)],
    [(-0.6, 1), (0.8, 0.7), (0.8, -1), (-0.8, -1), (-0.8, 0.15), (0.7, 0.1), (0.7, -0.2)],
)  # fmt: skip


@dataclass(frozen=True)
class Meter:
    """What all images of a meter share: its colours as RGB, the first wheel's first, and its script."""

    plate: np.ndarray
    frame: np.ndarray
    wheels: np.ndarray  # (2, 3)
    inks: np.ndarray  # of their figures, (2, 3)
    narrow: float
    slant: float
    thick: float


def class_name(class_id: int) -> str:
    number, figure = divmod(class_id, FIGURES)
    return f"{ascii_uppercase[number]} reads {figure}"


@cache
def meter(number: int) -> Meter:
    rng = rng_for(0, "meters", "class", number)
    dark = int(number % 3 < 2)
    last = LAST[rng.integers(len(LAST))], WHEELS[1]  # a wheel and its figures, or the other way round
    if not dark and rng.random() < 0.5:
        last = last[::-1]
    return Meter(
        plate=PLATES[rng.integers(len(PLATES))] + rng.normal(0, 6, 3),
        frame=np.full(3, rng.choice((45.0, 120.0, 180.0))) + rng.normal(0, 8, 3),
        wheels=np.array([WHEELS[1 - dark], last[0]]),
        inks=np.array([WHEELS[dark], last[1]]),
        narrow=rng.uniform(0.55, 0.75),
        slant=rng.choice((0.0, 0.0, 0.15)),
        thick=rng.uniform(0.085, 0.12),
    )


@cache
def line_of(figure: int) -> np.ndarray:
    """Points (n, 2) of the rounded line of a figure: corners are cut twice."""
    line = np.array(LINES[figure], dtype=float)
    for _ in range(2):
        cut = np.stack([0.75 * line[:-1] + 0.25 * line[1:], 0.25 * line[:-1] + 0.75 * line[1:]], axis=1)
        line = np.concatenate([line[:1], cut.reshape(-1, 2), line[-1:]])
    return line


def generate(class_id: int, image_id: int, seed: int, size: int) -> np.ndarray:
    """Image `image_id` of class `class_id` as uint8 (size, size, 3)."""
    rng = rng_for(seed, "meters", class_id, image_id)
    number, figure = divmod(class_id, FIGURES)
    side = size * OVERSAMPLING
    kind, seen = meter(number), pose(rng, side, degrees=(2, 5, 5), scale=(0.52, 0.58), shift=0.025)

    def project(points: np.ndarray) -> np.ndarray:
        return seen(points - (CENTRE, 0))

    scene = patchwork(rng, kind.plate * np.exp(rng.normal(0, 0.08)), 3, (5, 2), side)
    _plate(scene, kind, project)
    before = rng.integers(FIGURES) + rng.normal(0, 0.03)
    for place, shown in enumerate((before, figure + rng.uniform(-NEAR, NEAR))):
        _wheel(scene, kind, place, shown, project)
    scene = scene.reduce(OVERSAMPLING)
    _glass(scene, project, rng)
    return through_camera(scene, rng)


# No flips: few figures would stay figures, and the last wheel would become the first.
meters = Domain("meters", N_CLASSES, class_name, generate, may_flip=False, usual=range(FIGURES))


def _filler(scene: Image.Image, project):
    """A function that fills polygons of as many corners, one after the other, each with its colour."""
    draw = ImageDraw.Draw(scene)

    def fill(polygons: list[np.ndarray], colours) -> None:
        for polygon, colour in zip(project(np.array(polygons)), colours, strict=True):
            draw.polygon(corners(polygon), fill=as_bytes(colour))

    return fill


def _plate(scene: Image.Image, kind: Meter, project) -> None:
    """The window's frame on the plate, lines of small type, and a screw."""
    fill, ink = _filler(scene, project), kind.plate * 0.4 if kind.plate.mean() > 110 else kind.plate + 110
    lines = (-1, -1.05, 0.9), (0.2, -1.05, 0.5), (-1, 1, 0.4), (-0.4, 1, 0.25), (0.5, 1, 0.5)
    fill([box(x, y, x + wide, y + 0.07) for x, y, wide in lines], [ink] * len(lines))
    fill([regular(20, 0.09, centre=(1.2, -0.95))], [kind.frame * 1.2])
    slot, frame = box(1.13, -0.97, 1.27, -0.93), box(-1.12, -HALF - 0.16, 1.12, HALF + 0.16)
    inside = box(-1.02, -HALF - 0.05, 1.02, HALF + 0.05)
    fill([slot, frame, inside], [kind.frame * 0.5, kind.frame, kind.frame * 0.5])


def _wheel(scene: Image.Image, kind: Meter, place: int, shown: float, project) -> None:
    """What the window leaves of a wheel: a drum, darker where it turns away, with its figures."""
    wheel, window, x = scene.copy(), Image.new("L", scene.size), place - 0.5
    fill, draw = _filler(wheel, project), ImageDraw.Draw(wheel)
    tops = np.linspace(-HALF, HALF, STRIPS, endpoint=False)
    bright = np.sqrt(1 - 0.9 * ((tops[:, None] + HALF / STRIPS) / HALF) ** 2)
    fill([box(x - WIDE, y, x + WIDE, HALF) for y in tops], kind.wheels[place] * bright)
    thick = max(1, round(kind.thick * np.ptp(project(box(-0.5, 0, 0.5, 0))[:, 0])))
    for figure in range(round(shown) - 1, round(shown) + 2):
        across, down = line_of(figure % FIGURES).T
        across = x + kind.narrow * 0.4 * (across - kind.slant * down)
        angle = STEP * (figure - shown + 0.35 * down)
        line = corners(project(np.stack([across, np.sin(angle)], axis=1)))
        draw.line(line, fill=as_bytes(kind.inks[place]), width=thick)
    opening = project(box(x - WIDE, -HALF, x + WIDE, HALF))
    ImageDraw.Draw(window).polygon(corners(opening), fill=255)
    seen = window.getbbox()
    scene.paste(wheel.crop(seen), seen, window.crop(seen))


def _glass(scene: Image.Image, project, rng) -> None:
    """What shines in the glass or lies on it: the lamp, a window, droplets, dirt."""
    size = scene.width
    shine = Image.new("L", (size, size))
    draw = ImageDraw.Draw(shine)
    for _ in range(rng.integers(0, 3)):
        at, wide = rng.uniform(-0.9, 0.9, 2), rng.uniform(0.04, 0.2, 2)
        spot = regular(24) * wide if rng.random() < 0.6 else box(*-wide, *wide)
        turned = spot @ rotation(rng.uniform(0, np.pi)) + at
        draw.polygon(corners(project(turned) / OVERSAMPLING), fill=int(rng.uniform(60, 235)))
    shine = shine.filter(ImageFilter.GaussianBlur(rng.uniform(0.005, 0.03) * size))
    scene.paste((250, 250, 244), mask=shine)
    if rng.random() < 0.5:
        dirt = np.clip(rng.uniform(40, 110) * (noise(rng, int(rng.integers(4, 20)), size) - 0.3), 0, 150)
        colour = as_bytes(rng.uniform(60, 150) + np.array((12, 4, -12)))
        scene.paste(colour, mask=Image.fromarray(dirt.astype(np.uint8)))
