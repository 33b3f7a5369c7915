"""The page of `tinytrain serve` in Chromium: what it shows of a state, what it asks for, and who can use it.

The server only says what a test wants; `test_browser_with_server.py` has a real one. Skipped without
Playwright or Chromium.
"""

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed: pip install '.[browser]'")
from cases import quick
from servedpage import (
    AT,
    CHROMIUM,
    ELSEWHERE,
    chromium,
    collected,
    empty,
    learning,
    learnt,
    shown,
    until,
    verdict,
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
AXE = os.environ.get("TINYTRAIN_AXE")
VIEWS = {
    "nothing yet": ("collect", empty()),
    "collect": ("collect", collected()),
    "enough": ("enough", collected()),
    "not enough": ("enough", empty()),
    "learn": ("learn", collected()),
    "learning": ("learn", learning()),
    "answer": ("learn", learnt()),
    "live": ("live", learnt()),
    "take": ("take", learnt()),
}
LONG = ("a class with a rather long name", "Donaudampfschifffahrtsgesellschaft" * 2, "عربي עברית", "key")
# Runs in the page: what is too wide, cut, too small for a finger, or without a name.
MEASURE = """() => {
  const shown = e => e.checkVisibility({visibilityProperty: true}) && !e.closest(".unseen")
  const all = [...document.querySelectorAll("body *")].filter(shown)
  const box = e => e.getBoundingClientRect(), say = e => e.outerHTML.slice(0, 150)
  const controls = "button, select, nav a, a.button, label.button, input:not([type=file])"
  const used = all.filter(e => e.matches(controls)), labels = e => [...e.labels ?? []].map(l => l.textContent)
  const name = e => e.ariaLabel || e.title || e.innerText?.trim() || labels(e).join("")
  return {
    page: document.documentElement.scrollWidth,
    leaving: all.filter(e => box(e).right > innerWidth + .5 || box(e).left < -.5).map(say),
    cut: all.filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth && !e.matches("input, svg *")
      && getComputedStyle(e).overflow !== "visible").map(say),
    small: used.filter(e => box(e).height < 43.5 || box(e).width < 43.5).map(say),
    nameless: used.filter(e => !name(e)).map(say),
    untold: all.filter(e => /^[a-z_]+\\.[a-z_.]+$/.test(e.childNodes[0]?.nodeValue ?? "")).map(say),
  }
}"""


def a_file(name: str, kind: str) -> dict:
    return {"name": name, "mimeType": kind, "buffer": b"x"}


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser):
    """Opens a page that shows a view of a status; all of them are closed at the end."""
    open_ones = []

    def opened(status, view="collect", **more):
        context = shown(browser, status, view, **more)
        open_ones.append(context)
        return context.__enter__()

    yield opened
    for context in open_ones:
        context.__exit__(None, None, None)


SEEN = VIEWS | {
    "long names": ("collect", collected(LONG)),
    "long answers": ("live", learnt(LONG)),
    "long pairs": ("enough", collected(LONG)),
}


@pytest.mark.parametrize("width", quick([360, 768, 1280]))
@pytest.mark.parametrize("language", quick(["de-DE", "en-GB"]))
@pytest.mark.parametrize("name", SEEN)
def test_nothing_is_cut_too_wide_too_small_for_a_finger_or_without_a_name(opened, name, language, width):
    view, status = SEEN[name]
    page, told = opened(status, view, viewport={"width": width, "height": 800}, locale=language)
    found = page.evaluate(MEASURE)
    assert found.pop("page") <= width and not any(found.values()) and not told.refused, (found, told.refused)


def test_the_measure_sees_what_is_wrong(opened):
    """The oracle of the test above."""
    page, _ = opened(collected(), viewport={"width": 360, "height": 800})
    page.evaluate("""() => {
      const set = (which, style) => Object.assign(document.querySelector(which).style, style)
      set("#collect > p", {width: "900px"})
      set("#language", {minHeight: 0, height: "20px"})
      set(".card p", {width: "20px", overflow: "hidden", whiteSpace: "nowrap"})
      document.querySelector(".icon").ariaLabel = document.querySelector(".icon").textContent = ""
      document.querySelector("#collect > p").textContent = "class.none"
    }""")
    found = page.evaluate(MEASURE)
    assert found.pop("page") > 360 and all(found.values()), found


@pytest.mark.slow
@pytest.mark.skipif(not AXE, reason="TINYTRAIN_AXE names no axe.min.js: npm install axe-core")
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_axe_finds_nothing_serious(opened, name, colours):
    view, status = VIEWS[name]
    page, _ = opened(status, view, color_scheme=colours, bypass_csp=True)
    page.evaluate(Path(AXE).read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["nodes"][0]["html"], v["nodes"][0]["failureSummary"]) for v in serious]


