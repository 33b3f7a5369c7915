"""Drawings are well-formed, whatever is written in them."""

import xml.etree.ElementTree as ET

from tinytrain.base.svg import drawing, line, page, rectangle, text

HOSTILE = "</text><script>a & \"b\" < 'c'"
SVG = "{http://www.w3.org/2000/svg}"


def test_what_is_written_in_a_drawing_is_text_and_no_markup():
    parts = [text(1, 2, HOSTILE, more=HOSTILE), rectangle(0, 0, 1, 1, hint=HOSTILE)]
    root = ET.fromstring(page(parts, 30, 40, HOSTILE))
    assert root.get("aria-label") == HOSTILE and root.find(f"{SVG}text").get("more") == HOSTILE
    found = [root.find(f"{SVG}text").text, *(node.text for node in root.iter(f"{SVG}title"))]
    assert found == [HOSTILE, HOSTILE] and root.find(f"{SVG}script") is None


def test_a_drawing_in_a_page_names_no_address_and_a_file_of_its_own_has_paper():
    assert "http" not in drawing([], 1, 1, "x")
    assert ET.fromstring(page([], 30, 40, "x")).find(f"{SVG}rect").get("width") == "30"


def test_coordinates_have_two_digits_after_the_point_and_names_of_attributes_a_hyphen():
    drawn = line([(1 / 3, 1234.567), (2, 3)], "red", stroke_width=2.0)
    assert drawn == '<path d="M0.33 1234.57L2 3" fill="none" stroke="red" stroke-width="2"/>'
