"""A grid of Flower over HTTP, whose clients need nothing of Flower, and a folder that keeps what came.

There is a place for each client that is expected. Whose first answer is taken gets the next free one, and has
it by its name until the end: a client that stops and starts again goes on. One that asks and cannot answer,
for example with another network, holds no place. A client asks `GET /task?name=NAME&round=LAST` until there
is a later one, and answers `POST /answer?name=NAME&round=ROUND`, with `&signature=HEX` if it has a key. What
comes is checked, and written to ``round-K/NAME.safetensors`` before it counts; a server that starts again
finds it there. After the last round `GET /result?name=NAME` has the merged delta.
"""

import hmac
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from tinytrain.base.errors import InputError, TinytrainError
from tinytrain.base.files import read_bytes, write_bytes
from tinytrain.base.safetensors import MAX_FILE
from tinytrain.base.sockets import bound
from tinytrain.federate.rounds import asked_for
from tinytrain.federate.task import check_name, encode_task, to_sign
from tinytrain.trust.keys import MOST, SIGNATURE, signer

SILENCE = 30  # seconds without a byte from a client that asks


class HttpGrid(Grid):
    """Places 1 to `places`. ``content_of(data, task, name)`` checks an answer, and is what it holds.

    Unless `keys` is None, every client must sign with one of these (`trust.keys.public_keys`), its own.
    ``told(name, done, total)`` hears of answers to the task of that name, ``say(line)`` of what was refused.
    """

    run: Run | None = None
    keys: dict | None = None

    def __init__(self, folder: Path, places: int, content_of: Callable, told: Callable, say: Callable):
        self.folder, self.places, self.content_of, self.told, self.say = folder, places, content_of, told, say
        self.task, self.result = None, None
        self.names: list[str] = []  # by place
        self.taken: set[str] = set()  # who has the result
        self.signers: dict[str, str] = {}  # what the key of each client is called
        self._messages: dict[int, Message] = {}
        self.replies: dict[str, Message] = {}  # to the last task, by name
        self.changed = threading.Condition()
        self.set_run(Run.create_empty(1))

    # What Flower asks of a grid.

    def set_run(self, run: Run) -> None:
        self.run = run
        # Messages are made of these, which only Flower's own engines set.
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = run.run_id, 1, 1

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None) -> Message:
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        return range(1, self.places + 1)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Open a round with one message to each place, all of the same content."""
        with self.changed:
            self._messages = {m.metadata.dst_node_id: m for m in messages}
            self.task, arrays = asked_for(next(iter(self._messages.values())))
            self.asked, self.replies = encode_task(self.task, arrays), {}
            self.bytes_in = self.bytes_out = 0
            kept = self.folder / f"round-{self.task.number}"
            kept.mkdir(parents=True, exist_ok=True)
            for path in sorted(kept.glob("*.safetensors")):
                signature = b"" if self.keys is None else read_bytes(f"{path}{SIGNATURE}", MOST)
                self._count(path.stem, read_bytes(path, MAX_FILE), signature)
            self.told(self.task.name, len(self.replies), self.places)
        return map(str, self._messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The answers so far."""
        with self.changed:
            return list(self.replies.values())

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None):
        asked = self.push_messages(messages)
        with self.changed:
            self.changed.wait_for(lambda: len(self.replies) == self.places, timeout)
            answers = self.pull_messages(asked)
            self.task = None  # what comes now is late
        return answers

    # What clients ask.

    def next_task(self, name: str, after: int) -> bytes | None:
        """The bytes of a task behind round `after`; None if there is none yet, or no longer one."""
        with self.changed:
            self._check_place(name)
            if self.task is None or self.task.number <= after or name in self.replies:
                return None
            self.bytes_out += len(self.asked)
            return self.asked

    def answer(self, name: str, number: int, data: bytes, signature: bytes = b"") -> None:
        """Take an answer to round `number`. Raises InputError for one that is late, twice or wrong."""
        with self.changed:
            if self.task is None or self.task.number != number:
                raise InputError("run-mismatch", f"round {number} is over; wait for the next one")
            if name in self.replies:
                raise InputError("run-mismatch", f"{name!r} has answered; give clients different --name")
            self._count(name, data, signature, new=True)
            self.told(self.task.name, len(self.replies), self.places)
            self.changed.notify_all()

    def take_result(self, name: str) -> bytes | None:
        """The merged delta, once there is one."""
        with self.changed:
            self._check_place(name)
            if self.result is not None:
                self.taken.add(name)
                self.changed.notify_all()
            return self.result

    def _check_place(self, name: str) -> None:
        check_name(name)
        if name not in self.names and len(self.names) == self.places:
            raise InputError("run-mismatch", f"of {self.places} places none is free; give more --clients")

    def _count(self, name: str, data: bytes, signature: bytes, new: bool = False) -> None:
        self._check_place(name)
        if self.keys is not None:
            self._check_signed(name, data, signature)
        content = self.content_of(data, self.task, name)
        if new:
            path = self.folder / f"round-{self.task.number}" / f"{name}.safetensors"
            if self.keys is not None:  # before the answer, which does not count without it
                write_bytes(f"{path}{SIGNATURE}", signature)
            write_bytes(path, data)
        if name not in self.names:
            self.names.append(name)
        place = self.names.index(name) + 1
        self.replies[name] = Message(content, reply_to=self._messages[place])
        self.bytes_in += len(data)

    def _check_signed(self, name: str, data: bytes, signature: bytes) -> None:
        """Raise InputError unless a known key has signed the answer, this client's and no other's."""
        key = signer(signature, to_sign(self.asked, name, data), self.keys)
        if key is None:
            text = f"{name}: the answer to {self.task.name} is signed by none of {len(self.keys)} known keys"
            raise InputError("file-damaged", f"{text}; give the client --key, its public one to the server")
        for other, theirs in self.signers.items():
            if (other == name) != (theirs == key):
                text = f"{name} signs with key {key}, {other} with {theirs}"
                raise InputError("run-mismatch", f"{text}; give each client one name, and a key of its own")
        self.signers[name] = key


