"""From no image to a live classifier that is corrected, over HTTP, and what others see of it."""

import shutil

import pytest
from serving import Browser, serving

from tinytrain.base.errors import InputError
from tinytrain.base.events import Note
from tinytrain.serve.history import PASSING, SEEN, History
from tinytrain.serve.live import Live
from tinytrain.serve.project import Project
from tinytrain.store import Store
from tinytrain.stream.events import Verdict
from tinytrain.stream.readers import Reader
from tinytrain.stream.session import About


@pytest.fixture(scope="module")
def learnt(place, tmp_path_factory):
    """A server whose project has learnt its images once."""
    with serving(tmp_path_factory.mktemp("p") / "bugs", place / "toy.safetensors") as browser:
        browser.fill(place / "photos")
        learn(browser)
        yield browser


def learn(browser):
    with browser.events() as following:
        assert browser.ask("POST", "/api/learn")[0] == 202
        return following("learned")[1]


def test_the_page_is_served_with_its_style_and_scripts(learnt):
    assert b"<!doctype html>" in learnt.get("/")[:100].lower()
    for name in ("page.css", "page.js", "words.js"):
        assert learnt.ask("GET", f"/{name}")[0] == 200


def test_images_become_a_classifier_that_is_corrected_in_the_next_answer(learnt, photo):
    status = learnt.status()
    assert {c["name"]: c["count"] for c in status["classes"]} == {"ant": 5, "bee": 5, "cat": 5}
    assert status["live"]["running"] and not status["trial"]
    assert status["learn"]["answer"]["kept"] in ("adapted", "head", "cosine")
    assert 0 < len(status["learn"]["answer"]["lines"]) <= 8
    seen = learnt.post("/api/predict", photo("bee"))
    assert seen["best_guess"] in ("ant", "bee", "cat")
    assert sum(seen["scores"].values()) == pytest.approx(1, abs=1e-5)
    learnt.post("/api/correct", {"id": seen["id"], "class": "wasp", "new": True})
    again = learnt.post("/api/predict", photo("bee"))
    assert again["best_guess"] == "wasp"
    classes = {c["name"]: c["count"] for c in learnt.status()["classes"]}
    assert classes["wasp"] == 1, "what was corrected is an image of its class, for the next learning"
    learnt.post("/api/correct/undo")
    assert learnt.post("/api/predict", photo("bee"))["scores"] == seen["scores"]
    assert {c["name"]: c["count"] for c in learnt.status()["classes"]}["wasp"] == 0
    learnt.ask("DELETE", "/api/classes/wasp")


def test_a_second_correction_of_an_image_moves_it_to_the_other_class(learnt, photo):
    seen = learnt.post("/api/predict", photo("ant", 1))
    for name in ("cat", "bee", "bee"):
        learnt.post("/api/correct", {"id": seen["id"], "class": name})
    counts = {c["name"]: c["count"] for c in learnt.status()["classes"]}
    assert (counts["cat"], counts["bee"]) == (5, 6)
    learnt.post("/api/correct/undo")
    learnt.post("/api/correct/undo")
    assert {c["name"]: c["count"] for c in learnt.status()["classes"]}["bee"] == 5


def test_an_unknown_class_and_an_image_that_is_forgotten_are_refused_in_words(learnt, photo):
    seen = learnt.post("/api/predict", photo("ant"))
    status, facts, _ = learnt.ask("POST", "/api/correct", {"id": seen["id"], "class": "gnu"})
    assert (status, facts["code"]) == (404, "unknown-class") and "gnu" in facts["text"]
    status, facts, _ = learnt.ask("POST", "/api/correct", {"id": "0" * 16, "class": "ant"})
    assert (status, facts["code"]) == (404, "file-missing")


def test_two_browsers_hear_the_same_and_one_that_leaves_harms_nothing(learnt, photo):
    other = Browser(learnt.port)
    with learnt.events() as first, other.events() as second:
        assert first.status["project"] == second.status["project"] == "bugs"
        with other.events():
            pass
        learnt.post("/api/classes", {"name": "eel"})
        told = [following("classes")[1] for following in (first, second)]
        assert told[0] == told[1] and "eel" in [c["name"] for c in told[0]["classes"]]
        learnt.ask("DELETE", "/api/classes/eel")
        learnt.post("/api/predict", photo("cat"))
        assert first("verdict") == second("verdict")


