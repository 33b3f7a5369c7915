"""A page whose items are clips of sound or recordings of motion: from nothing to a corrected answer."""

import io

import numpy as np
import pytest
from cases import each
from PIL import Image
from serving import serving
from toyfiles import write_images
from watching import CLASSES
from waves import HEARD, clip, wav, write_clips, write_encoder

from tinytrain.base.errors import InputError
from tinytrain.episode.kinds import IMAGES, KINDS
from tinytrain.serve.project import Project
from tinytrain.serve.routes import TYPES
from tinytrain.serve.service import Service
from tinytrain.serve.settings import Settings


def shake(label, number):
    """A recording of motion of a class, as a CSV file."""
    rng, times = np.random.default_rng([label, number]), np.arange(96) / 50
    waves = np.sin(2 * np.pi * (1 + 3 * label) * times[:, None] + np.arange(3)) * (1, 1 + label, 0.5)
    rows = np.column_stack([times, waves + rng.normal(0, 0.1, waves.shape)])
    return ("time,x,y,z\n" + "\n".join(",".join(f"{x:.4f}" for x in row) for row in rows)).encode()


FILES = {"sound": lambda label, number: wav(clip(label, number)), "motion": shake}


@pytest.fixture(scope="module", params=FILES)
def taught(request, tmp_path_factory):
    """A server that has learnt items of another kind, all of them sent by HTTP to a new project."""
    root = tmp_path_factory.mktemp(request.param)
    backbone = write_encoder(root / "net.safetensors") if request.param == "sound" else None
    with serving(root / "p", backbone) as browser:
        browser.kind, browser.file = KINDS[request.param], FILES[request.param]
        for label, name in enumerate(CLASSES):
            browser.post("/api/classes", {"name": name})
            for number in range(5):
                browser.post(f"/api/classes/{name}/images", browser.file(label, number))
        with browser.events() as following:
            assert browser.ask("POST", "/api/learn")[0] == 202
            browser.learnt = following("learned")[1]
        yield browser


def test_they_are_collected_checked_learnt_recognised_and_corrected(taught):
    assert taught.learnt["state"] == "done", taught.learnt
    status = taught.status()
    assert status["kind"] == taught.kind.name and status["accept"] == ",".join(taught.kind.suffixes)
    assert {row["name"]: row["count"] for row in status["classes"]} == dict.fromkeys(CLASSES, 5)
    with taught.events() as following:
        check = following.status["check"]
        if check["state"] != "ready":
            check = following("check", lambda facts: facts["state"] in ("ready", "none"))[1]
    assert [of["images"] for of in check["result"]["by_class"]] == [5, 5, 5]
    assert taught.get("/api/learn")["bytes"] > 1000
    new = taught.file(1, 30)
    seen = taught.post("/api/predict", new)
    assert seen["scores"].keys() == {*CLASSES}
    taught.post("/api/correct", {"id": seen["id"], "class": "wasp", "new": True})
    assert taught.post("/api/predict", new)["best_guess"] == "wasp"
    kept = taught.service.project.classes()["wasp"]
    assert [image.path.suffix for image in kept] == [taught.kind.suffix(new)]
    assert taught.get(f"/api/images/{kept[0].id}") == taught.get(f"/api/seen/{seen['id']}") == new
    taught.post("/api/correct/undo")
    assert not taught.service.project.classes()["wasp"]
    taught.ask("DELETE", "/api/classes/wasp")


def test_what_they_look_like_is_shown_and_a_clip_can_be_heard(taught):
    seen = taught.post("/api/predict", taught.file(0, 31))
    number = taught.service.project.classes()["bee"][0].id
    for path in (f"/api/images/{number}", f"/api/seen/{seen['id']}"):
        status, picture, headers = taught.ask("GET", f"{path}/thumb")
        assert (status, headers["content-type"]) == (200, "image/jpeg")
        assert np.ptp(np.asarray(Image.open(io.BytesIO(picture)))) > 100, "something is to be seen"
        kind = {"sound": "audio/wav", "motion": "application/octet-stream"}[taught.kind.name]
        assert taught.ask("GET", path)[2]["content-type"] == kind
    assert {TYPES[suffix][:6] for suffix in KINDS["sound"].suffixes} == {"audio/"}


