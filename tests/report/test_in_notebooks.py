"""A report as Python shows it: a short line, the text of the command line, the page in a frame of its own."""

from dataclasses import replace

import pytest
from readpage import Page
from toydevices import ONE

from tinytrain.pipeline.adapt import adapt
from tinytrain.pipeline.toy import toy_episode, toy_network
from tinytrain.plan.budget import Budget
from tinytrain.report.conclusion import conclude
from tinytrain.report.html import render_html


@pytest.fixture(scope="module")
def report():
    return adapt(toy_network(), toy_episode(), Budget(2**22), device=ONE, force=True)


def test_the_text_is_that_of_the_command_line(report):
    assert str(report) == f"{report}" == "\n".join(conclude(report.to_json()))


def test_the_page_stands_in_a_frame_that_its_style_cannot_leave(report):
    ((tag, attributes),) = Page(report._repr_html_()).found
    assert tag == "iframe" and "sandbox" in attributes
    assert attributes["srcdoc"] == render_html(report.to_json(), report.thumbnails())


def test_the_short_form_says_how_good_it_is_and_whether_it_was_kept(report):
    accuracy = report.to_json()["accuracy"]
    change = f"{accuracy['before']:.1%} to {accuracy['after']:.1%} of 12 images"
    assert repr(report) == f"<Report: toy, policy tinytrain, 3 classes, accuracy {change}, kept>"
    refused = replace(report, guard=replace(report.guard, refused=True))
    assert repr(refused).endswith(", not kept>")
    alone = replace(report, guard=replace(report.guard, kept="head"))
    assert repr(alone).endswith(", a new head alone>")


def test_without_images_to_judge_by_the_short_form_claims_no_accuracy_of_its_own(report):
    report = adapt(toy_network(), toy_episode(queries=0), Budget(2**22), "none", device=ONE)
    estimate = report.to_json()["estimate"]
    known = estimate["accuracy"] is not None
    assert ("accuracy about" if known else "accuracy unknown") in repr(report)
    assert "100" not in repr(report)


def test_a_name_with_control_characters_stays_on_one_line(report):
    odd = replace(report, network=replace(report.network, name="two\nlines\x1b[31m"))
    for value in (odd, odd.network):
        assert repr(value).isprintable() and "lines" in repr(value)
