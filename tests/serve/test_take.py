"""What can be taken away: files that other programs read, and a command line for each."""

import io
import os
import shlex
import zipfile
from pathlib import Path

import pytest
from serving import serving

from tinytrain.delta.file import load_delta
from tinytrain.serve import certificate as module
from tinytrain.serve import take
from tinytrain.serve.certificate import certificate
from tinytrain.serve.project import Project


@pytest.fixture(scope="module")
def learnt(place, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("take") / "my bugs", place / "toy.safetensors") as browser:
        browser.fill(place / "photos")
        with browser.events() as following:
            browser.post("/api/learn")
            following("learned")
        yield browser


def test_the_delta_is_the_one_in_use(learnt, tmp_path):
    status, data, headers = learnt.ask("GET", "/api/take/delta")
    assert status == 200 and headers["content-disposition"] == 'attachment; filename="mine.delta"'
    (tmp_path / "mine.delta").write_bytes(data)
    assert load_delta(tmp_path / "mine.delta").class_names == ("ant", "bee", "cat")


def test_images_come_as_a_zip_file_with_a_folder_for_each_class(learnt, place):
    with zipfile.ZipFile(io.BytesIO(learnt.get("/api/take/images"))) as archive:
        assert archive.testzip() is None
        held = {name: archive.read(name) for name in archive.namelist()}
    assert {os.path.dirname(name) for name in held} == {"images/ant", "images/bee", "images/cat"}
    assert sorted(held.values()) == sorted(path.read_bytes() for path in (place / "photos").glob("*/*"))


def test_an_image_whose_name_is_no_utf_8_is_in_the_zip_file(tmp_path):
    project = Project(tmp_path / "p")
    project.add_class("ant")
    (project.images / "ant" / "caf\udce9.png").write_bytes(b"data")
    with zipfile.ZipFile(io.BytesIO(b"".join(take.images(project)))) as archive:
        assert archive.namelist() == ["images/ant/caf\\xe9.png"]


def test_other_programs_get_files_that_they_read(learnt):
    onnx = pytest.importorskip("onnx")
    model = onnx.load_from_string(learnt.get("/api/take/onnx"))
    onnx.checker.check_model(model)
    assert learnt.get("/api/take/tflite")[4:8] == b"TFL3"


@pytest.mark.slow
def test_the_c_library_comes_as_a_zip_file(place, tmp_path):
    with serving(tmp_path / "p") as browser:  # the usual network
        browser.fill(place / "photos")
        status, data, _ = browser.ask("GET", "/api/take/c")
    assert status == 200
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert "firmware/CMakeLists.txt" in archive.namelist()
    assert not list((tmp_path / "p").glob(".take-*"))


def test_what_is_not_there_is_refused_in_words(place, tmp_path):
    with serving(tmp_path / "p", place / "toy.safetensors") as browser:
        status, facts, _ = browser.ask("GET", "/api/take/delta")
        assert status == 409 and facts["code"] == "store-missing"
        status, facts, _ = browser.ask("GET", "/api/take/gold")
        assert status == 404 and "onnx" in facts["text"]


def test_each_has_a_line_to_type(learnt):
    lines = {row["what"]: row["line"] for row in learnt.status()["take"]}
    assert lines.keys() == {"delta", "onnx", "tflite", "c", "images"}
    assert shlex.split(lines["delta"])[:2] == ["tinytrain", "export"] and "my bugs/state" in lines["delta"]
    words, backbone = shlex.split(lines["c"]), learnt.service.settings.backbone
    assert words[:2] == ["tinytrain", "emit"] and words[words.index("--backbone") + 1] == backbone


def test_a_certificate_is_made_once_and_again_for_another_name_or_when_it_is_old(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.setenv("TINYTRAIN_CACHE", str(tmp_path))
    pair = certificate(("127.0.0.1", "192.168.1.7"), frozenset({"pi.local"}))
    first, key = (Path(path).read_bytes() for path in pair)
    assert os.stat(pair[1]).st_mode & 0o077 == 0 and b"PRIVATE KEY" in key
    assert certificate(("127.0.0.1",), frozenset({"pi.local"})) == pair
    assert Path(pair[0]).read_bytes() == first
    certificate(("127.0.0.1",), frozenset({"zero.local"}))
    second = Path(pair[0]).read_bytes()
    assert second != first
    monkeypatch.setattr(module, "LEFT", 400)
    certificate(("127.0.0.1",), frozenset({"zero.local"}))
    assert Path(pair[0]).read_bytes() != second
