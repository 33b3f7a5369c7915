"""What the page of `tinytrain serve` says of what is enough, learnt and seen, and how that is corrected."""

import re

from servedpage import ELSEWHERE, a_file, collected, empty, learning, learnt, until, verdict


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


def test_why_what_was_learnt_gives_no_answers_is_said(opened):
    status = collected()
    status["live"] |= {"text": "the network is not there"}
    page, _ = opened(status, "live", at=ELSEWHERE)
    page.get_by_text("the network is not there").wait_for()
    assert not page.get_by_text("It has not learnt anything yet").is_visible()


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


def test_a_time_that_is_not_known_is_not_said(opened):
    page, told = opened(empty(), "learn")
    told.answers["GET /api/learn"] = 200, {"seconds": 8, "bytes": 10**6}
    told.status = collected()
    page.get_by_text(re.compile("This takes about 8 seconds and 1.MB of memory")).wait_for()
    told.answers["GET /api/learn"] = 200, {"seconds": None, "bytes": 10**6}
    told.events = [("check", told.status["check"])]  # which measures the time
    until(page, lambda: page.locator("#learn-before").inner_text() == "")


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


def test_without_a_picture_nothing_can_be_corrected(opened):
    page, _ = opened(learnt() | {"trial": False}, "live", at=ELSEWHERE)
    page.get_by_text("Waiting for a picture").wait_for()
    assert not page.get_by_role("button", name="Something new").is_visible()
    page.get_by_label("Try a picture").set_input_files(a_file("a.jpg", "image/jpeg"))
    page.get_by_role("button", name="Something new").wait_for()


def test_what_is_enough_asks_for_no_more(opened):
    status = collected()
    status["check"]["result"] |= {"five_more": {"images": 5, "gain": 0.0, "low": 0.0, "high": 0.0}}
    status["check"]["result"]["next_class"] |= {"errors": 0, "like": None}
    page, _ = opened(status, "enough")
    page.get_by_text("More pictures of the same kind would hardly help. Let it learn.").wait_for()
    assert not page.get_by_text("More pictures of phone").count()


def test_a_device_that_is_silent_and_a_link_that_is_too_old_are_said(opened):
    page, told = opened(collected())
    told.answers["GET /api/events"] = told.answers["GET /api/status"] = 401, {"code": "token", "text": "x"}
    page.get_by_text("This link is not valid any more").wait_for()
    page, told = opened(collected())
    told.answers["GET /api/events"] = 503, {"code": "busy", "text": "x"}
    page.get_by_text("The device does not answer").wait_for()
    del told.answers["GET /api/events"]
    page.get_by_text("The device does not answer").wait_for(state="hidden")


def test_lines_are_copied_over_plain_http_too(opened):
    page, _ = opened(learnt(), "take", at=ELSEWHERE)
    page.evaluate("addEventListener('copy', () => { document.body.title = document.activeElement.value })")
    page.get_by_role("button", name=re.compile("Copy the line: tinytrain emit")).click()
    assert page.evaluate("document.body.title") == "tinytrain emit my-things/state -o c/"
