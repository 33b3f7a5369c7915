"""The camera of the device: frames whatever lies between them, and it comes back whatever becomes of it."""

import contextlib
import io
import os
import shutil
import socket
import threading
import time

import numpy as np
import pytest
from PIL import Image
from serving import serving
from toyserver import toy_server

from tinytrain.base.errors import InputError
from tinytrain.serve import camera as module
from tinytrain.serve.camera import LOST, OK, Camera, command, shown, source_at

SECONDS = 60


def jpeg(seed, size=(32, 24)):
    held = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(held, "JPEG")
    return held.getvalue()


def part(frame):
    return b"--x\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(frame) + frame + b"\r\n"


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(module, "AGAIN", (0.05,))
    monkeypatch.setattr(module, "STALL", 0.5)


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(module, "STALL", 60.0)


@contextlib.contextmanager
def opened(address):
    """A camera, what it has told, and a function that waits for a frame or a state."""
    told = []
    camera = Camera(address, told.append)

    def wait(found):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if found(camera):
                return
            time.sleep(0.01)
        raise AssertionError(f"it is {camera.facts()}, and told {told}")

    try:
        yield camera, told, wait
    finally:
        camera.end()


def shows(frame):
    return lambda camera: camera.newest is not None and camera.newest[1] == frame


def is_state(state, text=""):
    return lambda camera: camera.facts()["state"] == state and text in camera.facts()["text"]


@pytest.fixture
def film():
    """A server of MJPEG: `pieces` are sent one after another, None waits for `go_on`; then it goes away."""
    with toy_server() as server:
        server.pieces, server.step = [], threading.Semaphore(0)

        def answer(handler):
            handler.send_response(200)
            handler.send_header("Content-Type", "multipart/x-mixed-replace; boundary=x")
            handler.end_headers()
            for piece in server.pieces:
                if piece is None:
                    server.step.acquire(timeout=SECONDS)
                else:
                    handler.wfile.write(piece)
                    handler.wfile.flush()

        server.answer = answer
        yield server
        for _ in range(20):
            server.step.release()


def test_frames_come_whole_and_the_newest_is_shown(film):
    small, large, cut = jpeg(1), jpeg(2, (320, 240)), jpeg(3)[:200]
    noise = b"\r\n\xff\xd8 no image \xff\xd9"
    film.pieces = [part(small)[:100], part(small)[100:], None, noise, part(cut), part(large), None]
    with opened(film.address) as (camera, told, wait):
        wait(shows(small))
        film.step.release()
        wait(shows(large))
        assert camera.facts() == {"source": "mjpeg", "state": OK, "text": ""}
        assert [facts["state"] for facts in told] == ["starting", "ok"]


@pytest.mark.slow
def test_a_camera_that_stalls_or_ends_is_lost_and_comes_back_by_itself(film):
    film.pieces = [part(jpeg(1)), None]
    with opened(film.address) as (camera, told, wait):
        wait(shows(jpeg(1)))
        wait(is_state(LOST, "0 seconds"))
        assert camera.newest is None, "an old image is not shown for a new one"
        with pytest.raises(InputError, match="0 seconds"):
            camera.frame()
        film.pieces = [part(jpeg(2))]
        film.step.release()
        wait(shows(jpeg(2)))
        wait(is_state(LOST, "ended"))
        film.pieces = [part(jpeg(3)), None]
        wait(shows(jpeg(3)))
    states = [facts["state"] for facts in told]
    assert states.count("starting") == 1 and states[:3] == ["starting", "ok", "lost"]


def test_a_stream_that_is_cut_inside_of_a_chunk_is_lost_and_comes_back(film):
    def cut(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"9999\r\n" + part(jpeg(1)))

    whole, film.answer = film.answer, cut
    with opened(film.address) as (_, _, wait):
        wait(is_state(LOST, "cannot be read"))
        film.pieces, film.answer = [part(jpeg(2)), None], whole
        wait(shows(jpeg(2)))


def test_what_trickles_without_an_image_is_a_stall(film):
    film.pieces = [b"x"] * 3 + [None]
    with opened(film.address) as (_, _, wait):
        wait(is_state(LOST))


def test_an_address_at_which_nothing_answers_is_lost_in_words():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with opened(f"http://127.0.0.1:{port}/stream") as (_, _, wait):
        wait(is_state(LOST, "cannot be reached"))
    with toy_server() as server:
        server.answer = lambda handler: handler.send(b"no", code=401)
        with opened(server.address) as (_, _, wait):
            wait(is_state(LOST, "Unauthorized"))


def test_the_password_of_an_address_goes_to_its_host_alone(film):
    request = module._request("http://me:p%40ss@cam.local:81/x?y=1")
    assert request.full_url == "http://cam.local:81/x?y=1"
    assert request.unredirected_hdrs["Authorization"] == "Basic bWU6cEBzcw=="