def test_the_keyboard_alone_adds_a_class_records_it_and_goes_through_all_steps(opened):
    page, told = opened(collected())
    page.locator("#video").wait_for()
    page.get_by_label("Name of a new class").focus()
    page.keyboard.type("pear")
    page.keyboard.press("Enter")
    page.locator("[data-key=cup] .record").focus()
    page.keyboard.down(" ")
    page.locator("#rolling").wait_for()
    page.wait_for_timeout(500)
    page.keyboard.up(" ")
    page.get_by_text("added to cup").wait_for()
    asked = [key for key, _ in told.asked]
    assert told.asked[0] == ("POST /api/classes", '{"name":"pear"}')
    assert asked.count("POST /api/classes/cup/images") >= 2
    seen = set()
    page.get_by_role("link", name="Collect").focus()
    for _ in range(80):
        page.keyboard.press("Tab")
        place = "e => e.closest('#steps, #camera, #classes, .onward, #new')?.id"
        here = f"[({place})(document.activeElement), getComputedStyle(document.activeElement).outlineStyle]"
        seen.add(tuple(page.evaluate(here)))
    places = {place for place, _ in seen} - {None}
    assert places == {"steps", "camera", "classes", "new", ""}
    assert not seen & {(place, "none") for place in places}
    for view in ("Enough?", "Learn", "Live", "Take away"):
        link = page.get_by_role("link", name=view).first
        link.focus()
        page.keyboard.press("Enter")
        until(page, lambda link=link: link.get_attribute("aria-current") == "step")
        until(page, lambda: page.evaluate("document.activeElement.id") == "main")


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


def test_names_of_classes_are_text_whatever_is_in_them(opened):
    hostile = ("<img src=x onerror=alert(1)>", '"><script>alert(2)</script>', "a/b ../c", "{name}")
    for view in ("collect", "enough", "learn", "live"):
        page, told = opened(learnt(hostile), view)
        page.get_by_text(hostile[0]).first.wait_for(state="attached")
        assert page.locator("main script, main img[src=x]").count() == 0 and not told.refused


def test_where_a_browser_lends_no_camera_this_is_said_and_other_ways_are_there(opened):
    page, told = opened(collected(), at=ELSEWHERE)
    page.get_by_text("At this address the browser does not lend its camera").wait_for()
    assert page.locator("#source option[value=browser]").is_disabled()
    page.get_by_label("Add files to cup").set_input_files(a_file("a.jpg", "image/jpeg"))
    page.get_by_text("1 picture added to cup").wait_for()
    page.get_by_label("Which camera").select_option("device")
    until(page, lambda: told.asked[-1] == ("POST /api/camera", '{"source":"device"}'))


def test_a_camera_that_is_lost_is_said_with_the_reason(opened):
    camera = {"source": "device", "state": "lost", "text": "no video device"}
    page, _ = opened(collected() | {"camera": camera})
    page.get_by_text("The camera is silent. It is tried again by itself. (no video device)").wait_for()


def test_the_camera_is_off_where_nothing_is_seen(opened):
    page, _ = opened(learnt())
    page.locator("#video").wait_for()
    page.get_by_role("link", name="Take away").first.click()
    until(page, lambda: page.evaluate("document.getElementById('video').srcObject === null"))


def test_what_is_corrected_is_the_picture_that_was_there_when_the_finger_came_down(opened):
    page, told = opened(learnt(), "live")
    page.locator("#name", has_text="cup").wait_for()
    chip = page.locator("#corrections").get_by_role("button", name="key")
    chip.hover()
    page.mouse.down()
    names = told.status["delta"]["classes"]
    told.answers["POST /api/predict"] = 200, verdict("phone-9", "phone", names)
    page.locator("#name", has_text="phone").wait_for()
    page.mouse.up()
    page.get_by_text("Learnt: that is key").wait_for()
    assert told.asked == [("POST /api/correct", '{"id":"cup-3","class":"key","new":false}')]


def test_a_correction_may_be_a_new_class_and_be_taken_back(opened):
    page, told = opened(learnt(), "live")
    page.get_by_role("button", name="Something new").click()
    page.get_by_label("Name of the new class").fill("pear")
    page.keyboard.press("Enter")
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.get_by_text("Taken back").wait_for()
    body = [body for key, body in told.asked if key == "POST /api/correct"]
    assert '"class":"pear","new":true' in body[0] and told.asked[-1] == ("POST /api/correct/undo", None)


