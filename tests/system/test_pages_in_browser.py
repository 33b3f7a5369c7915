"""Pages in a real browser: nothing is wider than a phone or a desk, and no texts of a drawing overlap.

Skipped where Chromium is not installed.
"""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape

import pytest

from tinytrain.backbones.load import load_backbone
from tinytrain.datasets import sample_episode
from tinytrain.datasets.generated.leaves import leaves
from tinytrain.meta.bench.document import Figure, Heading, Table, Text, html
from tinytrain.meta.bench.plots import Point, against_memory
from tinytrain.pipeline.adapt import adapt
from tinytrain.plan.budget import Budget
from tinytrain.report.html import render_html

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--virtual-time-budget=4000", "--dump-dom",
)  # fmt: skip
PHONE, DESK = 390, 1280
HOSTILE = (
    "<script>alert(1)</script>", "\x1b[31m\n\u202eright to left", "عربي עברית", "x" * 200,
    "\U0001f9a9 " * 40,
)  # fmt: skip

# Runs in the page: how wide it is, what leaves it outside of boxes that scroll, and where drawn texts lie.
MEASURE = """<script>
function shown(e) { return e.getClientRects().length && getComputedStyle(e).display != "none" }
function box(e) { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom] }
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => d.open = true)
  const all = [...document.body.querySelectorAll("*")].filter(e => shown(e) && !e.closest(".wide, pre"))
  parent.postMessage({
    width: innerWidth, page: document.documentElement.scrollWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    leaving: all.filter(e => box(e)[2] > innerWidth + 0.5 || box(e)[0] < -0.5).map(e => e.outerHTML.slice(0, 200)),
    fills: [...document.querySelectorAll("figure.figure text")].map(t => getComputedStyle(t).fill),
    drawings: [...document.querySelectorAll("svg")].map(s => [...s.querySelectorAll("text")].filter(shown)
      .map(t => [t.textContent, ...box(t)])),
  }, "*")
})
</script>"""  # noqa: E501
OUTER = """<!doctype html><body><pre id="measured"></pre><script>
addEventListener("message", e => document.getElementById("measured").textContent = JSON.stringify(e.data))
</script><iframe src="page.html" width="{width}" height="900" style="border:0"></iframe>"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def measured(page: str, width: int, folder, *flags: str) -> dict:
    """What `MEASURE` finds in the page when its window has this width, in a browser with these `flags`."""
    (folder / "page.html").write_text(page.replace("</body>", f"{MEASURE}</body>"))
    (folder / "outer.html").write_text(OUTER.format(width=width))
    command = [
        CHROMIUM, *QUIET, *flags, f"--user-data-dir={folder / 'profile'}",
        (folder / "outer.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="measured">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    facts = json.loads(unescape(found[1]))
    assert facts["width"] == width
    return facts


@pytest.fixture(scope="module")
def adapted():
    """A real adaptation to classes with every kind of name, and its page."""
    episode = replace(sample_episode(leaves(), 5, 3, 4, 0), class_names=HOSTILE)
    report = adapt(load_backbone("tinytrain-small"), episode, Budget())
    facts = report.to_json(["tinytrain", "adapt", "photos/", "--out", "a" * 200])
    facts["skipped"] = [{"file": "b" * 300, "reason": "c" * 300, "kind": "damaged"}]
    facts["duplicates"] = [{"files": ["d" * 300] * 3, "classes": list(HOSTILE), "where": "both sides"}]
    return render_html(facts, report.thumbnails())


@pytest.fixture(scope="module")
def bench():
    """A page with a table and texts that are wider than any phone, and a plot."""
    names = [f"policy_{k}_with_settings" for k in range(12)]
    cells = tuple((name, *("81.0 ±2.7",) * 12) for name in names)
    points = [Point(name, 1e6 + k, 99.5, 2.0) for k, name in enumerate(names)]
    plot = Figure("x.svg", "accuracy against memory", against_memory(points))
    return html("Benchmark", [Heading("Accuracy"), Text("z" * 400), Table(("", *names), cells), plot])


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("page", ["adapted", "bench"])
def test_nothing_is_wider_than_the_screen_and_no_texts_of_a_drawing_overlap(page, width, request, tmp_path):
    facts = measured(request.getfixturevalue(page), width, tmp_path)
    assert facts["page"] <= width and not facts["leaving"], facts["leaving"][:5]
    drawings = facts["drawings"]
    assert sum(map(len, drawings)) > 10
    for texts in drawings:
        for k, (one, *a) in enumerate(texts):
            for other, *b in texts[:k]:
                apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 3 or b[3] <= a[1] + 3
                assert apart, (one, a, other, b)


def test_a_plot_on_white_paper_has_dark_letters_on_a_dark_page_too(bench, tmp_path):
    light = measured(bench, DESK, tmp_path)
    dark = measured(bench, DESK, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert (light["dark"], dark["dark"]) == (False, True)
    for facts in (light, dark):
        assert len(facts["fills"]) > 10 and set(facts["fills"]) == {"rgb(34, 34, 34)"}, "INK"


def test_the_measure_sees_what_is_too_wide_and_texts_that_overlap(adapted, tmp_path):
    """The oracle of the tests above."""
    wide = adapted.replace("</body>", '<div style="width:2000px">x</div></body>')
    assert measured(wide, PHONE, tmp_path)["leaving"]
    twice = "<svg><text x='9' y='20'>one</text><text x='12' y='20'>two</text></svg></body>"
    (one, _, _, right, _), (_, left, *_) = measured(adapted.replace("</body>", twice), DESK, tmp_path)[
        "drawings"
    ][-1]
    assert one == "one" and left < right
