"""A server of a project, in this process or its own, and a browser that asks it; without the extra, tests are
skipped.
"""

import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading
import time

import pytest

from tinytrain.base.sockets import bound
from tinytrain.serve.project import Project
from tinytrain.serve.security import Door
from tinytrain.serve.settings import Settings

try:
    from tinytrain.serve.run import server
    from tinytrain.serve.service import Service
except ImportError as error:
    if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio", "h11"):
        raise
    pytest.skip("the extra web is not installed", allow_module_level=True)

SECONDS = 120  # a busy machine must not fail a test


class Browser:
    """Asks the server at `port`; every answer is (status, JSON or bytes, headers)."""

    def __init__(self, port, **headers):
        self.port, self.headers = port, headers

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            given = {key.replace("_", "-"): value for key, value in {**self.headers, **headers}.items()}
            body = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            data, facts = answer.read(), dict(answer.getheaders())
            is_json = facts.get("content-type") == "application/json"
            return answer.status, json.loads(data) if is_json else data, facts
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, None, **headers)[1]

    def post(self, path, body=None, **headers):
        return self.ask("POST", path, body, **headers)[1]

    def status(self):
        return self.get("/api/status")

    def fill(self, folder):
        """Make the classes of `folder`, with its images; returns their ids by class."""
        ids = {}
        for place in sorted(folder.iterdir()):
            self.post("/api/classes", {"name": place.name})
            images = [path.read_bytes() for path in sorted(place.iterdir())]
            ids[place.name] = [self.post(f"/api/classes/{place.name}/images", i)["id"] for i in images]
        return ids

    @contextlib.contextmanager
    def events(self):
        """A function that gives (event, JSON) one after another, and with a name the next of that name.

        Its `status` is the first one, after which nothing is missed.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.request("GET", "/api/events", None, self.headers)
        answer = connection.getresponse()

        def following(wanted=None, until=lambda facts: True):
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                lines = []
                while line := answer.readline().decode().strip():
                    lines.append(line)
                if len(lines) != 2:
                    assert lines, "the server has ended"
                    continue
                event, facts = lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))
                if wanted in (None, event) and until(facts):
                    return event, facts
            raise AssertionError(f"no event {wanted} has come")

        try:
            following.status = following("status")[1]
            yield following
        finally:
            connection.close()


@contextlib.contextmanager
def serving(project, backbone=None, camera=None, others=(), **door):
    """A `Browser` for a running server of the folder `project`, with the `service` and `door` of that, and
    how many `connections` it has.
    """
    settings = Settings(None if backbone is None else str(backbone), threads=1)
    with bound("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        service = Service(Project(project), settings, camera, others)
        running = server(service, door := Door(port, **door))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            browser = Browser(port)
            browser.service, browser.door = service, door
            browser.connections = lambda: len(running.server_state.connections)
            yield browser
        finally:
            running.should_exit = True
            thread.join()


@contextlib.contextmanager
def program(*words):
    """The running command and its link."""
    command = [sys.executable, "-m", "tinytrain", "serve", *map(str, words), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def port_of(link):
    return int(re.search(r":(\d+)/", link)[1])
