"""Starts the server: a socket, uvicorn, and what is said in the terminal."""

import io
import signal
import socket
import threading
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tinytrain.serve.hub import Hub
from tinytrain.serve.routes import application
from tinytrain.serve.security import Door, Guarded
from tinytrain.serve.service import Service

CLOSING_SECONDS = 2
HEAD_SECONDS = 10.0  # until the head of a request has come


class Protocol(H11Protocol):
    """Closes a connection on which the head of a request takes too long, or none comes at all, or nobody
    reads the answer.
    """

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
        self._unread, self._hurry = 0, self._look_later()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._hurry.cancel()
        self._unread, self._hurry = 0, self._look_later()

    def connection_lost(self, exc) -> None:
        self._hurry.cancel()
        super().connection_lost(exc)

    def _look_later(self):
        return self.loop.call_later(HEAD_SECONDS, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            return  # it is being answered
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        if not self._unread:
            self.transport.close()
        elif self._unread == before:
            self.transport.abort()
        else:
            self._hurry = self._look_later()


class Server(uvicorn.Server):
    """Ends by SIGINT and SIGTERM without an error: that is how a server ends."""

    hub: Hub

    async def shutdown(self, sockets=None) -> None:
        self.hub.end()  # otherwise it would wait for those who listen
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self):
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def link(host: str, port: int, door: Door) -> str:
    """What is opened in a browser, with the token if there is one."""
    address = own_address() if host in ("", "0.0.0.0", "::") else host
    name = f"[{address}]" if ":" in address else address
    query = f"?token={door.token}" if door.token else ""
    return f"http{'s' if door.secure else ''}://{name}:{port}/{query}"


def own_address() -> str:
    """The address of this machine in its network; that of the loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def qr_code(text: str) -> str:
    """`text` as a QR code for a terminal; "" if the package for it is not installed."""
    try:
        import segno
    except ImportError:
        return ""
    held = io.StringIO()
    segno.make(text, micro=False).terminal(held, compact=True)
    return held.getvalue()


def server(service: Service, door: Door, certificate: tuple[str, str] | None = None) -> Server:
    """A server of `service`; ``run(sockets=[socket])`` runs it."""
    cert, key = certificate or (None, None)
    config = uvicorn.Config(
        Guarded(application(service), door), http=Protocol, ws="none", loop="asyncio", lifespan="on",
        log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=CLOSING_SECONDS, ssl_certfile=cert, ssl_keyfile=key,
    )  # fmt: skip
    found = Server(config)
    found.hub = service.hub
    return found
