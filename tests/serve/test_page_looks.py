"""The page of `tinytrain serve` by eye, finger, keyboard and reader, at three widths, in each language."""

import os
from pathlib import Path

import pytest
from cases import quick
from servedpage import AT, a_file, collected, empty, learning, learnt, until, verdict

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
CLIPS = {"kind": "sound", "accept": ".wav,.wave", "clip": 1.5}
LONG = ("a class with a rather long name", "Donaudampfschifffahrtsgesellschaft" * 2, "عربي עברית", "key")
SEEN = VIEWS | {
    "long names": ("collect", collected(LONG)),
    "long answers": ("live", learnt(LONG)),
    "long pairs": ("enough", collected(LONG)),
    "clips": ("collect", collected() | CLIPS),
    "a clip": ("live", learnt() | CLIPS),
}
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


def test_the_focus_stays_near_a_button_that_has_gone(opened):
    page, told = opened(learnt(), "learn")
    page.get_by_role("button", name="Learn again").press("Enter")
    told.status = told.status | {"learn": learning()["learn"]}
    page.get_by_role("button", name="Cancel").wait_for()
    until(page, lambda: page.evaluate("document.activeElement.closest('#learn') !== null"))


def test_the_focus_stays_near_a_name_that_was_typed(opened):
    page, told = opened(learnt(), "live")
    page.get_by_role("button", name="Something new").press("Enter")
    page.keyboard.type("pear")
    names = [*told.status["delta"]["classes"], "pear"]
    told.answers["POST /api/predict"] = 200, verdict("cup-3", "cup", names)
    page.locator("#bars", has_text="pear").wait_for()
    page.keyboard.press("Enter")
    page.locator("#corrections").get_by_role("button", name="pear").wait_for()
    assert '"class":"pear","new":true' in told.asked[-1][1]
    until(page, lambda: page.evaluate("document.activeElement.closest('#corrections') !== null"))


def test_names_of_classes_are_text_whatever_is_in_them(opened):
    hostile = ("<img src=x onerror=alert(1)>", '"><script>alert(2)</script>', "a/b ../c", "{name}")
    for view in ("collect", "enough", "learn", "live"):
        page, told = opened(learnt(hostile), view)
        page.get_by_text(hostile[0]).first.wait_for(state="attached")
        assert page.locator("main script, main img[src=x]").count() == 0 and not told.refused


def test_no_message_covers_the_way_on_or_what_is_done_next(opened):
    name = "leaves of the old oak in front of the house, as they fall in autumn"
    phone = {"viewport": {"width": 360, "height": 700}, "has_touch": True, "is_mobile": True}
    page, _ = opened(collected(("cup", name)), **phone)
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


def test_the_language_is_that_of_the_browser_until_another_is_chosen(opened):
    page, _ = opened(collected(), locale="de-AT")
    page.get_by_text("Was soll unterschieden werden?").wait_for()
    assert page.evaluate("document.documentElement.lang") == "de"
    page.get_by_label("Sprache").select_option("en")
    page.get_by_role("button", name="Delete the class cup").wait_for()
    page.reload()
    page.get_by_text("What should it tell apart?").wait_for()


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