def test_an_image_of_no_class_a_guess_and_a_drift_are_said(opened):
    status = learnt()
    status["live"] |= {"drift": "the images have changed"}
    page, told = opened(status, "live")
    names = status["delta"]["classes"]
    page.get_by_role("alert").get_by_text("The pictures have changed").wait_for()
    stranger = {"class": None, "verdict": "unknown"}
    told.answers["POST /api/predict"] = 200, verdict("a-1", "cup", names) | stranger
    page.locator("#says", has_text="None of these closest: cup").wait_for()
    told.answers["POST /api/predict"] = 200, verdict("a-2", "cup", names, verdict="uncertain")
    page.locator("#says", has_text="cup 94% sure, a guess").wait_for()


def test_of_verdicts_that_say_the_same_the_history_has_one_entry(opened):
    status = learnt(("cup", "key"))
    names = ["key", "cup", "cup", "key", "cup", "cup"]
    rows = [verdict(f"{name}-{k}", name, ("cup", "key")) for k, name in enumerate(names)]
    status["live"]["history"] = rows[:2]
    page, told = opened(status, "live", at=ELSEWHERE)
    told.events = [("verdict", row) for row in rows[2:]]
    until(page, lambda: page.locator("#history li").all_inner_texts() == ["cup", "key", "cup", "key"])


def test_what_is_new_is_tried_and_kept_or_not(opened):
    page, told = opened(learnt(), "learn")
    page.get_by_role("button", name="Keep it").click()
    page.get_by_text("Kept.").wait_for()
    page.get_by_role("button", name="Go back").click()
    page.get_by_text("Back to what was before.", exact=True).wait_for()
    assert [key for key, _ in told.asked] == ["POST /api/keep", "POST /api/back"]


def test_the_answer_says_what_is_right_how_often_and_what_was_refused(opened):
    page, _ = opened(learnt(), "learn")
    text = page.locator("#answer").inner_text()
    assert "93% of new pictures are named rightly" in text and "As it was\n55% (41% to 65%)" in text
    refused = learnt(accepted=False, kept="cosine", refused_why="labels do not fit the images")
    page, _ = opened(refused, "learn")
    page.get_by_text("What it learnt was not kept").wait_for()
    page.get_by_text("labels do not fit the images").wait_for()


def test_learning_shows_its_curve_and_can_be_cancelled(opened):
    page, told = opened(learning(), "learn")
    steps = [{"stage": "training", "done": k, "total": 9, "loss": 2 / k} for k in range(1, 9)]
    told.events = [("progress", step) for step in steps]
    page.get_by_text("Mistakes while practising, from 2 to 0.25").wait_for()
    page.get_by_role("button", name="Cancel").click()
    until(page, lambda: told.asked == [("DELETE /api/learn", None)])


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


def test_a_step_that_cannot_be_done_yet_leads_to_the_one_that_is_missing(opened):
    def ways(status, view):
        page, _ = opened(status, view)
        link = page.locator(f"#{view} .onward a")
        return link.inner_text(), link.get_attribute("href")

    one = empty()
    assert ways(one, "enough") == ways(one, "learn") == ways(one, "live") == ("First: Collect", "#collect")
    assert ways(collected(), "enough") == ("Next: Learn", "#learn")
    assert ways(collected(), "live") == ("First: Learn", "#learn")
    assert ways(learnt(), "learn") == ("Next: Live", "#live")


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


def test_where_no_camera_can_be_turned_on_to_record_says_what_else_can_be_done(opened):
    page, _ = opened(collected(), at=ELSEWHERE)
    page.locator("[data-key=cup] .record").click()
    page.get_by_role("alert").get_by_text("Use that of the device, or add photos").wait_for()


@pytest.mark.parametrize("hides", ["learn", "correct"])
def test_the_focus_stays_near_what_has_gone(opened, hides):
    page, told = opened(learnt(), "learn" if hides == "learn" else "live")
    if hides == "learn":
        page.get_by_role("button", name="Learn again").press("Enter")
        told.status = told.status | {"learn": learning()["learn"]}
        page.get_by_role("button", name="Cancel").wait_for()
    else:
        names = [*told.status["delta"]["classes"], "pear"]
        page.get_by_role("button", name="Something new").press("Enter")
        page.keyboard.type("pear")
        told.answers["POST /api/predict"] = 200, verdict("cup-3", "cup", names)
        page.locator("#bars", has_text="pear").wait_for()
        page.keyboard.press("Enter")
        page.locator("#corrections").get_by_role("button", name="pear").wait_for()
        assert '"class":"pear","new":true' in told.asked[-1][1]
    view = "learn" if hides == "learn" else "corrections"
    until(page, lambda: page.evaluate(f"document.activeElement.closest('#{view}') !== null"))


