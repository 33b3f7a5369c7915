"""Invented objects that can be drawn: animals, figures, insects, vehicles, buildings, vessels, plants, tools.

A class has proportions of its own, drawn at random from its number. The last kind are blobs and tubes that
grew together freely.
"""

from functools import cache

import numpy as np

from tinytrain.base.random_streams import rng_for
from tinytrain.datasets.generated.sketch_parts import (
    POINTS,
    WAY,
    Part,
    Plan,
    Sketch,
    beside,
    blob,
    polygon,
    smooth,
    tube,
    turned,
)


def _animal(p: Plan) -> None:
    long, high = p.between(0.45, 0.9), p.between(0.2, 0.42)
    legs, thick, neck = p.between(0.25, 0.75), p.between(0.04, 0.11), p.between(0.05, 0.75)
    nose, bent = np.array((long * 0.85, -high * 0.4)), p.between(-0.12, 0.12)
    tail = p.limb((-long * 0.9, -high * 0.3))
    tip = (-long - p.between(0.1, 0.5), p.between(-0.7, 0.5))
    bow = (-long - p.between(0.1, 0.4), p.between(-0.5, 0.2))
    p.add(tube([(-long * 0.9, -high * 0.3), bow, tip], p.between(0.03, 0.1), p.between(0.01, 0.12)), tail)
    for x in (0.75, -0.75, 0.6, -0.6):  # the far legs first
        hip = np.array((x * long, high * 0.4))
        foot = beside(hip, 0, legs + high * 0.5)
        limb = p.limb(hip)
        p.add(tube([hip, beside(hip, bent, legs * 0.5), foot], thick * 1.6, thick), limb)
    p.add(blob((0, 0), long, high, 0, p.between(0.75, 1.05), p.between(-0.3, 0.3)))
    head = p.limb(nose)
    top = beside(nose, p.between(0.1, 0.45) * max(neck, 0.3), -neck)
    p.add(tube([beside(nose, -0.05, 0.05), (nose + top) / 2, top], high * 0.7, p.between(0.1, 0.2)), head)
    _face(p, top, head)


def _face(p: Plan, top, head: int) -> None:
    wide, high = p.between(0.16, 0.34), p.between(0.13, 0.26)
    lean, at = p.between(-0.3, 0.7), beside(top, 0.08, -0.05)
    ear, up = p.between(0.04, 0.14), p.between(0.1, 0.42)
    for x in (-0.5, 0.0):
        root = beside(at, x * wide, -high * 0.7)
        tip = beside(root, p.between(-0.16, 0.1), -up)
        if ear > 0.09:
            p.add(blob((root + tip) / 2, ear * 1.3, up * 0.6), head)
        else:
            p.add(polygon([beside(root, -ear, 0), tip, beside(root, ear, 0)]), head)
    p.add(blob(at, wide, high, lean, p.between(0.8, 1.2), p.between(-0.5, 0.2)), head)
    if p.rng.random() < 0.25:  # a trunk or a beak
        end = beside(at, wide + p.between(0.1, 0.45), p.between(-0.1, 0.7))
        path = [beside(at, wide * 0.8, 0), beside(at, wide * 1.5, 0.1), end]
        p.add(tube(path, p.between(0.05, 0.12), 0.03), head)
    p.add(blob(beside(at, wide * 0.25, -high * 0.2), 0.03, 0.035), head, detail=True)


def _figure(p: Plan) -> None:
    shoulder, hip, tall = p.between(0.18, 0.42), p.between(0.12, 0.38), p.between(0.5, 0.85)
    arm, leg, thick = p.between(0.4, 0.8), p.between(0.4, 0.85), p.between(0.05, 0.11)
    for side in (-1, 1):
        joint = np.array((side * hip * 0.55, tall / 2))
        p.add(tube([joint, beside(joint, side * 0.05, leg)], thick * 1.3, thick), p.limb(joint))
        joint, out = np.array((side * shoulder, -tall * 0.42)), p.between(0.1, 0.6)
        end = beside(joint, side * out, p.between(-0.5, 0.6) * arm)
        p.add(tube([joint, beside(joint, side * out, 0.1), end], thick, thick * 0.8), p.limb(joint))
    waist = p.between(0.5, 1.1) * min(shoulder, hip)
    right = np.array([(shoulder, -tall / 2), (waist, 0.05), (hip, tall / 2)])
    p.add(polygon([*right, *(right[::-1] * (-1, 1))]))
    size = p.between(0.14, 0.28)
    head, at = p.limb((0, -tall / 2)), (0, -tall / 2 - size * 1.05)
    p.add(blob(at, size * p.between(0.75, 1.1), size), head)
    if p.rng.random() < 0.6:  # a hat
        brim, top, high = size * p.between(1.1, 1.8), size * p.between(0.2, 1.0), size * p.between(0.4, 1.4)
        base = at[1] - size * 0.6
        p.add(polygon([(-brim, base), (-top, base - high), (top, base - high), (brim, base)]), head)
    for x in (-0.35, 0.35):
        p.add(blob((x * size, at[1] - 0.02), 0.02, 0.03), head, detail=True)


