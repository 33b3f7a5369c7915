"""A download gives the whole file, or one line with the reason."""

import pytest
from toyserver import toy_server

from tinytrain.backbones import http as download
from tinytrain.base.errors import InputError


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with toy_server() as server:
        yield server


def fetched(server, limit=10**6, progress=lambda n: None) -> bytes:
    return download.download(f"{server.address}/file", limit, "do it by hand", progress)


def refusal(server, **options) -> str:
    with pytest.raises(InputError) as caught:
        fetched(server, **options)
    line = str(caught.value)
    assert line.startswith(f"download-failed: {server.address}/file: ") and line.endswith("; do it by hand")
    return line


@pytest.mark.parametrize("announced", [True, False])
def test_the_content_arrives_whole_and_progress_is_told(server, announced):
    data, told = bytes(range(256)) * 1000, []
    bare = b"HTTP/1.0 200 OK\r\n\r\n"
    server.answer = lambda h: h.send(data) if announced else h.wfile.write(bare + data)
    assert fetched(server, progress=told.append) == data
    assert told == sorted(told) and told[-1] == len(data)


def test_a_redirection_is_followed(server):
    server.answer = lambda h: elsewhere(h, "/moved") if h.path == "/file" else h.send(b"here")
    assert fetched(server) == b"here" and server.asked == ["/file", "/moved"]


def chunk_cut_short(handler):
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"1000\r\nxxxx")


def elsewhere(handler, address):
    handler.send_response(302)
    handler.send_header("Location", address)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


ANSWERS = {
    "missing": (lambda h: h.send(b"no", code=404), "the server answered 404 Not Found"),
    "refused": (lambda h: h.send(b"", code=503), "the server answered 503 Service Unavailable"),
    "cut short": (lambda h: h.send(b"x" * 500, length=1000), "the download ended after 500 of 1000 bytes"),
    "chunk cut short": (chunk_cut_short, "the download ended after"),
    "announced too large": (lambda h: h.send(b"x", length=10**9), "it holds more than the 1.0 MB that are"),
    "no HTTP": (lambda h: h.wfile.write(b"\0\1 nonsense\r\n\r\n"), "nonsense"),
    "nothing at all": (lambda h: None, "closed connection without response"),
    "a local file": (lambda h: elsewhere(h, "file:///etc/passwd"), "not allowed"),
    "in circles": (lambda h: elsewhere(h, h.path), "the server answered 302"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_each_wrong_answer_is_one_line(server, name):
    server.answer, words = ANSWERS[name]
    assert words in refusal(server)


def test_more_than_the_limit_is_not_read_although_no_length_was_announced(server):
    server.answer = lambda h: h.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 50_000)
    told = []
    assert "it holds more than the 10.0 kB" in refusal(server, limit=10_000, progress=told.append)
    assert max(told, default=0) <= 10_000


def test_a_server_that_falls_silent_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    server.answer = lambda h: server.go_on.wait(10)
    assert "no answer for 0.2 s" in refusal(server)


def test_a_server_that_stops_in_the_middle_is_given_up(server, monkeypatch):
    def stop(handler):
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\nxxx")
        server.go_on.wait(10)

    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    server.answer = stop
    assert "no answer for 0.2 s" in refusal(server)


def test_a_server_that_drips_is_given_up(server, monkeypatch):
    def drip(handler):
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            handler.wfile.write(b"x")
            if server.go_on.wait(0.05):
                return

    monkeypatch.setattr(download, "DEADLINE", 0.2)
    server.answer = drip
    assert "not done within 0.2 s" in refusal(server)


def test_an_address_that_is_none_is_one_line():
    for address in ("nonsense", "http://", "http://a b/c", "http://[::1"):
        with pytest.raises(InputError, match="download-failed"):
            download.download(address, 100, "do it by hand", lambda n: None)
