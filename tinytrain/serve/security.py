"""Who may ask, from where, how much and how often: in front of everything that answers.

A page of another site cannot use this server: names that an attacker can point here are no hosts (DNS
rebinding), requests that change something come from our own page or from no page, and on any address but that
of this machine there is a token.
"""

import asyncio
import hmac
import ipaddress
import json
import socket
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import SplitResult, parse_qs, urlsplit

from tinytrain.base.errors import StorageError, TinytrainError, visible
from tinytrain.episode.kind import Kind

MOST_BODY = 25 * 10**6  # bytes of an upload
RATE, BURST, CLIENTS = 100.0, 2000.0, 1000  # requests a second and at once, of each of so many addresses
AT_ONCE = 128  # requests of all that are being answered
MOST_HELD = 4 * MOST_BODY  # bytes of what they have sent
BODY_SECONDS, SEND_SECONDS = 20.0, 30.0  # until more of a request arrives, and until more of an answer leaves
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
OWN = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": OWN,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class RefusedError(Exception):
    """An answer of HTTP `status` that refuses: {"code", "text"}."""

    def __init__(self, status: int, code: str, text: str):
        super().__init__(text)
        self.status, self.code, self.text = status, code, text


# HTTP status of the errors of the package by code; others of InputError and UsageError are 400.
STATUS = {
    "unknown-class": 404,
    "file-missing": 404,
    "store-missing": 409,
    "store-oldest": 409,
    "store-changed": 409,
    "class-names": 409,
    "image-too-large": 413,
    "image-unreadable": 415,
    "package-missing": 503,
    "camera-failed": 503,
    "system": 503,
}


def refused(error: TinytrainError, kind: Kind) -> RefusedError:
    """An error of the package as an answer, in the words for what the page has."""
    usual = 503 if isinstance(error, StorageError) else 400
    return RefusedError(STATUS.get(error.code, usual), error.code, visible(kind.words(error.message)))


@dataclass
class Door:
    """What is asked for at the `port`: the `token` (None: nothing), and the names by which it is reached."""

    port: int
    token: str | None = None
    names: frozenset[str] = frozenset({"localhost"})
    secure: bool = False
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _open: int = 0
    _held: int = 0

    @property
    def cookie(self) -> str:
        return f"tinytrain_{self.port}"

    def check(self, scope: dict, headers: dict[str, str]) -> None:
        """Raise RefusedError for what is not answered."""
        self._check_rate((scope.get("client") or ("", 0))[0])
        self._check_host(headers.get("host", ""))
        if not self.is_known(headers):
            text = "give the token: open the link that the server has shown when it started"
            raise RefusedError(401, "token", text)
        if scope["method"] in CHANGING or scope["path"].startswith("/api/"):
            self._check_origin(scope["method"], headers)
        if int(headers.get("content-length") or 0) > MOST_BODY:
            raise too_large()

    def is_known(self, headers: dict[str, str]) -> bool:
        if self.token is None:
            return True
        given = headers.get("authorization", "").removeprefix("Bearer ")
        return self.is_token(given) or self.is_token(self._cookie_of(headers))

    def is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def _cookie_of(self, headers: dict[str, str]) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return morsel.value if morsel else ""

    def _check_host(self, host: str) -> None:
        """Numbers and the names of this machine: no other name that somebody has pointed here."""
        name = (_parts(f"//{host}").hostname or "") if host.isprintable() else ""
        try:
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            if name.rstrip(".").lower() not in self.names:
                text = "this server is not known by that name; use its address in numbers"
                raise RefusedError(403, "origin", text) from None

    def _check_origin(self, method: str, headers: dict[str, str]) -> None:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        own = origin is None or _parts(origin).netloc.lower() == headers.get("host", "").lower()
        if not own or site not in ("same-origin", "none"):
            raise RefusedError(403, "origin", "requests of pages of other sites are refused")
        if method in CHANGING and origin is None and self.token and "authorization" not in headers:
            raise RefusedError(403, "origin", "without a page, give the token as Authorization: Bearer")

    def _check_rate(self, client: str) -> None:
        now = time.monotonic()
        left, last = self._buckets.pop(client, (BURST, now))
        left = min(BURST, left + RATE * (now - last))
        self._buckets[client] = max(0.0, left - 1), now
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise RefusedError(429, "busy", f"more than {RATE:.0f} requests a second; wait a moment")