def test_what_is_none_of_them_is_refused_in_their_words(taught):
    for data in (b"hello there", (b"\xff\xd8\xff" + bytes(90))):
        status, facts, _ = taught.ask("POST", "/api/classes/bee/images", data)
        assert (status, facts["code"]) == (415, "image-unreadable")
        assert f"the {taught.kind.noun}" in facts["text"] and "image" not in facts["text"]
    status, facts, _ = taught.ask("POST", "/api/camera", {"source": "mjpeg", "address": "http://x/"})
    assert (status, facts["code"]) == (503, "camera-failed") and taught.kind.plural in facts["text"]


def test_what_is_learnt_can_be_taken_away_also_as_c(taught):
    assert taught.get("/api/take/delta")
    for what in ("images", "c"):
        assert taught.get(f"/api/take/{what}").startswith(b"PK")


def test_the_page_is_told_how_long_a_clip_is(taught):
    seconds = {"sound": HEARD, "motion": None}[taught.kind.name]
    assert taught.status()["clip"] == seconds


def test_clips_alone_are_enough_as_an_encoder_comes_with_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path / "cache"))
    write_clips(tmp_path / "p" / "images", range(1), CLASSES)
    with serving(tmp_path / "p") as browser:
        assert 1 < browser.status()["clip"] < 3


def test_the_usual_camera_is_left_when_the_first_file_is_a_clip(tmp_path):
    with serving(tmp_path / "p") as browser:
        browser.service.camera.use(str(tmp_path))
        browser.post("/api/classes", {"name": "ant"})
        assert browser.status()["camera"]["source"] == "folder"
        browser.post("/api/classes/ant/images", FILES["sound"](0, 0))
        assert browser.status()["camera"] == {"source": "browser", "state": "off", "text": ""}


def test_the_usual_camera_is_for_images_alone(tmp_path):
    write_clips(tmp_path / "words" / "images", range(1), CLASSES)
    for name, source in (("new", "folder"), ("words", "browser")):
        service = Service(Project(tmp_path / name), Settings(), usual=str(tmp_path))
        assert service.camera.source == source
        service.camera.end()


def test_an_array_that_came_without_a_name_gets_the_one_that_commands_read(tmp_path):
    project, held = Project(tmp_path / "p"), io.BytesIO()
    np.save(held, np.random.default_rng(0).normal(size=(64, 3)))
    project.add_class("ant")
    project.add("ant", held.getvalue())
    (image,) = project.classes()["ant"]
    assert image.path.suffix == ".npy" and np.load(image.path).shape == (64, 3)


def test_remarks_beside_other_files_are_none_of_them_and_texts_alone_are_what_a_project_has(tmp_path):
    write_clips(tmp_path / "p" / "images", range(1), CLASSES)
    for name in CLASSES:
        (tmp_path / "p" / "images" / name / "remark.txt").write_text("the newest file of its class")
    project = Project(tmp_path / "p")
    assert project.kind.name == "sound" and [len(of) for of in project.classes().values()] == [1, 1, 1]
    for clip_file in (tmp_path / "p").rglob("*.wav"):
        clip_file.unlink()
    assert project.kind.name == "text" and [len(of) for of in project.classes().values()] == [1, 1, 1]
    assert project.add("bee", b"one more")["kept"]


@each("name", ["image", *FILES])
def test_the_first_file_of_a_new_project_says_what_it_has(name, tmp_path):
    write_images(tmp_path / "photos", ("ant",), count=1)
    photo = next((tmp_path / "photos" / "ant").iterdir()).read_bytes()
    files = {"image": photo} | {kind: make(0, 0) for kind, make in FILES.items()}
    project = Project(tmp_path / name)
    assert project.known_kind is None and project.kind is IMAGES
    project.add_class("ant")
    assert project.add("ant", files[name])["kept"] and project.kind.name == name
    for other in files.keys() - {name}:
        with pytest.raises(InputError):
            project.add("ant", files[other])
    assert Project(tmp_path / name).kind.name == name