def _insect(p: Plan) -> None:
    wings, span = p.one_of(0, 1, 2, 2), p.between(0.45, 0.95)
    fat, long, legs = p.between(0.1, 0.3), p.between(0.5, 0.8), p.one_of(0, 3, 3, 4)
    for side in (-1, 1):
        for k in range(legs):
            joint = np.array((side * fat * 0.6, -0.25 + 0.22 * k))
            knee = beside(joint, side * 0.25, -0.12 + 0.1 * k)
            foot = beside(joint, side * 0.45, -0.1 + 0.25 * k)
            p.add(smooth(np.stack([joint, knee, foot])), p.limb(joint), closed=False)
        feeler = p.limb((side * 0.05, -long))
        path = np.array([(0.05, -long), (0.1, -long - 0.2), (span * 0.4, -long - 0.25)])
        p.add(smooth(path * (side, 1)), feeler, closed=False)
    shape, power, egg = p.between(0.15, 0.4), p.between(0.7, 1.3), p.between(-0.7, 0.7)
    lean, spots = p.between(-0.5, 0.5), p.one_of(0, 0, 1, 2)
    for k in range(wings):
        for side in (-1, 1):
            turn = side * (lean + 0.7 * k)
            root = np.array((side * fat * 0.5, -0.2 + 0.25 * k))
            centre = root + np.array((side * span / 2, 0)) @ turned(turn)
            limb = p.limb(root)
            p.add(blob(centre, side * span / 2, shape, turn, power, egg), limb)
            for j in range(spots):
                p.add(blob(beside(centre, side * 0.14 * j, 0), 0.07, 0.07), limb, detail=True)
    rings = p.one_of(1, 2, 3)
    for k in range(rings):
        at = (0, 0.6 - (k + 0.5) * 1.1 / rings)
        p.add(blob(at, fat * (1 - 0.2 * k), 0.62 / rings, 0, p.between(0.7, 1.1)))
    p.add(blob((0, -long + 0.08), fat * p.between(0.5, 0.9), 0.13))


def _vehicle(p: Plan) -> None:
    long, high, wheel = p.between(0.75, 1.0), p.between(0.15, 0.4), p.between(0.12, 0.3)
    front, back = p.between(-0.2, 0.5), p.between(-0.3, 0.5)
    cabin, roof = sorted((p.between(-0.9, 0.0), p.between(0.2, 0.8))), p.between(0.2, 0.6)
    windows = p.one_of(1, 2, 3, 4)
    if p.rng.random() < 0.8:
        low, top = -high, -high - roof
        left, right = cabin[0] * long, cabin[1] * long
        slant = p.between(0.0, 0.25)
        p.add(polygon([(left, low), (left + slant, top), (right - slant, top), (right, low)]))
        wide = (right - left - 2 * slant) / windows
        for k in range(windows):
            x = left + slant + k * wide
            p.add(polygon([(x + 0.03, low - 0.04), (x + 0.03, top + 0.06), (x + wide - 0.03, top + 0.06),
                           (x + wide - 0.03, low - 0.04)]), detail=True)  # fmt: skip
    else:  # a mast with a sail
        top, end = (0, -high - 1.2 * roof - 0.5), (p.one_of(-1, 1) * long * 0.7, -high - 0.1)
        p.add(polygon([(0, -high), top, end]))
    p.add(polygon([(-long, -high * back), (-long * 0.85, -high), (long * 0.85, -high), (long, -high * front),
                   (long * p.between(0.6, 1.0), high * 0.7),
                   (-long * p.between(0.6, 1.0), high * 0.7)]))  # fmt: skip
    count = p.one_of(0, 2, 2, 2, 3, 4)
    for k in range(count):
        x = -0.65 * long + 1.3 * long * k / max(count - 1, 1)
        p.add(blob((x, high * 0.7), wheel, wheel))
        p.add(blob((x, high * 0.7), wheel * 0.4, wheel * 0.4), detail=True)


