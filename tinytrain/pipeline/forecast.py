"""How a series of numbers goes on: states of an echo state network, and a linear map in closed form."""

from dataclasses import dataclass

import numpy as np

from tinytrain.backbones.motion import RESERVOIR
from tinytrain.base.errors import InputError
from tinytrain.episode.motion_features import states

RIDGES = (1e-6, 1e-4, 1e-2, 1.0, 100.0)
WASHOUT = 100  # states that do not count, or a tenth of a short series
JUDGED = 0.25  # of the series, its end: what the error is measured on
LEAST = 40  # states to fit to
BLOCK = 512  # rows of a sum


@dataclass(frozen=True)
class Forecast:
    """`values` (ahead,) of the target behind the end of the series, in its units.

    `error` is the root mean square of the errors `ahead` rows on, over the last quarter of the series, which
    the map that was judged had not seen, and `deviation` that of the target there. `naive` is the error of
    the last value, said again. `ridge` was chosen on a part before it.
    """

    values: np.ndarray
    error: float
    naive: float
    deviation: float
    ridge: float


class Sums:
    """What a ridge regression needs of rows x (k, d) and targets y (k,), added up as they come.

    Sums are of differences from the means so far (Chan et al. 1983), which keeps the small numbers that are
    left where states hardly vary. With the triangle of `xx` they are d * (d + 5) / 2 + 2 numbers.
    """

    def __init__(self, size: int):
        self.count, self.x, self.y = 0, np.zeros(size), 0.0
        self.xx, self.xy = np.zeros((size, size)), np.zeros(size)

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        for start in range(0, len(x), BLOCK):
            self._add(x[start : start + BLOCK], y[start : start + BLOCK])

    def _add(self, x: np.ndarray, y: np.ndarray) -> None:
        count = self.count + len(x)
        mean_x, mean_y = x.mean(axis=0), float(y.mean())
        away_x, away_y = mean_x - self.x, mean_y - self.y
        share = self.count * len(x) / count
        self.xx += (x - mean_x).T @ (x - mean_x) + share * np.outer(away_x, away_x)
        self.xy += (x - mean_x).T @ (y - mean_y) + share * away_x * away_y
        self.x += away_x * len(x) / count
        self.y += away_y * len(x) / count
        self.count = count

    def solved(self, ridge: float) -> tuple[np.ndarray, float] | None:
        """Weights (d,) and offset; None if the sums have no Cholesky factor with this `ridge`."""
        try:
            lower = np.linalg.cholesky(self.xx + ridge * np.eye(len(self.x)))
        except np.linalg.LinAlgError:
            return None
        weights = np.linalg.solve(lower.T, np.linalg.solve(lower, self.xy))
        return weights, self.y - float(self.x @ weights)


def forecast(values: np.ndarray, target: int, ahead: int = 1) -> Forecast:
    """How column `target` of a series (n, columns) goes on for `ahead` rows; all columns are looked at.

    Raises InputError ``image-unreadable``, without a subject, for a series that is too short or stands still.
    """
    judged = int(len(values) * JUDGED)
    fitted = len(values) - judged
    washout = washout_of(len(values))
    if min(judged, fitted - washout - 2 * ahead - judged) < max(LEAST, ahead):
        least = 4 * max(LEAST, ahead) + 4 * washout + 8 * ahead
        raise InputError(
            "image-unreadable", f"has {len(values)} rows; {ahead} ahead takes about {least} or more"
        )
    mean, deviation = values[:fitted].mean(axis=0), values[:fitted].std(axis=0)
    if not deviation[target] > 1e-12 * (1 + abs(mean[target])):
        raise InputError("image-unreadable", "stands still: its target never changes")
    moves = np.ptp(values[:fitted], axis=0) > 0  # the deviation of a column that stands still may be rounding
    scaled = (values - mean) / np.where(moves, deviation, 1)
    x = np.concatenate([states(scaled, RESERVOIR), scaled], axis=1)
    x, now, later = x[washout:], scaled[washout:, target], scaled[washout + ahead :, target]
    end = len(later) - judged  # rows from here on are those that the error is measured on
    known = end - ahead  # rows up to here have targets before the first of those
    first = known - known // 3  # a ridge is tried on the rows between
    sums = Sums(x.shape[1])
    sums.add(x[:first], later[:first])
    maps = {ridge: found for ridge in RIDGES if (found := sums.solved(ridge))}
    off = {r: _applied(found, x[first:known]) - later[first:known] for r, found in maps.items()}
    ridge = min(off, key=lambda r: np.square(off[r]).mean())
    sums.add(x[first:known], later[first:known])
    errors = _applied(sums.solved(ridge), x[end : len(later)]) - later[end:]
    naive = now[end : len(later)] - later[end:]
    sums.add(x[known : len(later)], later[known:])
    unit = float(deviation[target])
    return Forecast(
        _applied(sums.solved(ridge), x[len(later) :]) * unit + mean[target],
        *(unit * float(np.sqrt(np.square(some).mean())) for some in (errors, naive)),
        unit * float(later[end:].std()),
        ridge,
    )


def washout_of(rows: int) -> int:
    """How many states of a series do not count."""
    return min(WASHOUT, rows // 10)


def _applied(found: tuple[np.ndarray, float], x: np.ndarray) -> np.ndarray:
    weights, offset = found
    return x @ weights + offset
