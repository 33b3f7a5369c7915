"""A person at the page of a real server, with a camera that shows a film: from nothing to a corrected answer.

Skipped without Playwright or Chromium.
"""

import json
import math
import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("playwright", reason="Playwright is not installed: pip install '.[browser]'")
from servedpage import CHROMIUM, SPECIES, as_jpeg, camera_file, chromium, fill, photographs, post, until
from serving import program
from waves import HEARD, write_clips, write_encoder

from tinytrain.episode.wav import parsed, samples_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]
HELD = 4_500  # milliseconds, for at least 20 pictures


def status(at: str) -> dict:
    with urllib.request.urlopen(f"{at}api/status") as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def films():
    return {name: photographs(name) for name in SPECIES}


@pytest.fixture
def at(tmp_path):
    with program(tmp_path / "project") as (_, address):
        yield address


@pytest.fixture
def person(tmp_path, films):
    """A browser, and what changes the film of its camera from when that is turned on next."""
    path = camera_file(tmp_path / "film.mjpeg", films["oak"])
    with chromium(f"--use-file-for-fake-video-capture={path}") as browser:
        context = browser.new_context(permissions=["camera"], locale="en-GB")
        context.set_default_timeout(60_000)
        yield context, lambda name: camera_file(path, films[name])


def test_five_things_are_recorded_learnt_recognised_and_corrected(at, person):
    context, film = person
    page, began = context.new_page(), time.monotonic()
    page.goto(at)
    for name in SPECIES:
        page.get_by_label("Name of a new class").fill(name)
        page.keyboard.press("Enter")
        page.get_by_label("Which camera").select_option("none")
        page.locator("#video").wait_for(state="hidden")
        film(name)  # another thing comes in front of the camera
        page.get_by_label("Which camera").select_option("browser")
        page.locator("#video").wait_for()
        button = page.locator(f"[data-key={name}] .record")
        button.hover()
        page.mouse.down()
        page.wait_for_timeout(HELD)
        until(page, lambda: int(page.locator("#rolling").inner_text().rpartition(" ")[2]) >= 15)  # a slow PC
        page.mouse.up()
        page.get_by_text(f"added to {name}").wait_for()
    found = {row["name"]: row["count"] for row in status(at)["classes"]}
    assert found.keys() == SPECIES.keys() and min(found.values()) >= 15
    page.get_by_role("link", name="Enough?").first.click()
    page.get_by_text("of new pictures would be named rightly").wait_for()
    recorded = time.monotonic()
    page.get_by_role("link", name="Learn").first.click()
    page.get_by_role("button", name="Learn now").click()
    page.locator("#answer .figure").wait_for()
    learnt = time.monotonic()
    page.get_by_role("link", name="Live").first.click()
    page.locator("#name", has_text="oak").wait_for()
    seconds = time.monotonic() - began, recorded - began, learnt - recorded
    print("{:.0f} s in all; until they were checked {:.0f} s, to learn {:.0f} s".format(*seconds))
    page.locator("#corrections").get_by_role("button", name="Something new").click()
    page.get_by_label("Name of the new class").first.fill("grass")
    page.keyboard.press("Enter")
    page.get_by_text("Learnt: that is grass").wait_for()
    page.locator("#bars", has_text="grass").wait_for()
    page.reload()
    page.locator("#bars", has_text="grass").wait_for()
    assert ("grass", 1) in [(row["name"], row["count"]) for row in status(at)["classes"]]


def test_two_pages_see_the_same_and_a_page_that_is_closed_harms_nothing(at, person, films):
    for name in ("oak", "fern"):
        fill(at, name, films[name][:8])
    context, _ = person
    one, other = context.new_page(), context.new_page()
    one.goto(f"{at}#collect")
    other.goto(f"{at}#learn")
    one.get_by_label("Name of a new class").fill("ivy")
    one.keyboard.press("Enter")
    one.get_by_label("Delete the class ivy").click()
    one.locator(".toast").get_by_role("button", name="Undo").click()
    one.locator("[data-key=ivy]").wait_for()
    one.get_by_label("Delete the class ivy").click()
    other.get_by_role("button", name="Learn now").click()
    other.get_by_role("button", name="Cancel").wait_for()
    other.close()
    one.get_by_role("link", name="Learn").first.click()
    one.get_by_text("The full lesson is used").or_(one.get_by_text("the quick one is used")).wait_for()
    assert status(at)["delta"]["classes"] == ["fern", "oak"]