def test_the_check_says_what_it_finds_of_each_class_after_a_change(learnt, photo):
    with learnt.events() as following:
        learnt.post("/api/classes/ant/images", photo("ant", 2))
        _, check = following("check", lambda facts: facts["state"] == "ready")
        found = check["result"]
        assert {of["name"]: of["images"] for of in found["by_class"]} == {"ant": 6, "bee": 5, "cat": 5}
        assert found["shots"] == [6, 5, 5]
        learnt.post("/api/undo")
        assert following("check")[1] == {"state": "waiting", "result": found}, "until there is more"
        assert following("check", lambda facts: facts["state"] == "ready")[1]["result"]["shots"] == [5, 5, 5]
    expected = learnt.get("/api/learn")
    assert expected["seconds"] > 0 and expected["bytes"] > 1000


def test_what_is_learnt_again_is_on_trial_and_kept_or_not(place, tmp_path, photo):
    project = tmp_path / "bugs"
    with serving(project, place / "toy.safetensors") as browser:
        browser.fill(place / "photos")
        assert learn(browser)["state"] == "done"
        first = browser.status()["delta"]["sha256"]
        seen = browser.post("/api/predict", photo("ant"))
        browser.post("/api/correct", {"id": seen["id"], "class": "dog", "new": True})
        assert learn(browser)["state"] == "done"
        status = browser.status()
        assert status["trial"] and "dog" in status["delta"]["classes"]
        assert not browser.post("/api/back")["trial"]
        assert browser.status()["delta"]["sha256"] == first
        learn(browser)
        kept = browser.post("/api/keep")
        assert not kept["trial"] and "dog" in kept["delta"]["classes"]
        assert browser.ask("GET", kept["learn"]["answer"]["report_url"])[0] == 200
    with serving(project, place / "toy.safetensors") as browser:
        assert browser.status()["delta"] == kept["delta"], "a restart goes on with it"
        assert browser.post("/api/predict", photo("bee"))["scores"].keys() == {"ant", "bee", "cat", "dog"}


def test_only_one_learns_at_a_time_and_can_be_cancelled(place, tmp_path):
    with serving(tmp_path / "p", place / "toy.safetensors") as browser:
        browser.fill(place / "photos")
        with browser.events() as following:
            browser.post("/api/learn")
            status, facts, _ = browser.ask("POST", "/api/learn")
            assert (status, facts["code"]) == (409, "busy")
            assert browser.ask("DELETE", "/api/learn")[0] == 202
            assert following("learned")[1]["state"] == "cancelled"
        assert browser.ask("DELETE", "/api/learn")[0] == 409
        assert not browser.status()["live"]["running"] and not (tmp_path / "p" / "state").exists()
        assert learn(browser)["state"] == "done"


def test_what_cannot_be_learnt_says_why(place, tmp_path):
    with serving(tmp_path / "p", place / "toy.safetensors") as browser:
        refused = browser.post("/api/predict", b"")
        assert refused["code"] == "camera-failed" and refused["text"].endswith("it is off; send an image")
        assert browser.post("/api/keep")["code"] == "store-missing"
        browser.post("/api/classes", {"name": "ant"})
        error = learn(browser)["error"]
        assert error["code"] == "too-few-images" and "'ant'" in error["text"]
        with browser.events() as following:
            browser.post("/api/classes", {"name": "bee"})
            check = following("check", lambda facts: facts["state"] == "none")[1]
        assert "0 usable images" in check["text"]


def test_what_commands_do_in_the_folder_is_seen(place, tmp_path):
    project = tmp_path / "p"
    with serving(project, place / "toy.safetensors") as browser:
        browser.fill(place / "photos")
        learn(browser)
        with browser.events() as following:
            shutil.copytree(place / "new" / "ant", project / "images" / "dog")
            classes = following("classes")[1]["classes"]
            assert {c["name"]: c["count"] for c in classes}["dog"] == 3
            store = Store(project / "state")
            store.commit(store.peek().delta)
            assert following("status", lambda facts: facts["delta"]["generation"] == 2)[1]["trial"]
            store.confirm()
            assert not following("status")[1]["trial"]


def test_why_a_delta_that_is_there_gives_no_verdicts_is_said(learnt, tmp_path, monkeypatch):
    shutil.copytree(learnt.service.project.path, tmp_path / "p")
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))  # in which its network is not known
    facts = Live(Project(tmp_path / "p"), lambda *_: None).facts()
    assert facts["delta"] is None and facts["live"]["text"].endswith("with --backbone FILE")
    assert Live(Project(tmp_path / "new"), lambda *_: None).facts()["live"]["text"] is None