def _building(p: Plan) -> None:
    for k in range(p.one_of(1, 1, 2, 3)):
        wide, high = p.between(0.25, 0.75), p.between(0.4, 1.3)
        x = 0 if k == 0 else p.one_of(-1, 1) * p.between(0.35, 0.7)
        left, right, top = x - wide, x + wide, 0.8 - high
        p.add(polygon([(left, 0.8), (left, top), (right, top), (right, 0.8)]))
        kind = p.one_of("gable", "gable", "dome", "flat", "tower")
        up, over = p.between(0.2, 0.7), p.between(0, 0.15)
        if kind == "gable":
            peak = x + p.one_of(0, 0, 0.5, -0.5) * wide
            p.add(polygon([(left - over, top), (peak, top - up), (right + over, top)]))
        elif kind == "dome":
            arc = np.stack([x - wide * np.cos(np.pi * WAY), top - up * np.sin(np.pi * WAY)], axis=1)
            p.add(polygon(arc))
        elif kind == "tower":
            p.add(polygon([(x - wide * 0.3, top), (x - wide * 0.3, top - up), (x, top - 1.6 * up),
                           (x + wide * 0.3, top - up), (x + wide * 0.3, top)]))  # fmt: skip
        across, down, round_ = p.one_of(1, 2, 3), p.one_of(1, 2, 3), p.one_of(1.0, 0.25)
        for i in range(across):
            for j in range(down):
                at = (left + (i + 0.5) * 2 * wide / across, top + (j + 0.5) * high * 0.7 / down)
                p.add(blob(at, wide / across * 0.45, high * 0.7 / down * 0.32, 0, round_), detail=True)
        p.add(polygon([(x - 0.08, 0.8), (x - 0.08, 0.58), (x + 0.08, 0.58), (x + 0.08, 0.8)]), detail=True)


def _vessel(p: Plan) -> None:
    knots = np.array([p.between(0.12, 0.65) for _ in range(5)])
    y = np.linspace(-0.9, 0.9, POINTS)
    width = np.interp(y, np.linspace(-0.9, 0.9, 5), knots)
    kernel = np.ones(7) / 7
    width = np.convolve(np.pad(width, 3, mode="edge"), kernel, mode="valid")
    for side in p.one_of((), (1,), (-1, 1)):
        reach, top, low = p.between(0.2, 0.5), p.between(-0.7, -0.2), p.between(0.1, 0.6)
        at = [np.interp(v, y, width) * 0.9 for v in (top, low)]
        path = [(side * at[0], top), (side * (max(at) + 2 * reach), (top + low) / 2), (side * at[1], low)]
        p.add(tube(path, 0.06, 0.06), p.limb(path[0]))
    p.add(polygon(np.concatenate([np.stack([width, y], 1), np.stack([-width, y], 1)[::-1]])))
    if p.rng.random() < 0.5:
        lid = width[0] * p.between(0.9, 1.3)
        p.add(blob((0, -0.95), lid, p.between(0.06, 0.25)))
        p.add(blob((0, -1.15), 0.07, 0.07))
    for _ in range(p.one_of(0, 1, 2, 3)):
        k = p.rng.integers(6, POINTS - 6)
        p.add([(-width[k], y[k]), (0, y[k] + 0.06), (width[k], y[k])], closed=False, detail=True)
    if p.rng.random() < 0.4:
        at, wide, high = (0, p.between(-0.3, 0.4)), p.between(0.1, 0.3), p.between(0.08, 0.3)
        p.add(blob(at, wide, high, 0, p.between(0.4, 1.8)), detail=True)


