"""The frame of all pages: what is written in it is text, its colours can be read, bars keep their track."""

import itertools
import re
from pathlib import Path

import pytest
from cases import each
from readpage import Page

import tinytrain.base.page
from tinytrain.base.page import Bar, bars, items, legend, name, page, safe, section, table, tag

HOSTILE = '<script>alert("1")</script> & \x1b[31m\u202e\n'
AA = 4.5  # contrast of normal text by WCAG 2.1
TEXTS, GROUNDS = ("ink", "dim", "good", "bad", "warn", "main"), ("paper", "soft")


def test_what_is_written_in_a_page_is_text_and_no_markup():
    body = [
        section(HOSTILE, tag("p", safe(HOSTILE), title=HOSTILE)),
        table((safe(HOSTILE),), [(name(HOSTILE, 5),)]),
        bars([Bar(name(HOSTILE), 0.5, safe(HOSTILE))], (HOSTILE,)),
        legend([("k0", HOSTILE)]),
    ]
    html = page(HOSTILE, body)
    found = Page(html)
    assert not found.all("script")
    assert sum('<script>alert("1")</script>' in text for text in found.texts) == 9
    values = [value for _, attributes in found.found for value in attributes.values()]
    assert not any(c in text for text in (html, *found.texts, *values) for c in "\x1b\u202e")


def test_a_page_loads_nothing_and_runs_nothing():
    html = page("x", [])
    assert not re.search(r"https?:|src=|@import|url\(|<script|<link", html)


def test_a_long_name_is_shortened_and_still_there_to_be_read():
    found = Page(name("m" * 300, 20))
    ((_, attributes),) = found.found
    assert found.texts == ["m" * 19 + "…"] and [*attributes.values()] == ["m" * 300]
    assert Page(name("short", 20)).texts == ["short"]


@each("fraction", [-0.5, 0.0, 0.3, 1.0, 1.7])
def test_no_bar_and_no_interval_leaves_its_track(fraction):
    html = bars([Bar("x", fraction, "", (fraction - 0.4, fraction + 0.4))])
    width, left, length = map(float, re.findall(r"(?:width|left):([\d.]+)%", html))
    assert width == pytest.approx(100 * min(max(fraction, 0), 1))
    assert 0 <= left <= left + length <= 100.001


def test_empty_parts_are_left_out():
    assert section("x", "", "") == items([]) == bars([]) == ""


def schemes() -> list[dict[str, tuple[float, ...]]]:
    """The colours by name, for light and for dark."""
    css = Path(tinytrain.base.page.__file__).with_name("page.html").read_text()
    found = re.findall(r":root \{([^}]*)\}", css)
    named = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in found]
    return [{key: rgb(value) for key, value in scheme.items()} for scheme in named]


def rgb(text: str) -> tuple[float, ...]:
    return tuple(int(text[k : k + 2], 16) / 255 for k in (1, 3, 5))


def contrast(a, b) -> float:
    def luminance(colour):
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return sum(f * c for f, c in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def over(front, opacity: float, back) -> tuple[float, ...]:
    return tuple(opacity * f + (1 - opacity) * b for f, b in zip(front, back, strict=True))


@pytest.mark.parametrize("scheme", schemes(), ids=("light", "dark"))
def test_every_text_can_be_read_on_every_ground(scheme):
    css = Path(tinytrain.base.page.__file__).with_name("page.html").read_text()
    kinds = {rgb(value) for value in re.findall(r"\.k\d \{ fill: (#\w{6})", css)}
    assert contrast((0, 0, 0), (1, 1, 1)) == pytest.approx(21) and len(kinds) == 8
    for text, ground in itertools.product(TEXTS, GROUNDS):
        assert contrast(scheme[text], scheme[ground]) >= AA, (text, ground)
    # Cells of a confusion matrix, at the strongest, and buffers of the arena.
    for colour in (scheme["main"], scheme["bad"]):
        assert contrast(scheme["ink"], over(colour, 0.5, scheme["paper"])) >= AA
    for colour in kinds:
        assert contrast(scheme["ink"], over(colour, 0.4, scheme["paper"])) >= AA