def test_corrections_while_the_network_learns_are_known_afterwards(place, tmp_path, photo):
    with serving(tmp_path / "p", place / "toy.safetensors") as browser:
        browser.fill(place / "photos")
        learn(browser)
        with browser.events() as following:
            browser.post("/api/learn")
            following("progress", lambda facts: facts.get("stage") == "images")
            seen = browser.post("/api/predict", photo("cat"))
            browser.post("/api/correct", {"id": seen["id"], "class": "dog", "new": True})
            following("learned")
        assert "dog" in browser.status()["delta"]["classes"]
        assert browser.post("/api/predict", photo("cat"))["best_guess"] == "dog"


def test_history_has_what_was_seen_and_what_it_was_corrected_to(learnt, photo):
    seen = learnt.post("/api/predict", photo("cat", 2))
    with learnt.events() as following:
        again = learnt.post("/api/predict", photo("cat", 2))
        learnt.post("/api/predict", photo("cat", 1))
        assert following("verdict")[1]["id"] != seen["id"], "the same image again is no other verdict"
    assert again == seen and learnt.get(f"/api/seen/{seen['id']}") == photo("cat", 2)
    learnt.post("/api/correct", {"id": seen["id"], "class": "bee"})
    rows = {row["id"]: row["corrected"] for row in learnt.status()["live"]["history"]}
    assert rows[seen["id"]] == "bee"
    learnt.post("/api/correct/undo")


def test_others_hear_what_browsers_hear_and_their_words_are_learnt(place, tmp_path, photo):
    class Other(Reader):
        heard, said = [], [About(None, word) for word in ("+dog", "nothing", "undo", "+dog")]

        def __call__(self, event):
            self.heard.append(event)

        def between(self):
            return [Note("something of its own")]

        def words(self):
            return [self.said.pop(0)] if self.said and any(isinstance(e, Verdict) for e in self.heard) else ()

    folder = tmp_path / "camera"
    folder.mkdir()
    with serving(tmp_path / "p", place / "toy.safetensors", str(folder), [Other()]) as browser:
        browser.fill(place / "photos")
        learn(browser)
        with browser.events() as following:
            (folder / "new.png").write_bytes(photo("bee"))  # no browser asks for a verdict on it
            seen = following("verdict")[1]
            assert following("correction")[1]["class"] == "dog"
            assert following("correction")[1]["event"] == "undo"
            assert following("correction")[1]["id"] == seen["id"]
            assert following("note")[1]["text"] == "something of its own"
        kinds = [type(event).__name__ for event in Other.heard]
        told = [kind for kind in kinds if kind != "Verdict"]
        assert told[:4] == ["Readapted", "Learned", "Failed", "TakenBack"]
        metrics = browser.get("/metrics").decode()
    assert "tinytrain_corrections_total 2\n" in metrics
    assert 'tinytrain_errors_total{code="unknown-class"} 1' in metrics


def test_a_correction_is_of_the_image_that_it_names_although_others_say_the_same(learnt, photo):
    seen = [learnt.post("/api/predict", photo("bee", number))["id"] for number in range(3)]
    rows = [row["id"] for row in learnt.status()["live"]["history"]]
    joined = [key for key in seen if key not in rows] or seen
    learnt.post("/api/correct", {"id": joined[0], "class": "ant"})
    assert learnt.get(f"/api/seen/{joined[0]}") == photo("bee", seen.index(joined[0]))
    held = {image.path.stem for image in learnt.service.project.classes()["ant"]}
    assert joined[0] in held
    learnt.post("/api/correct/undo")


def test_what_a_camera_shows_for_long_is_one_row_of_the_history_and_its_last_image_can_be_corrected():
    history = History()

    def seen(key, name):
        history.add({"id": key, "class": name, "verdict": "identified", "best_guess": name}, key.encode())

    for key, name in (("a", "ant"), ("b", "ant"), ("c", "ant"), ("d", "bee")):
        seen(key, name)
    assert [row["id"] for row in history.rows()] == ["a", "d"]
    seen("e", "bee")
    assert [history.find(key).data for key in "abe"] == [b"a", b"b", b"e"], "each image is itself"
    history.corrected("e", "cat")
    rows = [(row["id"], row["corrected"]) for row in history.rows()]
    assert rows == [("a", None), ("d", None), ("e", "cat")]
    for number in range(PASSING):
        seen(f"{number}", f"class {number}")
    assert len(history.rows()) == SEEN and history.rows()[-1]["id"] == f"{PASSING - 1}"
    with pytest.raises(InputError, match="none of the last"):
        history.find("a")
