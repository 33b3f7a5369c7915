"""Plots of a report: what they show, and that their texts can be read."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest
from cases import each

from tinytrain.meta.axes import LEFT, LINE, Axis, spread
from tinytrain.meta.bench.plots import (
    Point,
    against_macs,
    against_memory,
    against_shots,
    pareto,
    time_per_stage,
)

SVG = "{http://www.w3.org/2000/svg}"


def test_the_pareto_front_holds_what_nothing_beats():
    points = [Point("a", 1, 70), Point("b", 2, 69), Point("c", 2, 75), Point("d", 3, 75), Point("e", 9, 80)]
    assert [p.name for p in pareto(points)] == ["a", "c", "e"]


def test_spread_labels_keep_their_distance_their_order_and_their_place_where_there_is_room():
    at = spread([100, 101, 102, 300], 20, 320)
    assert at == [100, 116, 132, 300]
    crowded = spread([315, 316, 317], 20, 320)
    assert crowded == [288, 304, 320]
    assert spread([], 0, 1) == []


def boxes(svg):
    """(left, top, right, bottom) of every text that is not rotated, in pixels, generously."""
    found = []
    for node in ET.fromstring(svg).iter(f"{SVG}text"):
        if node.get("transform"):
            continue
        x, y, width = float(node.get("x")), float(node.get("y")), 7.0 * len(node.text)
        left = x - {"start": 0, "middle": width / 2, "end": width}[node.get("text-anchor")]
        found.append((left, y - 10, left + width, y + 3))
    return found


METHODS = ("none", "last_layer", "full", "sparse_update", "tinytrain_published", "tinytrain", "tinytrain@30",
           "bias_only", "tinytl", "trady", "random", "l2", "transductive")  # fmt: skip


def points_close_together():
    return [Point(name, 1e6 + 10 * k, 80 + 0.01 * (k % 3), 1.2) for k, name in enumerate(METHODS)]


PLOTS = {
    "memory": lambda: against_memory([*points_close_together(), Point("far", 5e7, 81)]),
    "memory, all the same": lambda: against_memory([Point(name, 1e6, 80.0) for name in METHODS]),
    "macs": lambda: against_macs(
        [Point(p.name, 14 + k / 9, p.accuracy) for k, p in enumerate(points_close_together())]
    ),
    "nothing trained": lambda: against_macs([Point("none", 0, 70.0)]),
    "shots": lambda: against_shots({m: [Point(m, s, 70 + s / 9, 1) for s in (1, 5, 10)] for m in METHODS}),
    "time": lambda: time_per_stage({m: {"probe": 0.1, "features": 0.2, "training": 9.0} for m in METHODS}),
}


@each("name", PLOTS)
def test_no_two_texts_of_a_plot_overlap_and_none_leaves_the_image(name):
    svg = PLOTS[name]()
    root, found = ET.fromstring(svg), boxes(svg)
    assert len(found) > 3 or name == "nothing trained"
    for a, b in itertools.combinations(found, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (a, b)
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(
        left >= 0 and right <= width and top >= 0 and bottom <= height for left, top, right, bottom in found
    )


@each("accuracy, half", [(99.5, 3.0), (100.0, 0.0), (0.5, 4.0), (50.0, 80.0)])
@each("plot", [against_macs, lambda points: against_shots({"x": points})])
def test_intervals_and_axes_of_accuracy_end_at_0_and_100(plot, accuracy, half):
    root = ET.fromstring(plot([Point("x", 1, accuracy, half), Point("y", 5, 90.0, 1.0)]))
    found = [node for node in root.iter(f"{SVG}text") if node.get("x") == str(LEFT - 7)]
    at = {float(node.text): float(node.get("y")) - 4 for node in found}
    assert all(0 <= value <= 100 for value in at) and len(at) > 1
    (low, bottom), *_, (high, top) = sorted(at.items())
    pixels = (bottom - top) / (high - low)  # of a point of accuracy
    ends = (max(0.0, accuracy - half), min(100.0, accuracy + half))
    drawn = [
        (float(m[1]), float(m[2]))
        for node in root.iter(f"{SVG}path")
        if (m := re.fullmatch(r"M[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)", node.get("d")))
        and node.get("stroke-width") == "1.5"
    ]
    assert drawn[0] == pytest.approx([bottom - (end - low) * pixels for end in ends], abs=0.2)


def test_axes_have_round_ticks_in_their_range():
    assert Axis(0, 200, 0, 100).ticks() == [0, 50, 100, 150, 200]
    assert [round(v) for v in Axis(8e5, 6e7, 0, 100, log=True).ticks()] == [
        10**6, 2 * 10**6, 5 * 10**6, 10**7, 2 * 10**7, 5 * 10**7,
    ]  # fmt: skip
    assert LINE >= 14
