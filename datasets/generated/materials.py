"""What materials look like from straight above: families of patterns with a few parameters each.

A family is a function (u, v, p, field) -> (tone, height), all float32 (side, side): `u` and `v` are
coordinates in cells of the pattern, `p` (3,) in 0..1 makes variants, `field` holds the random values
of one piece of material. `tone` in 0..1 chooses a colour of the palette, `height` in about 0..1 is
what light from the side shows.
"""

import numpy as np

from tinytrain.datasets.generated.noise_field import part, whole


def _ridge(u):
    """1 in the middle of each cell, 0 at its borders."""
    return 1 - np.abs(2 * part(u) - 1)


def _round(ridge):
    return np.sqrt(np.clip(ridge * (2 - ridge), 0, 1))


def striped(u, v, p, field):
    wide = field.step(part(u) - (0.25 + 0.5 * p[0]))
    thin = field.step(0.06 + 0.1 * p[2] - np.abs(part(u) - 0.12))
    return np.maximum(wide, thin * np.float32(0.5 * (p[1] > 0.5))), wide * np.float32(0.2)


def plaid(u, v, p, field):
    def bands(x):
        broad = field.step(part(x) - (0.35 + 0.35 * p[0]))
        thin = field.step(0.05 + 0.05 * p[1] - np.abs(part(x) - 0.2))
        return broad * np.float32(0.7) + thin * np.float32(0.3)

    thread = _ridge((u + v) * 9) * np.float32(0.1)
    return (bands(u) + bands(v)) / 2 * np.float32(0.9) + thread, thread


def woven(u, v, p, field):
    column, row = whole(u, v)
    float_ = 1 + int(p[0] * 3)  # over so many threads, as in canvas, twill and satin
    over = (column + row) % (float_ + 1) == 0
    along, across = np.where(over, v, u), np.where(over, u, v)
    strand = _round(_ridge(across)) * (0.6 + 0.4 * _ridge(along))
    return over * np.float32(0.3 + 0.5 * p[1]) + strand * np.float32(0.25), strand


def knit(u, v, p, field):
    lean = np.abs(part(u) - 0.5) * np.float32(1.2 + 1.2 * p[0])
    stitch = _round(_ridge(v - lean)) * _round(_ridge(u * 2))
    colour_row = (np.floor(v - lean) % (2 + int(p[1] * 4)) == 0) * np.float32(0.45 * (p[2] > 0.4))
    return stitch * np.float32(0.5) + colour_row, stitch


def brick(u, v, p, field):
    row = np.floor(v).astype(np.int32)
    long = u / np.float32(1.2 + 1.6 * p[0]) + row * np.float32(0.5 if p[1] < 0.7 else 0.0)
    column, joint = np.floor(long).astype(np.int32), np.float32(0.05 + 0.08 * p[2])
    inside = np.minimum((0.5 - np.abs(part(long) - 0.5)) * (1.2 + 1.6 * p[0]), 0.5 - np.abs(part(v) - 0.5))
    stone = field.step(inside - joint)
    grain = 0.8 + 0.3 * field.smooth(u * 5, v * 5, 3)
    return stone * (0.45 + 0.5 * field.of_cell(column, row)), stone * grain


def cellular(u, v, p, field):
    first, second, own = field.nearest(u, v, 0.55 + 0.45 * p[0])
    body = field.step(second - first - (0.06 + 0.14 * p[1]))
    return body * (0.5 + 0.5 * p[2] * own), body * np.float32(0.7)


def cracked(u, v, p, field):
    bent = (field.smooth(u * 3, v * 3, 3) - 0.5) * np.float32(0.35)
    first, second, own = field.nearest(u + bent, v - bent, 1.0)
    plate = field.step((second - first) * 2 - (0.02 + 0.12 * p[0]))
    dust = field.rough(u * 2, v * 2) * np.float32(0.3)
    return plate * (0.6 + 0.15 * own * p[1] + dust), plate * np.float32(0.6) + dust


def pebbled(u, v, p, field):
    first, second, own = field.nearest(u, v, 0.6 + 0.4 * p[0])
    dome = np.clip((second - first) * np.float32(1.2 + 1.2 * p[1]), 0, 1)
    return field.step(dome - 0.12) * (0.3 + 0.7 * own), _round(dome)


def marbled(u, v, p, field):
    flow = field.rough(u * 0.8, v * 0.8) * np.float32(2.5 + 3.5 * p[0])
    vein = np.abs(np.sin(np.float32(1.6) * u + np.float32(2) * flow))
    clouds = field.smooth(u * 0.7, v * 0.7, 3)
    return vein ** np.float32(0.25 + 0.9 * p[1]) * (0.55 + 0.45 * clouds), clouds * np.float32(0.1)


def spotted(u, v, p, field):
    column, row = whole(u, v)
    x = part(u) - 0.5 - (field.of_cell(column, row, 0) - 0.5) * np.float32(0.5 * p[0])
    y = part(v) - 0.5 - (field.of_cell(column, row, 1) - 0.5) * np.float32(0.5 * p[0])
    radius = (0.12 + 0.16 * p[1]) * (0.7 + 0.6 * field.of_cell(column, row, 2))
    spot = field.step(radius - np.hypot(x, y))
    core = field.step(radius * np.float32(0.55) - np.hypot(x, y)) * np.float32(0.5 * (p[2] > 0.55))
    return spot - core, spot * np.float32(0.15)


