"""Pictures and cameras on the page of `tinytrain serve`: what is recorded, chosen, moved and refused."""

import pytest
from servedpage import AT, ELSEWHERE, a_file, collected, empty, learnt, until


def test_a_short_press_takes_one_picture(opened):
    page, told = opened(collected())
    page.locator("#video").wait_for()
    page.locator("[data-key=cup] .record").click()
    page.get_by_text("1 picture added to cup").wait_for()
    assert [key for key, _ in told.asked] == ["POST /api/classes/cup/images"]


def test_a_picture_is_moved_and_deleted_in_a_dialog_that_gives_the_focus_back(opened):
    page, told = opened(collected())
    picture = page.get_by_role("button", name="Picture 20 of cup")
    picture.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="phone").click()
    page.get_by_text("Picture moved to phone").wait_for()
    picture.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.ariaLabel") == "Picture 20 of cup"
    picture.press("Enter")
    page.get_by_role("button", name="Delete this picture").click()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.get_by_text("Taken back").wait_for()
    assert told.asked == [
        ("PATCH /api/images/cup-20", '{"class":"phone"}'),
        ("DELETE /api/images/cup-20", None),
        ("POST /api/undo", None),
    ]


def test_pictures_that_came_together_are_taken_back_together_and_end_what_was_said_before(opened):
    page, told = opened(collected())
    page.get_by_label("Name of a new class").fill("cup")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("There is a class cup already").wait_for()
    page.get_by_label("Add files to cup").set_input_files([a_file(f"{k}.png", "image/png") for k in "ab"])
    page.get_by_text("2 pictures added to cup").wait_for()
    assert not page.locator("[role=alert] .toast").count()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.get_by_text("Taken back").wait_for()
    assert told.asked[-1] == ("POST /api/undo", None)


def test_files_that_are_no_pictures_or_too_large_are_named(opened):
    page, told = opened(collected())
    told.answers["POST /api/classes/cup/images"] = 415, {"code": "image-unreadable", "text": "x"}
    page.get_by_label("Add files to cup").set_input_files(a_file("a.txt", "text/plain"))
    page.get_by_role("alert").get_by_text("1 file was not added: a.txt (This is no picture").wait_for()
    told.answers["POST /api/classes/cup/images"] = 413, {}
    page.get_by_label("Add files to cup").set_input_files(a_file("a.jpg", "image/jpeg"))
    page.get_by_role("alert").get_by_text("1 file was not added: a.jpg (Pictures may have 25 MB").wait_for()


def test_a_name_that_is_taken_is_said_and_what_was_typed_stays(opened):
    page, told = opened(collected())
    name = page.get_by_label("Name of a new class")
    name.fill("something else")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("There is a class something else already").wait_for()
    title = page.locator("[data-key=cup]").get_by_label("Name of the class")
    title.fill("key")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("There is a class key already").wait_for()
    assert (name.input_value(), title.input_value(), told.asked) == ("something else", "cup", [])


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (409, "class-names", "This name is taken"),
        (409, "busy", "The device is busy"),
        (500, "odd", "own words"),
    ],
)
def test_a_refusal_is_said_aloud(opened, status, code, words):
    page, told = opened(empty())
    told.answers["POST /api/classes"] = status, {"code": code, "text": "own words"}
    page.get_by_label("Name of a new class").fill("cup")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text(words).wait_for()


def test_where_a_browser_lends_no_camera_this_is_said_and_other_ways_are_there(opened):
    page, told = opened(collected(), at=ELSEWHERE)
    page.get_by_text("At this address the browser does not lend its camera").wait_for()
    assert page.locator("#source option[value=browser]").is_disabled()
    page.get_by_label("Add files to cup").set_input_files(a_file("a.jpg", "image/jpeg"))
    page.get_by_text("1 picture added to cup").wait_for()
    page.get_by_label("Which camera").select_option("device")
    until(page, lambda: told.asked[-1] == ("POST /api/camera", '{"source":"device"}'))


def test_where_no_camera_can_be_turned_on_to_record_says_what_else_can_be_done(opened):
    page, _ = opened(collected(), at=ELSEWHERE)
    page.locator("[data-key=cup] .record").click()
    page.get_by_role("alert").get_by_text("Use that of the device, or add photos").wait_for()


def test_a_camera_that_is_lost_is_said_with_the_reason(opened):
    camera = {"source": "device", "state": "lost", "text": "no video device"}
    page, _ = opened(collected() | {"camera": camera})
    page.get_by_text("The camera is silent. It is tried again by itself. (no video device)").wait_for()


def test_a_camera_that_cannot_be_used_is_not_chosen_and_one_that_is_off_can_be_turned_on(opened):
    page, told = opened(collected())
    page.locator("#video").wait_for()
    told.answers["POST /api/camera"] = 400, {"code": "camera-failed", "text": "none is known here"}
    page.get_by_label("Which camera").focus()
    page.get_by_label("Which camera").select_option("device")
    page.get_by_role("alert").get_by_text("none is known here").wait_for()
    until(page, lambda: page.get_by_label("Which camera").input_value() == "browser")
    page.get_by_label("Which camera").select_option("none")
    page.get_by_role("button", name="Turn the camera on").click()
    page.locator("#video").wait_for()


def test_the_camera_is_off_where_nothing_is_seen(opened):
    page, _ = opened(learnt())
    page.locator("#video").wait_for()
    page.get_by_role("link", name="Take away").first.click()
    until(page, lambda: page.evaluate("document.getElementById('video').srcObject === null"))


def test_a_project_of_sounds_speaks_of_examples_and_records_no_pictures(opened):
    sounds = {"kind": "sound", "accept": ".wav,.wave", "clip": 0.5}
    page, told = opened(learnt() | sounds, "live")
    page.get_by_label("Try an example").wait_for()
    assert not page.locator("#camera").is_visible() and page.locator("#hear").is_visible()
    page.locator("#history button").first.click()
    assert page.locator("#picture-image").get_attribute("src").endswith("/thumb")
    assert page.locator("#picture-sound").get_attribute("src").startswith("/api/seen/")
    page.keyboard.press("Escape")
    for view in ("collect", "enough", "learn", "take"):
        page.goto(f"{AT}/#{view}")
        assert "picture" not in page.locator(f"#{view}").inner_text().lower(), view
    page.goto(f"{AT}/#collect")
    assert page.get_by_label("Add files to cup").get_attribute("accept") == ".wav,.wave"
    page.get_by_role("button", name="Record a clip of cup").wait_for()
    told.status = learnt() | sounds | {"kind": "motion", "clip": None}
    page.get_by_role("button", name="Record").first.wait_for(state="detached")
    assert page.get_by_label("Add files to cup").count() and not told.refused