def _parts(address: str) -> SplitResult:
    """Those of an address; empty ones of what is none, such as "//[" of a client that is up to something."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def too_large() -> RefusedError:
    text = f"more than {MOST_BODY // 10**6} MB were sent; scale the image down"
    return RefusedError(413, "image-too-large", text)


class Guarded:
    """An ASGI application that asks the `door` first, and bounds what a request takes."""

    def __init__(self, app, door: Door):
        self.app, self.door = app, door

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        door = self.door
        try:
            if door._open >= AT_ONCE:
                raise RefusedError(503, "busy", f"{AT_ONCE} requests are being answered; wait a moment")
            query = parse_qs(scope["query_string"].decode("latin-1"))
            if scope["path"] == "/" and (token := query.get("token")):
                await self._let_in(token[0], headers, send)
                return
            door.check(scope, headers)
        except RefusedError as error:
            await _answer(send, error.status, [(b"connection", b"close")], error)
            return
        body = _Body(receive, door)
        door._open += 1
        try:
            await self.app(scope, body.receive, self._with_headers(send))
        except TimeoutError:
            return  # nobody reads the answer; the connection is closed
        finally:
            door._open -= 1
            door._held -= body.size

    async def _let_in(self, token: str, headers: dict[str, str], send) -> None:
        self.door._check_host(headers.get("host", ""))
        if self.door.token is not None and not self.door.is_token(token):
            raise RefusedError(401, "token", "this link is of an earlier start; open the one shown last")
        more = [(b"location", b"/")]
        if self.door.token is not None:
            secure = "; Secure" if self.door.secure else ""
            cookie = f"{self.door.cookie}={self.door.token}; Path=/; HttpOnly; SameSite=Strict{secure}"
            more.append((b"set-cookie", cookie.encode()))
        await _answer(send, 303, more)

    @staticmethod
    def _with_headers(send):
        """`send` with the headers of every answer, to somebody who reads it."""

        async def sent(message):
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                usual = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(row for row in usual if row[0] not in given)]
            await asyncio.wait_for(send(message), SEND_SECONDS)

        return sent


class _Body:
    """What a request sends: in time, not too much, and not too much of all together."""

    def __init__(self, receive, door: Door):
        self._receive, self._door, self._over = receive, door, False
        self.size = 0

    async def receive(self):
        if self._over:
            return await self._receive()  # whether somebody goes away, for which one may wait long
        try:
            message = await asyncio.wait_for(self._receive(), BODY_SECONDS)
        except TimeoutError:
            raise RefusedError(408, "busy", f"nothing was sent for {BODY_SECONDS:.0f} seconds") from None
        count = len(message.get("body", b""))
        self.size, self._door._held = self.size + count, self._door._held + count
        self._over = not message.get("more_body", False)
        if self.size > MOST_BODY:
            raise too_large()
        if self._door._held > MOST_HELD:
            raise RefusedError(503, "busy", "too many images are being sent; wait a moment")
        return message


async def _answer(send, status: int, more: Iterable, error: RefusedError | None = None) -> None:
    body = json.dumps({"code": error.code, "text": error.text}).encode() if error else b""
    kind = {"content-type": "application/json"} if error else {}
    headers = {**HEADERS, **kind, "content-length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*pairs, *more]})
    await send({"type": "http.response.body", "body": body})


def names_of_this_machine() -> frozenset[str]:
    own = socket.gethostname().lower()
    return frozenset({"localhost", own, own.partition(".")[0], f"{own.partition('.')[0]}.local"})