def perforated(u, v, p, field):
    row = np.floor(v)
    x = part(u + 0.5 * (row % 2) * (p[0] > 0.4)) - 0.5
    y = part(v) - 0.5
    reach = np.maximum(np.abs(x), np.abs(y)) if p[1] > 0.6 else np.hypot(x, y)
    sheet = field.step(reach - (0.22 + 0.2 * p[2]))
    return sheet * (0.85 + 0.15 * field.smooth(u / 2, v / 2)), sheet


def bark(u, v, p, field):
    stretch = np.float32(3 + 5 * p[0])
    fine = field.smooth(u * 4, v * 6 / stretch, 1) * np.float32(0.5)
    folds = field.smooth(u * 1.6, v * 1.6 / stretch, 0) + fine
    ridge = np.clip(np.abs(folds - 0.75) * np.float32(2 + 2 * p[1]), 0, 1)
    return ridge * (0.6 + 0.4 * field.smooth(u * 6, v * 4, 3)), ridge


def wooden(u, v, p, field):
    bent = u + field.smooth(u * 0.35, v * 0.12, 0) * np.float32(2 + 4 * p[0])
    ring = part(bent) ** np.float32(1 + 3 * p[1])
    fibre = field.smooth(u * 14, v * 0.7, 1)
    return ring * np.float32(0.7) + fibre * np.float32(0.3), fibre * np.float32(0.3)


def scaly(u, v, p, field):
    """Rows of rounded tiles, each covering the upper part of the next row."""
    tone, height = np.zeros_like(u), np.zeros_like(u)
    v = v * np.float32(1.3 + p[0])
    for above in (1, 0):
        row = np.floor(v) - above
        shifted = u + 0.5 * (row % 2)
        x, y = 2 * (part(shifted) - 0.5), (v - row) / np.float32(1.9)
        reach = np.hypot(x * np.float32(0.95), y) if p[1] < 0.6 else np.abs(x) * np.float32(0.55) + y
        inside = field.step(1 - reach)
        own = field.of_cell(np.floor(shifted).astype(np.int32), row.astype(np.int32))
        tone += inside * ((1 - 0.55 * reach**4) * (0.55 + 0.45 * own) - tone)
        height += inside * (y - height)
    return tone, height


def zigzag(u, v, p, field):
    fold = np.abs(part(u) - 0.5) * np.float32(1 + 2.2 * p[0])
    wide = field.step(np.abs(part(v * (1 + p[2]) + fold) - 0.5) - (0.12 + 0.2 * p[1]))
    return wide, wide * np.float32(0.15)


def honeycomb(u, v, p, field):
    """Hexagons: the distance to the border of the nearer of two shifted lattices of points."""
    tall = np.float32(np.sqrt(3))
    ax, ay = part(u) - 0.5, (part(v / tall) - 0.5) * tall
    bx, by = part(u + 0.5) - 0.5, (part(v / tall + 0.5) - 0.5) * tall
    first = ax * ax + ay * ay < bx * bx + by * by
    x, y = np.abs(np.where(first, ax, bx)), np.abs(np.where(first, ay, by))
    border = 0.5 - np.maximum(x, x / 2 + y * (tall / 2))
    wall = field.step(0.04 + 0.12 * p[0] - border)
    floor = np.clip(border * 2, 0, 1) * np.float32(0.6 * p[1])
    return np.maximum(wall, floor), wall * np.float32(0.9) - floor * np.float32(p[2] > 0.5)


def blotched(u, v, p, field):
    shape = field.rough(u * 0.9, v * 0.9)
    some = field.step(shape - (0.42 + 0.1 * p[0]))
    more = field.step(field.rough(u * 0.9 + 20, v * 0.9 + 9) - (0.55 - 0.1 * p[1]))
    return some * np.float32(0.5) + more * np.float32(0.5), field.smooth(u * 3, v * 3, 3) * np.float32(0.1)


def fibrous(u, v, p, field):
    """Straw, fur or grass: fine strands that lean this way and that."""
    lean = (field.smooth(u * 0.6, v * 0.6, 3) - 0.5) * np.float32(0.5 + 1.5 * p[0])
    strands = field.smooth((u + lean) * 5, v * np.float32(0.5 + 0.9 * p[1]), 0)
    finer = field.smooth((u - lean) * 9, v * np.float32(0.9 + p[1]), 1)
    tone = np.clip((np.maximum(strands, finer) - 0.3) * np.float32(1.5), 0, 1)
    return tone, tone


FAMILIES = {
    family.__name__: family
    for family in (
        *(striped, woven, cellular, marbled, brick, spotted, cracked, knit, bark),
        *(plaid, pebbled, perforated, wooden, scaly, zigzag, honeycomb, blotched, fibrous),
    )
}
