"""Forecasts: sums in any blocks, Mackey-Glass, and a fit that has seen nothing of what it is judged by."""

import json

import numpy as np
import pytest
from commandline import tt
from waves import mackey_glass

from tinytrain.backbones.motion import RESERVOIR
from tinytrain.base.errors import InputError
from tinytrain.episode.motion_features import matrices, states
from tinytrain.pipeline.forecast import Sums, forecast

SERIES = mackey_glass(2500)


def test_streamed_sums_give_the_ridge_regression_of_all_rows_without_a_penalty_of_the_offset():
    rng = np.random.default_rng(1)
    x, y = rng.normal(5, 1e-3, (700, 8)), rng.normal(9, 1, 700)
    sums, start = Sums(8), 0
    for count in (1, 3, 96, 600):
        sums.add(x[start : start + count], y[start : start + count])
        start += count
    weights, offset = sums.solved(1e-4)
    centred = x - x.mean(axis=0)
    direct = np.linalg.solve(centred.T @ centred + 1e-4 * np.eye(8), centred.T @ (y - y.mean()))
    np.testing.assert_allclose(weights, direct, rtol=1e-9)
    np.testing.assert_allclose(x @ weights + offset, centred @ direct + y.mean(), atol=1e-9)


def test_states_and_predictions_are_those_of_reservoirpy():
    nodes = pytest.importorskip("reservoirpy.nodes")
    places, read, inputs, bias = matrices(RESERVOIR.neurons, 1, RESERVOIR.seed)
    recurrent = np.zeros((RESERVOIR.neurons,) * 2)
    np.put_along_axis(recurrent, places.T, RESERVOIR.scale * read.T, axis=1)
    series = (SERIES - SERIES.mean()) / SERIES.std()
    theirs = nodes.Reservoir(len(bias), lr=RESERVOIR.leak, W=recurrent, Win=inputs.T.copy(), bias=bias)
    want, got = theirs.run(series), states(series, RESERVOIR)
    np.testing.assert_allclose(got, want, atol=1e-12)
    for ridge in (1e-6, 1e-2):
        sums = Sums(len(bias))
        sums.add(got[100:1500], series[101:1501, 0])
        weights, offset = sums.solved(ridge)
        fitted = nodes.Ridge(ridge=ridge).fit(want[100:1500], series[101:1501])
        foretold = got[100:] @ weights + offset
        np.testing.assert_allclose(foretold, fitted.run(want[100:])[:, 0], atol=1e-8)


def test_sums_without_a_cholesky_factor_say_so():
    sums = Sums(3)
    sums.add(np.zeros((5, 3)), np.arange(5.0))
    assert sums.solved(0.0) is None and sums.solved(1e-6) is not None


def test_mackey_glass_is_foretold():
    found = forecast(SERIES, 0)
    assert found.error / found.deviation < 0.005 and found.naive / found.deviation > 0.1
    far = forecast(SERIES[:2400], 0, 20)
    np.testing.assert_allclose(far.values, SERIES[2400:2420, 0], atol=0.1)
    assert far.error < 0.1 * far.naive


def test_noise_cannot_be_foretold_and_the_error_says_so():
    found = forecast(np.random.default_rng(2).normal(3, 2, (800, 2)), 1, 2)
    assert 0.95 < found.error / found.deviation < 1.3 and found.ridge == 100


def test_the_map_that_is_judged_has_seen_nothing_of_what_judges_it():
    """A map of 102 numbers that had would be right about noise, too."""
    noise = [forecast(np.random.default_rng(seed).normal(0, 1, (300, 1)), 0) for seed in range(12)]
    assert np.mean([found.error / found.deviation for found in noise]) > 1


def test_series_that_are_short_or_stand_still_are_refused():
    for values, ahead, said in ((SERIES[:60], 1, "has 60 rows"), (SERIES[:400], 90, "90 ahead takes about")):
        with pytest.raises(InputError, match=said):
            forecast(values, 0, ahead)
    with pytest.raises(InputError, match="stands still"):
        forecast(np.column_stack([np.full(500, 7.0), SERIES[:500]]), 0)


def test_a_column_that_stood_still_may_change_where_it_is_judged():
    still = np.full(800, 12.6)  # whose deviation is rounding, not 0
    still[700:] = 12.7
    found = forecast(np.column_stack([SERIES[:800], still]), 0)
    assert still[:600].std() > 0 and found.error < found.deviation


def test_a_column_of_a_file_is_foretold(tmp_path, capsys):
    path, out = tmp_path / "pump.csv", tmp_path / "next.csv"
    rows = "".join(f"{k / 10:.1f},{np.sin(k / 9):.5f},{x:.6f}\n" for k, x in enumerate(SERIES[:1000, 0]))
    path.write_text(f"time,flow,pressure\n{rows}")
    assert tt("forecast", path, "--target", "pressure", "--ahead", "3", "--out", out) == 0
    said = capsys.readouterr().out
    assert "on the last quarter of 1,000 rows, 3 ahead" in said and "of the deviation of pressure" in said
    head, *values = out.read_text().split()
    assert head == "pressure"
    np.testing.assert_allclose([float(v) for v in values], SERIES[1000:1003, 0], atol=0.05)
    assert tt("forecast", path, "--target", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["target"] == "pressure"
    assert tt("forecast", path, "--target", "heat") == 2
    assert "no column 'heat'; known columns: flow, pressure" in capsys.readouterr().err
    path.write_text("a,a\n" + "".join(f"{k},{x:.6f}\n" for k, x in enumerate(SERIES[:300, 0])))
    assert tt("forecast", path, "--target", "a") == 2
    assert "2 columns are called 'a'; give the number of one: 1, 2" in capsys.readouterr().err
    assert tt("forecast", path, "--target", "2") == 0 and "nearer" not in capsys.readouterr().out
    assert tt("forecast", path, "--target", "1") == 0
    assert "if the last value is said again, which is nearer: do so instead\n" in capsys.readouterr().out
    path.write_text("a\n1\n2\n")
    assert tt("forecast", path) == 3 and "pump.csv' has 2 rows" in capsys.readouterr().err