def test_what_a_page_of_another_place_sends_changes_nothing(at, person):
    context, _ = person
    page = context.new_page()
    how = """{method: "POST", mode: "no-cors", body: '{"name": "evil"}'}"""
    assert page.evaluate(f"at => fetch(at + 'api/classes', {how}).catch(e => e.name)", at) == "TypeError"
    page.goto(at)
    page.get_by_label("Name of a new class").fill("good")
    page.keyboard.press("Enter")
    page.locator("[data-key=good]").wait_for()
    assert [row["name"] for row in status(at)["classes"]] == ["good"]


def test_a_file_that_is_no_picture_and_one_that_is_too_large_are_named_and_the_rest_kept(at, person, films):
    fill(at, "oak", [])
    context, _ = person
    page = context.new_page()
    page.goto(at)
    files = [
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no picture"},
        {"name": "large.jpg", "mimeType": "image/jpeg", "buffer": b"\xff\xd8" + bytes(26_000_000)},
        {"name": "leaf.jpg", "mimeType": "image/jpeg", "buffer": as_jpeg(films["oak"][0])},
    ]
    page.get_by_label("Add files to oak").set_input_files(files)
    alert = page.get_by_role("alert").filter(has_text="2 files were not added")
    alert.wait_for()
    said = alert.inner_text()
    assert "notes.txt (This is no picture" in said and "large.jpg (Pictures may have 25 MB" in said
    assert status(at)["classes"][0]["count"] == 1


def test_the_camera_of_the_device_is_shown_recorded_and_recognised_without_one_in_the_browser(
    tmp_path, films
):
    eye = tmp_path / "eye"
    eye.mkdir()
    names = ("oak", "fern")
    with program(tmp_path / "project", "--camera", eye) as (_, at), chromium() as browser:
        for name in names:
            fill(at, name, films[name][:8])
        post(f"{at}api/learn")
        look(eye, films["oak"][9])
        page = browser.new_context(locale="en-GB").new_page()
        page.set_default_timeout(60_000)
        page.goto(at)
        until(page, lambda: page.locator("#stream").evaluate("e => e.naturalWidth") == 320)
        assert page.get_by_label("Which camera").input_value() == "folder"
        page.locator("[data-key=oak] .record").click()
        page.get_by_text("1 picture added to oak").wait_for()
        page.goto(f"{at}#live")
        for name in (*names, "oak"):
            look(eye, films[name][10])
            page.locator("#name", has_text=name).wait_for()
        image = page.locator("#history img").first
        image.wait_for()
        assert image.evaluate("e => e.decode().then(() => e.naturalWidth)") > 0


def look(eye, image) -> None:
    """The camera that writes to the folder `eye` sees this."""
    (eye / "new").write_bytes(as_jpeg(image))
    (eye / "new").rename(eye / f"{len(list(eye.iterdir()))}.jpg")


def test_a_sound_is_recorded_by_the_microphone_recognised_and_corrected(tmp_path):
    encoder = write_encoder(tmp_path / "net.safetensors")
    images = tmp_path / "project" / "images"
    write_clips(images, range(5), ("beep", "hiss"))
    with chromium() as browser, program(tmp_path / "project", "--backbone", encoder) as (_, at):
        page = browser.new_context(permissions=["microphone"], locale="en-GB").new_page()
        page.goto(f"{at}#collect")
        page.get_by_role("button", name="Record a clip of beep").click()
        page.get_by_text("1 example added to beep").wait_for()
        (clip,) = [parsed(path.read_bytes()) for path in (images / "beep").iterdir() if len(path.stem) == 16]
        assert clip.channels == 1 and len(clip.data) == 2 * math.ceil(HEARD * clip.rate)
        assert np.ptp(samples_of(clip)) > 0.01, "the browser beeps"
        page.goto(f"{at}#learn")
        page.get_by_role("button", name="Learn now").click()
        page.locator("#answer .figure").wait_for()
        page.goto(f"{at}#live")
        page.get_by_role("button", name="Record a clip").click()
        page.locator("#history button").wait_for()
        page.locator("#corrections").get_by_role("button", name="hiss").click()
        page.get_by_text("Learnt: that is hiss").wait_for()
        assert len(list((images / "hiss").iterdir())) == 6