def test_without_a_picture_nothing_can_be_corrected(opened):
    page, _ = opened(learnt() | {"trial": False}, "live", at=ELSEWHERE)
    page.get_by_text("Waiting for a picture").wait_for()
    assert not page.get_by_role("button", name="Something new").is_visible()
    page.get_by_label("Try a picture").set_input_files(a_file("a.jpg", "image/jpeg"))
    page.get_by_role("button", name="Something new").wait_for()


def test_no_message_covers_the_way_on_or_what_is_done_next(opened):
    name, phone = (
        "leaves of the old oak in front of the house, as they fall in autumn",
        {"has_touch": True, "is_mobile": True},
    )
    page, _ = opened(collected(("cup", name)), viewport={"width": 360, "height": 700}, **phone)
    page.get_by_label(f"Add files to {name}").set_input_files(a_file("a.png", "image/png"))
    page.get_by_text(f"1 picture added to {name}").wait_for()
    page.evaluate("scrollTo({top: 99999, behavior: 'instant'})")
    link, toast = page.locator("#collect .onward a"), page.locator(".toast")
    assert link.bounding_box()["y"] + link.bounding_box()["height"] < toast.bounding_box()["y"]
    assert not page.get_by_text("Drop pictures on a class").is_visible()
    toast.hover()  # or it would go by itself
    page.get_by_label("Name of a new class").fill("pear")
    page.keyboard.press("Enter")
    toast.wait_for(state="detached")


def test_what_is_enough_asks_for_no_more(opened):
    status = collected()
    status["check"]["result"] |= {"five_more": {"images": 5, "gain": 0.0, "low": 0.0, "high": 0.0}}
    status["check"]["result"]["next_class"] |= {"errors": 0, "like": None}
    page, _ = opened(status, "enough")
    page.get_by_text("More pictures of the same kind would hardly help. Let it learn.").wait_for()
    assert not page.get_by_text("More pictures of phone").count()


def test_files_that_are_no_pictures_are_named(opened):
    page, told = opened(collected())
    told.answers["POST /api/classes/cup/images"] = 415, {"code": "image-unreadable", "text": "x"}
    page.get_by_label("Add files to cup").set_input_files(a_file("a.txt", "text/plain"))
    page.get_by_role("alert").get_by_text("1 file was not added: a.txt (This is no picture").wait_for()


def test_a_device_that_is_silent_and_a_link_that_is_too_old_are_said(opened):
    page, told = opened(collected())
    told.answers["GET /api/events"] = told.answers["GET /api/status"] = 401, {"code": "token", "text": "x"}
    page.get_by_text("This link is not valid any more").wait_for()
    page, told = opened(collected())
    told.answers["GET /api/events"] = 503, {"code": "busy", "text": "x"}
    page.get_by_text("The device does not answer").wait_for()
    del told.answers["GET /api/events"]
    page.get_by_text("The device does not answer").wait_for(state="hidden")


def test_the_language_is_that_of_the_browser_until_another_is_chosen(opened):
    page, _ = opened(collected(), locale="de-AT")
    page.get_by_text("Was soll unterschieden werden?").wait_for()
    assert page.evaluate("document.documentElement.lang") == "de"
    page.get_by_label("Sprache").select_option("en")
    page.get_by_role("button", name="Delete the class cup").wait_for()
    page.reload()
    page.get_by_text("What should it tell apart?").wait_for()


def test_lines_are_copied_over_plain_http_too(opened):
    page, _ = opened(learnt(), "take", at=ELSEWHERE)
    page.evaluate("addEventListener('copy', () => { document.body.title = document.activeElement.value })")
    page.get_by_role("button", name=re.compile("Copy the line: tinytrain emit")).click()
    assert page.evaluate("document.body.title") == "tinytrain emit my-things/state -o c/"


def test_who_wants_less_motion_gets_none(opened):
    still = "e => getComputedStyle(e).transitionDuration === '0s'"
    moving = f"[...document.querySelectorAll('*')].filter(e => !({still})(e)).length"
    assert opened(learnt(), "live")[0].evaluate(moving) > 0
    assert opened(learnt(), "live", reduced_motion="reduce")[0].evaluate(moving) == 0


def test_nothing_comes_from_elsewhere(opened):
    page, told = opened(learnt(), "live")
    page.locator("#name", has_text="cup").wait_for()
    loaded = page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert len(loaded) > 5 and all(name.startswith(AT) for name in loaded) and not told.refused