class _Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address) -> None:
        if not isinstance(sys.exception(), OSError):  # otherwise the client has gone, and asks again
            super().handle_error(request, client_address)


@contextmanager
def listening(grid: HttpGrid, host: str, port: int, token: str | None) -> Iterator[str]:
    """A server for `grid` that answers who knows the `token`, in threads of its own; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENCE

        def log_message(self, *_) -> None:
            pass

        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                return self._send(403, b"this server wants the token in its --token-file")
            try:
                address = urllib.parse.urlsplit(self.path)
                facts = dict(urllib.parse.parse_qsl(address.query))
                found = self._asked(address.path, facts, int(facts.get("round", "0")[:9]))
            except ValueError:
                self._send(400, b"this is no address, or its round must be a number, its signature hex")
            except TinytrainError as error:
                grid.say(f"{self.client_address[0]}: {error}")
                self._send(409, str(error).encode())
            else:
                self._send(204 if found is None else 200, found or b"")

        def do_POST(self) -> None:
            self.do_GET()

        def _asked(self, path: str, facts: dict[str, str], number: int) -> bytes | None:
            asked, length = (self.command, path), self.headers.get("Content-Length", "")
            name, signature = facts.get("name", ""), bytes.fromhex(facts.get("signature", ""))
            if asked == ("GET", "/task"):
                return grid.next_task(name, number)
            if asked == ("GET", "/result"):
                return grid.take_result(name)
            if asked != ("POST", "/answer") or not length.isdigit() or not 1 <= int(length) <= MAX_FILE:
                text = f"{self.command} {path!r:.80} with {length!r:.20} bytes is not known here"
                raise InputError("bad-value", f"{text}; get /task or /result, or post an /answer")
            grid.answer(name, number, self.rfile.read(int(length)), signature)
            return b"taken"

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with bound(host, port) as listening, _Server(("", 0), Handler, False) as found:
        found.socket.close()
        found.socket, found.server_address = listening, listening.getsockname()
        threading.Thread(target=found.serve_forever, daemon=True).start()
        try:
            yield f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        finally:
            found.shutdown()
