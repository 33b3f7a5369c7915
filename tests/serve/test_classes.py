"""Classes of a project and those of its delta: named alike, whoever names them and whatever goes wrong."""

import time

import pytest
from commandline import tt
from serving import serving
from toyfiles import write_images

from tinytrain.base.errors import InputError


@pytest.fixture
def browser(place, tmp_path):
    project = tmp_path / "p"
    write_images(project / "images", count=3)
    network = ("--backbone", place / "toy.safetensors")
    learn = ("--store", project / "state", "--policy", "none", "--budget", "400kB", "--force", "-q")
    assert tt("adapt", project / "images", *network, *learn) == 0
    with serving(project, place / "toy.safetensors") as browser:
        yield browser


def names(status):
    return [row["name"] for row in status["classes"]], status["delta"]["classes"]


def test_a_name_with_blanks_around_it_is_the_same_class_in_both(browser, photo):
    browser.ask("PATCH", "/api/classes/ant", {"name": " emmet "})
    assert names(browser.status()) == (["bee", "cat", "emmet"], ["emmet", "bee", "cat"])
    seen = browser.post("/api/predict", photo("ant"))
    said = browser.ask("POST", "/api/correct", {"id": seen["id"], "class": " dog ", "new": True})
    assert said[0] == 200 and names(browser.status())[1] == ["emmet", "bee", "cat", "dog"]
    assert {row["name"]: row["count"] for row in browser.status()["classes"]}["dog"] == 1


def test_a_name_that_the_delta_has_already_is_given_to_neither(browser):
    browser.ask("DELETE", "/api/classes/cat")
    assert browser.ask("PATCH", "/api/classes/bee", {"name": "cat"})[0] == 409
    assert names(browser.status()) == (["ant", "bee"], ["ant", "bee", "cat"])


def test_a_class_that_cannot_be_learnt_is_not_made(browser, photo):
    seen = browser.post("/api/predict", photo("ant"))
    said = browser.ask("POST", "/api/correct", {"id": seen["id"], "class": "background", "new": True})
    assert (said[0], said[1]["code"]) == (409, "class-names")
    assert names(browser.status()) == (["ant", "bee", "cat"], ["ant", "bee", "cat"])


def test_corrections_are_held_no_longer_than_the_network_learns(browser, photo, monkeypatch):
    def none(how):
        raise InputError("too-few-images", "there are none")

    monkeypatch.setattr(browser.service.work, "_adapted", none)
    with browser.events() as following:
        browser.post("/api/learn")
        following("learned")
    seen = browser.post("/api/predict", photo("ant"))
    browser.post("/api/correct", {"id": seen["id"], "class": "bee"})
    end = time.monotonic() + 10  # a moment after it is told
    while browser.service.live._since is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert browser.service.live._since is None
