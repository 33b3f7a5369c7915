"""``tinytrain serve`` as a program: its link, its end, its token, and what it refuses."""

import builtins
import contextlib
import os
import random
import re
import signal
import ssl
import sys
import threading
import time
import urllib.request
from collections import Counter
from http.client import HTTPException

import pytest
from commandline import tt
from serving import Browser, port_of, program
from toyfiles import write_images
from watching import CLASSES
from waves import write_clips

from tinytrain.store import Store

SECONDS = float(os.environ.get("TINYTRAIN_SERVE_SECONDS", "10"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_link_is_printed_and_a_signal_ends_it_at_once_although_somebody_listens(number, tmp_path):
    with program(tmp_path / "p") as (process, link):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", link)
        with Browser(port_of(link)).events() as following:
            assert following.status["project"] == "p"
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in said, said
    assert "open this link in a browser; Ctrl-C ends it" in said


def test_a_file_of_a_token_keeps_out_the_other_users_of_this_machine(tmp_path):
    with program(tmp_path / "p", "--token-file", tmp_path / "token") as (_, link):
        token = (tmp_path / "token").read_text().strip()
        assert Browser(port_of(link)).get("/api/status")["code"] == "token"
        assert Browser(port_of(link), Authorization=f"Bearer {token}").get("/api/status")["project"] == "p"


@pytest.mark.slow
def test_another_address_needs_the_token_of_the_link_or_of_a_file_which_keeps_it(tmp_path):
    token_file = tmp_path / "token"
    for _ in range(2):
        with program(tmp_path / "p", "--host", "0.0.0.0", "--token-file", token_file) as (process, link):
            token = token_file.read_text().strip()
            assert link.endswith("/") and os.stat(token_file).st_mode & 0o077 == 0, "a log has no token"
            browser = Browser(port_of(link))
            assert browser.get("/api/status")["code"] == "token"
            assert browser.get("/api/status", Authorization=f"Bearer {token}")["project"] == "p"
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[1]
            assert token not in said and str(token_file) in said
    with program(tmp_path / "p", "--host", "0.0.0.0") as (_, link):
        token = re.search(r"/\?token=([\w-]{20,})$", link)[1]
        assert Browser(port_of(link), Authorization=f"Bearer {token}").get("/api/status")["project"] == "p"
    token_file.write_text("short\n")
    assert tt("serve", tmp_path / "p", "--host", "0.0.0.0", "--port", 0, "--token-file", token_file) == 2


def test_https_answers_with_a_certificate_of_its_own(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    with program(tmp_path / "p", "--https") as (_, link):
        assert link.startswith("https://127.0.0.1:")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(link, context=context, timeout=60) as answer:
            assert answer.status == 200


def test_what_it_cannot_do_is_said_in_a_line(tmp_path, capsys, monkeypatch):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert tt("serve", tmp_path / "other", "--port", 0) == 3
    assert "no images/" in capsys.readouterr().err
    assert tt("serve", tmp_path / "p", "--port", 0, "--camera", "webcam") == 3
    assert "camera-failed: 'webcam' is no camera" in capsys.readouterr().err
    write_images(tmp_path / "ants" / "images")
    assert tt("serve", tmp_path / "ants", "--port", 0, "--backbone", "motion-3") == 3
    assert "the page has images, and motion-3 takes motion (" in capsys.readouterr().err
    write_clips(tmp_path / "words" / "images", range(1), CLASSES)
    assert tt("serve", tmp_path / "words", "--port", 0, "--camera", tmp_path) == 3
    said = capsys.readouterr().err
    assert (
        said
        == "tinytrain: camera-failed: the page has clips, and a camera gives images; leave --camera out\n"
    )
    with program(tmp_path / "p") as (_, link):
        assert tt("serve", tmp_path / "q", "--port", port_of(link)) == 3
    assert "give another --port" in capsys.readouterr().err and not (tmp_path / "q").exists()
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.partition(".")[0] == "uvicorn":
            raise ImportError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "tinytrain.serve.run", raising=False)
    monkeypatch.setattr(sys.modules["tinytrain.serve"], "run", None, raising=False)
    monkeypatch.delattr(sys.modules["tinytrain.serve"], "run")
    monkeypatch.setattr(builtins, "__import__", without)
    assert tt("serve", tmp_path / "p") == 3
    assert "pip install 'starlette" in capsys.readouterr().err


class Person(threading.Thread):
    """Sends images and corrections until the server is gone; `acknowledged` says what was answered."""

    def __init__(self, port, photos, number, acknowledged):
        super().__init__(daemon=True)
        self.browser, self.photos, self.number = Browser(port), photos, number
        self.images, self.corrections = acknowledged

    def run(self):
        draw = random.Random(self.number)
        with contextlib.suppress(OSError, ValueError, HTTPException):  # also killed amid an answer
            for count in range(10**6):
                data = draw.choice(self.photos).read_bytes() + b"%d %d" % (self.number, count)
                name = draw.choice(("ant", "bee", "cat"))
                if draw.random() < 0.5:
                    status, facts, _ = self.browser.ask("POST", f"/api/classes/{name}/images", data)
                    if status == 201:
                        self.images.append((name, data))
                else:
                    seen = self.browser.post("/api/predict", data)
                    status, facts, _ = self.browser.ask(
                        "POST", "/api/correct", {"id": seen["id"], "class": name}
                    )
                    if status == 200:
                        self.images.append((name, data))
                        self.corrections[facts["class"]] += 1


@pytest.mark.slow
def test_a_server_that_is_killed_again_and_again_loses_nothing_that_it_has_acknowledged(
    place, tmp_path, capsys
):
    project, draw = tmp_path / "p", random.Random(0)
    network, photos = ("--backbone", place / "toy.safetensors"), sorted((place / "new").glob("*/*"))
    (project / "images").mkdir(parents=True)
    assert (
        tt("adapt", place / "photos", "--store", project / "state", *network, "--policy", "none", "-q") == 0
    )
    assert tt("confirm", project / "state") == 0
    for name in ("ant", "bee", "cat"):
        (project / "images" / name).mkdir()
    images, corrections, kills = [], Counter(), 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with program(project, *network) as (process, link):
            people = [Person(port_of(link), photos, 10 * kills + k, (images, corrections)) for k in range(2)]
            for person in people:
                person.start()
            time.sleep(draw.uniform(0.1, 1.5))
            assert process.poll() is None, "it ended by itself"
            process.kill()
            for person in people:
                person.join()
        kills += 1
        held = {(p.parent.name, p.read_bytes()) for p in (project / "images").glob("[!.]*/[!.]*")}
        assert set(images) <= held, "an image is lost"
        found = Store(project / "state").peek().delta.report["watched"]["corrections"]
        assert all(found.get(name, 0) >= count for name, count in corrections.items()), "a correction is lost"
    with capsys.disabled():
        print(f"\n{kills} kills, {len(images)} images, {corrections.total()} corrections: none was lost")
    assert images and corrections
