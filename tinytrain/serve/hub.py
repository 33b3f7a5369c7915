"""What happens, told to all browsers that listen: server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool

LISTENERS = 64
HELD = 256  # events that a browser may lag behind; a slower one is let go of, comes back and gets the whole
HEARTBEAT = 15.0  # seconds


class Hub:
    """Listeners of one loop; `tell` may be called from any thread."""

    def __init__(self):
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue] = set()

    def begin(self) -> None:
        """Listeners belong to the running loop."""
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """Let go of all listeners; nothing is told any more."""
        self._loop = None
        for queue in list(self._queues):
            self._let_go(queue)

    @property
    def is_open(self) -> bool:
        return self._loop is not None

    @property
    def is_full(self) -> bool:
        return len(self._queues) >= LISTENERS

    def tell(self, event: str, facts: dict) -> None:
        """Send `facts`, JSON values, as an event of this name."""
        if (loop := self._loop) is not None:
            text = message(event, facts)
            loop.call_soon_threadsafe(self._send, text)

    async def listen(self, first: Callable[[], dict]) -> AsyncIterator[str]:
        """What a browser reads: what ``first()`` gives as "status", and then each event."""
        queue: asyncio.Queue = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield message("status", await run_in_threadpool(first))
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._queues.discard(queue)

    def _send(self, text: str) -> None:
        for queue in list(self._queues):
            if queue.qsize() < HELD:
                queue.put_nowait(text)
            else:
                self._let_go(queue)

    def _let_go(self, queue: asyncio.Queue) -> None:
        self._queues.discard(queue)
        queue.put_nowait(None)


def message(event: str, facts: dict) -> str:
    return f"event: {event}\ndata: {json.dumps(facts, allow_nan=False)}\n\n"
