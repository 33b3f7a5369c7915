"""The side of a client in rounds over HTTP, with nothing but the standard library."""

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from tinytrain.base.errors import InputError, UsageError
from tinytrain.base.safetensors import MAX_FILE
from tinytrain.federate.task import decode_task, to_sign
from tinytrain.federate.work import Client

REQUEST = 30  # seconds without a byte from the server


@dataclass(frozen=True)
class Server:
    """The server at `address`, such as ``http://pi.local:8765``, as the client called `name` sees it.

    A client asks again after `poll` seconds, and gives up after `patience` seconds without any answer.
    With a `key` (`trust.keys.private_key`) it signs its answers.
    """

    address: str
    name: str
    token: str | None = None
    poll: float = 1.0
    patience: float = 60.0
    key: object | None = None

    def ask(self, path: str, data: bytes | None = None, **facts) -> bytes:
        """What the server says to ``path?name=...``; nothing if there is nothing yet.

        Raises InputError ``run-mismatch`` with its words if it refuses, ``download-failed`` if it is silent.
        """
        query = urllib.parse.urlencode({"name": self.name, **facts})
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        end = time.monotonic() + self.patience
        while True:
            try:
                request = urllib.request.Request(f"{self.address}{path}?{query}", data, headers)
                with urllib.request.urlopen(request, timeout=REQUEST) as answer:
                    found = answer.read(MAX_FILE)
                    if answer.length:  # the server has gone in the middle
                        raise http.client.IncompleteRead(found)
                    return found
            except urllib.error.HTTPError as error:
                with error:
                    words = error.read(1000).decode(errors="replace")
                raise InputError("run-mismatch", f"{self.address} refused: {words}") from error
            except ValueError as error:
                raise UsageError("usage", f"{self.address!r} is not like http://pi.local:8765") from error
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() > end:
                    reason = getattr(error, "reason", None) or error
                    text = f"{self.address}: no answer for {self.patience:g} s ({reason}); start the server"
                    raise InputError("download-failed", text) from error
            time.sleep(self.poll)


def take_part(client: Client, server: Server, say: Callable[[str], object]) -> bytes:
    """Answer all rounds, and return the bytes of the merged delta. `say` gets a line for each round.

    Raises what `Client.answer` and `Server.ask` raise; an answer that is refused is said, and the next round
    waited for.
    """
    after = 0
    while True:
        if data := server.ask("/task", round=after):
            task, arrays = decode_task(data, server.address)
            answer, after = client.answer(task, arrays), task.number
            facts = {"round": after}
            if server.key:
                facts["signature"] = server.key.sign(to_sign(data, server.name, answer)).hex()
            try:
                server.ask("/answer", answer, **facts)
                say(f"{task.name}: {len(data):,} bytes received, {len(answer):,} sent")
            except InputError as error:
                if error.code != "run-mismatch":
                    raise
                say(f"{task.name}: {error.message}")
        elif result := server.ask("/result"):
            return result
        else:
            time.sleep(server.poll)
