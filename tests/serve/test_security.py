"""Who is answered: this machine, a page of this server, who knows the token; in time, and not too much."""

import contextlib
import http.client
import json
import re
import socket
import time

import pytest
from serving import Browser, serving

from tinytrain.base.sockets import is_loopback
from tinytrain.serve import hub, run, security
from tinytrain.serve.run import link
from tinytrain.serve.security import Door, RefusedError

TOKEN = "t0ken-that-nobody-guesses"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("open") / "p") as browser:
        yield browser


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("locked") / "p", token=TOKEN) as browser:
        yield browser


def refusal(answer):
    status, facts, _ = answer
    assert facts.keys() == {"code", "text"} and facts["text"], facts
    return status, facts["code"]


def raw(port, data):
    """What the server answers to these bytes until it closes the connection, and after how many seconds."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(data)
        answer = b""
        while more := connection.recv(2**16):
            answer += more
    return answer, time.monotonic() - start


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "localhost.evil", "["]
)
def test_a_name_that_somebody_has_pointed_here_is_no_host(browser, host):
    assert refusal(browser.ask("GET", "/", Host=host)) == (403, "origin")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "[::1]:8000", "192.168.1.7:8000"])
def test_addresses_in_numbers_and_names_of_this_machine_are_hosts(browser, host):
    assert browser.ask("GET", "/", Host=host)[0] == 200


def test_pages_of_other_sites_change_and_read_nothing(browser):
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": f"http://127.0.0.1:{browser.port + 1}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert refusal(browser.ask("POST", "/api/classes", {"name": "x"}, **headers)) == (403, "origin")
        assert refusal(browser.ask("GET", "/api/status", **headers)) == (403, "origin")
    assert browser.status()["classes"] == []
    own = {"Origin": f"http://127.0.0.1:{browser.port}", "Sec_Fetch_Site": "same-origin"}
    assert browser.ask("POST", "/api/classes", {"name": "x"}, **own)[0] == 201
    assert browser.ask("DELETE", "/api/classes/x")[0] == 200, "curl on this machine has no origin"


def test_without_the_token_nothing_is_answered(locked):
    for path in ("/", "/page.js", "/api/status", "/api/events", "/nothing", "/?token=wrong", "/?token=%ff"):
        assert refusal(locked.ask("GET", path)) == (401, "token"), path
    for headers in (
        {"Authorization": "Bearer no"},
        {"Cookie": f"tinytrain_{locked.port}=no"},
        {"Cookie": "=;="},
    ):
        assert refusal(locked.ask("GET", "/api/status", **headers)) == (401, "token")


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_do_not_get(locked):
    status, _, headers = locked.ask("GET", f"/?token={TOKEN}")
    assert status == 303 and headers["location"] == "/"
    cookie, *flags = headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
    known = Browser(locked.port, Cookie=cookie)
    assert known.ask("GET", "/")[0] == 200
    assert refusal(known.ask("POST", "/api/undo")) == (403, "origin"), "a cookie alone changes nothing"
    own = {"Origin": f"http://127.0.0.1:{locked.port}"}
    assert known.ask("POST", "/api/classes", {"name": "x"}, **own)[0] == 201
    assert Browser(locked.port, Authorization=f"Bearer {TOKEN}").ask("DELETE", "/api/classes/x")[0] == 200


def test_every_answer_has_the_headers_that_keep_a_page_in(browser):
    for path in ("/", "/page.js", "/api/status", "/nothing", "/api/images/x"):
        headers = browser.ask("GET", path)[2]
        assert headers["x-content-type-options"] == "nosniff", path
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"] and "server" not in headers


def test_paths_lead_to_no_other_files(browser, tmp_path):
    (browser.service.project.reports / "r.html").write_text("report")
    (browser.service.project.path / "secret.html").write_text("secret")
    assert browser.ask("GET", "/api/reports/r.html")[:2] == (200, b"report")
    for path in (
        "/api/reports/..%2Fsecret.html", "/api/reports/../secret.html", "/../../etc/passwd",
        "/page/page.html", "/api/images/..%2F..%2Fsecret.html", "/api/reports/", "/api/take/passwd",
    ):  # fmt: skip
        assert refusal(browser.ask("GET", path)) == (404, "file-missing"), path
    status, _, _ = browser.ask("POST", "/api/classes/..%2F..%2Fx/images", b"data")
    assert status in (404, 405, 415) and not (browser.service.project.path.parent / "x").exists()


def test_what_is_no_image_and_what_is_no_json_is_refused_in_words(browser):
    browser.post("/api/classes", {"name": "ant"})
    for data in (b"GIF89a", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"\xff\xd8\xff" + b"x" * 100):
        assert refusal(browser.ask("POST", "/api/classes/ant/images", data)) == (415, "image-unreadable")
    for body in (
        b"{", b"[]", b"[" * 5000, b'{"name": 1}', b"{}", b"\xff", b'{"name": "' + b"x" * 10**5 + b'"}',
    ):  # fmt: skip
        assert refusal(browser.ask("POST", "/api/classes", body)) == (400, "bad-value"), body[:20]
    assert refusal(browser.ask("PUT", "/api/classes")) == (405, "usage")
    browser.ask("DELETE", "/api/classes/ant")


def test_more_than_the_limit_is_refused_before_it_is_read_and_while_it_comes(browser, monkeypatch):
    monkeypatch.setattr(security, "MOST_BODY", 1000)
    head = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\n"
    answer, _ = raw(browser.port, head + b"Content-Length: 1001\r\n\r\n")
    assert b" 413 " in answer and b"image-too-large" in answer
    chunks = b"200\r\n" + b"x" * 512 + b"\r\n"
    answer, _ = raw(
        browser.port, head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + 2 * chunks
    )
    assert b" 413 " in answer and b"image-too-large" in answer


def test_more_than_a_board_can_hold_is_not_taken_at_once(browser, monkeypatch):
    monkeypatch.setattr(security, "MOST_HELD", 1000)
    head = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 800\r\n\r\n"
    with socket.create_connection(("127.0.0.1", browser.port), timeout=60) as other:
        other.sendall(head + b"x" * 500)
        while not browser.door._held:
            time.sleep(0.01)
        assert refusal(browser.ask("POST", "/api/predict", b"x" * 600)) == (503, "busy")
    while browser.door._held:
        time.sleep(0.01)
    assert refusal(browser.ask("POST", "/api/predict", b"x" * 600)) == (409, "store-missing")


def test_who_does_not_read_is_let_go(browser, monkeypatch):
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(type(browser.service), "metrics", lambda self: "x" * 10**8)
    with socket.create_connection(("127.0.0.1", browser.port), timeout=60) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not slow.recv(1):
            pass
        while browser.connections():
            time.sleep(0.01)
        count = 0
        with contextlib.suppress(ConnectionError):
            while data := slow.recv(2**20):
                count += len(data)
    assert 0 < count < 10**8


def test_who_sends_slowly_is_not_waited_for(browser, monkeypatch):
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(security, "BODY_SECONDS", 0.3)
    for data in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n"):
        assert raw(browser.port, data)[0] == b""
    head = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc"
    assert b" 408 " in raw(browser.port, head)[0]


def test_more_than_a_rate_is_refused_until_a_moment_has_gone(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(security.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(security, "BURST", 3.0)
    scope = {"client": ("1.2.3.4", 5), "method": "GET", "path": "/"}
    door, headers = Door(1), {"host": "localhost"}
    for _ in range(3):
        door.check(scope, headers)
    with pytest.raises(RefusedError) as caught:
        door.check(scope, headers)
    assert caught.value.status == 429
    door.check({**scope, "client": ("1.2.3.5", 5)}, headers)
    now[0] += 1 / security.RATE
    door.check(scope, headers)


def test_a_fault_of_the_server_shows_nothing_of_itself(browser, monkeypatch, caplog):
    def broken(self):
        raise RuntimeError("secret of the inside")

    monkeypatch.setattr(type(browser.service), "status", broken)
    status, facts, _ = browser.ask("GET", "/api/status")
    assert status == 500 and facts == {"code": "internal", "text": "something is wrong in the server"}
    for _ in range(200):  # it is written when the answer has been sent
        if "secret of the inside" in caplog.text:
            return
        time.sleep(0.05)
    raise AssertionError("the log does not have it")


def test_the_log_names_no_token(locked, capfd):
    locked.ask("GET", f"/?token={TOKEN}")
    locked.ask("GET", "/?token=" + "x" * 20)
    assert capfd.readouterr() == ("", "")


def test_events_are_for_so_many_browsers(browser, monkeypatch):
    monkeypatch.setattr(hub, "LISTENERS", 0)
    assert refusal(browser.ask("GET", "/api/events")) == (503, "busy")


def test_addresses_of_this_machine_need_no_token():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.2", "::", "example.org")))


def test_the_link_has_what_is_to_be_typed():
    assert link("127.0.0.1", 8000, Door(8000)) == "http://127.0.0.1:8000/"
    assert link("::1", 1, Door(1, "abc", secure=True)) == "https://[::1]:1/?token=abc"
    for everywhere in ("", "0.0.0.0"):
        assert re.fullmatch(r"http://(?!0)[\d.]+:1/", link(everywhere, 1, Door(1)))


def test_a_terminal_shows_the_link_as_a_code():
    pytest.importorskip("segno")
    assert json.dumps(run.qr_code("http://192.168.1.2:8000/?token=abc")).count("\\n") > 10


def test_an_answer_is_for_http_alone(browser):
    assert b"400" in raw(browser.port, b"\x16\x03\x01 hello\r\n\r\n")[0]
    connection = http.client.HTTPConnection("127.0.0.1", browser.port, timeout=60)
    connection.request("GET", "/api/status", headers={"Upgrade": "websocket", "Connection": "upgrade"})
    assert connection.getresponse().status in (200, 400, 426)
    connection.close()