def test_a_command_gives_frames_and_is_run_again_when_it_ends(monkeypatch, tmp_path):
    (tmp_path / "frame").write_bytes(jpeg(4))
    (tmp_path / "runs").touch()
    line = f"echo >> {tmp_path / 'runs'}; cat {tmp_path / 'frame'}; sleep 0.2; exit 3"
    monkeypatch.setattr(module, "RPICAM", line)
    with opened("rpicam") as (camera, _, wait):
        wait(shows(jpeg(4)))
        wait(is_state(LOST, "exit code 3"))
        (tmp_path / "frame").write_bytes(jpeg(5))
        wait(shows(jpeg(5)))
        assert camera.facts()["source"] == "device"
    assert len((tmp_path / "runs").read_text()) >= 2


def test_a_command_is_ended_with_the_camera(monkeypatch, tmp_path):
    pid = tmp_path / "pid"
    monkeypatch.setattr(module, "RPICAM", f"echo $$ > {pid}; cat {tmp_path}/f; exec sleep 600")
    (tmp_path / "f").write_bytes(jpeg(1))
    with opened("rpicam") as (_, _, wait):
        wait(shows(jpeg(1)))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_folder_shows_its_newest_image_then_new_ones_and_may_go_and_come(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "old.jpg").write_bytes(jpeg(1))
    with opened(str(folder)) as (_, _, wait):
        wait(shows(jpeg(1)))
        (folder / "part").write_bytes(jpeg(2))
        os.rename(folder / "part", folder / "new.jpg")
        wait(shows(jpeg(2)))
        shutil.move(folder, tmp_path / "gone")
        wait(is_state(LOST, "gone"))
        shutil.move(tmp_path / "gone", folder)
        wait(is_state(OK))


def test_another_camera_is_used_at_once_and_none_is_the_browsers(film, tmp_path):
    film.pieces = [part(jpeg(1)), None]
    with opened(film.address) as (camera, _, wait):
        wait(shows(jpeg(1)))
        camera.use(None)
        assert camera.facts() == {"source": "browser", "state": "off", "text": ""} and camera.newest is None
        camera.use(str(tmp_path))
        assert camera.facts()["source"] == "folder"
        with pytest.raises(InputError, match="no camera"):
            camera.use("webcam")


def test_devices_are_read_by_their_tools_and_their_names_are_no_commands():
    assert command("rpicam").startswith("rpicam-vid ") and source_at("/dev/video0") == "device"
    assert "'/dev/video0; rm x'" in command("/dev/video0; rm x")


def test_what_is_no_jpeg_is_shown_as_one():
    held = io.BytesIO()
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(held, "PNG")
    assert shown(held.getvalue()).startswith(b"\xff\xd8") and shown(jpeg(1)) == jpeg(1)


def test_a_page_sees_learns_and_predicts_what_the_camera_shows(film, place, tmp_path, patient):
    film.pieces = [part(jpeg(1)), None, part(jpeg(2)), None]
    with serving(tmp_path / "p", place / "toy.safetensors", film.address) as browser:
        browser.fill(place / "photos")
        with browser.events() as following:
            if following.status["camera"]["state"] != OK:
                following("camera", lambda facts: facts["state"] == OK)
        assert browser.get("/api/camera.jpg") == jpeg(1)
        assert browser.post("/api/classes/ant/images")["kept"]
        with browser.events() as following:
            browser.post("/api/learn")
            following("learned")
        seen = browser.post("/api/predict")
        assert browser.get(f"/api/seen/{seen['id']}") == jpeg(1)
        for wrong in ({"source": "folder", "address": "/"}, {"source": "webcam"}):
            assert browser.post("/api/camera", wrong)["code"] == "camera-failed"
        assert browser.post("/api/camera", {"source": "none"})["source"] == "browser"
        assert browser.ask("GET", "/api/camera.jpg")[0] == 503


def test_viewers_get_each_frame_as_a_part(film, tmp_path, patient):
    film.pieces = [part(jpeg(1)), None, part(jpeg(2)), None]
    with (
        serving(tmp_path / "p", camera=film.address) as browser,
        socket.create_connection(("127.0.0.1", browser.port), timeout=SECONDS) as viewer,
    ):
        viewer.sendall(b"GET /api/camera.mjpeg HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = b""
        while jpeg(1) not in data:
            data += viewer.recv(2**16)
        film.step.release()
        while jpeg(2) not in data:
            data += viewer.recv(2**16)
        assert b"multipart/x-mixed-replace; boundary=frame" in data and data.count(b"--frame\r\n") >= 2