def _plant(p: Plan) -> None:
    lean, pairs = p.between(-0.3, 0.3), p.one_of(0, 1, 2, 3, 4)
    p.add(tube([(0, 0.9), (lean, 0.2), (lean * 0.5, -0.5)], p.between(0.02, 0.12), 0.03))
    long, wide = p.between(0.2, 0.6), p.between(0.06, 0.2)
    up, power = p.between(-0.9, 0.5), p.between(0.8, 1.9)
    for k in range(pairs):
        for side in (-1, 1):
            root = np.array((lean * 0.7, 0.7 - 0.32 * k))
            centre = beside(root, side * long * np.cos(up), long * np.sin(up))
            p.add(blob(centre, long, wide, -side * up, power), p.limb(root))
    head, at = p.limb((lean * 0.5, -0.4)), np.array((lean * 0.5, -0.55))
    petals, size, thin = p.one_of(0, 1, 4, 5, 6, 8, 12), p.between(0.2, 0.45), p.between(0.06, 0.2)
    for k in range(petals):
        turn = 2 * np.pi * k / petals
        centre = at + np.array((size, 0)) @ turned(turn)
        p.add(blob(centre, size * 0.8, thin, turn, p.between(0.8, 1.0)), head)
    core = p.between(0.08, 0.2) if petals else p.between(0.3, 0.6)
    p.add(blob(at, core, core * p.between(0.7, 1.2), 0, p.one_of(1.0, 0.8, 1.3)), head)


def _tool(p: Plan) -> None:
    thick, bow = p.between(0.03, 0.13), p.between(-0.25, 0.25)
    p.add(tube([(0, 0.95), (bow, 0.3), (0, -0.4)], thick, thick * p.between(0.5, 1.4), p.between(0.7, 1.5)))
    corner = p.one_of(4, 5, 6, 7)
    turn = np.sort(p.rng.uniform(0, 2 * np.pi, corner))
    far = p.rng.uniform(0.2, 0.6, corner)[:, None]
    head = np.stack([np.cos(turn), np.sin(turn)], 1) * far
    for side in p.one_of((1,), (1, -1), (1, -1)):
        p.add(polygon(head * (side, 1) + (side * p.between(0.0, 0.2), -0.55)))
    if p.rng.random() < 0.4:
        p.add(blob((0, -0.55), p.between(0.05, 0.2), p.between(0.05, 0.2)), detail=True)
    if p.rng.random() < 0.4:
        p.add(blob((0, 0.95), p.between(0.1, 0.25), p.between(0.08, 0.2), 0, p.between(0.4, 1.2)))


def _free(p: Plan) -> None:
    """Blobs and tubes, each grown from one that is there, at times with its mirror image."""
    places = [np.zeros(2)]
    for k in range(p.one_of(3, 4, 5, 6)):
        root = places[p.rng.integers(len(places))]
        angle, far = p.between(0, 2 * np.pi), 0 if k == 0 else p.between(0.25, 0.6)
        at = root + far * np.array((np.cos(angle), np.sin(angle)))
        limb = p.limb(root) if k else 0
        size, flat, power = p.between(0.15, 0.45), p.between(0.3, 1.0), p.one_of(0.3, 0.9, 1.0, 1.8)
        for side in (1, -1) if k and p.rng.random() < 0.5 else (1,):
            if k and p.rng.random() < 0.4:
                p.add(tube([root * (side, 1), at * (side, 1)], size * 0.3, size * flat * 0.4), limb)
            else:
                p.add(blob(at * (side, 1), size, size * flat, side * angle, power), limb)
        places.append(at)


KINDS = {"animal": _animal, "figure": _figure, "insect": _insect, "vehicle": _vehicle, "building": _building,
         "vessel": _vessel, "plant": _plant, "tool": _tool, "free": _free}  # fmt: skip


@cache
def sketch(class_id: int) -> Sketch:
    """The object of a class, centred, with a longer side of 2. The kinds take turns."""
    kind = list(KINDS)[class_id % len(KINDS)]
    plan = Plan(rng_for(0, "sketches", "class", class_id))
    KINDS[kind](plan)
    together = np.concatenate([part.points for part in plan.parts])
    low, high = together.min(axis=0), together.max(axis=0)
    middle, scale = (low + high) / 2, 2 / (high - low).max()
    parts = [Part((part.points - middle) * scale, part.limb, part.closed, part.detail) for part in plan.parts]
    return Sketch(kind, tuple(parts), (np.array(plan.pivots) - middle) * scale)
