"""What takes requests and answers them: an ASGI application over a queue of its own."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from weft.serve import wire
from weft.serve.batches import Answer, Batches, Job, error, late

__all__ = ["Front"]

#: Seconds that a request may take to arrive, and that what nobody wants is read after the answer,
#: so that a client which sends before it reads sees the answer.
ARRIVES, DISCARDS = 30.0, 5.0
#: Seconds that the server reads on what arrives when it is told to stop.
STOPS = 1.0
#: Seconds that clients have to read their answers, once the last has been made, when it stops.
DRAINS = 5.0

_Receive = Callable[[], Awaitable[dict[str, Any]]]
_Send = Callable[[dict[str, Any]], Awaitable[None]]


class _Gone(Exception):
    """The client closed its connection."""


class Front:
    """The application.

    Args:
        batches: what runs the requests.
        facts: what `GET /` says.
        room: how many requests may be under way; beyond them: 503.
        limit: bytes that a request may have. Those that wait have four times as many in all.
    """

    def __init__(self, batches: Batches, facts: dict[str, Any], room: int, limit: int) -> None:
        self._batches, self._facts, self._room, self._limit = batches, facts, room, limit
        self._under_way = self._bytes = 0
        self._reads = set[asyncio.Timeout]()
        self._stops_at = math.inf  #: of the loop's clock

    def stop(self) -> None:
        """What has not arrived soon is not waited for; called in the loop."""
        self._stops_at = asyncio.get_running_loop().time() + STOPS
        for read in self._reads:
            read.reschedule(min(read.when() or math.inf, self._stops_at))

    async def lets_go(self, connections: Iterable[Any]) -> None:
        """Closes what is still open of connections `DRAINS` seconds after the last answer is there:
        their clients do not read it."""
        while self._under_way:
            await asyncio.sleep(0.05)
        await asyncio.sleep(DRAINS)
        for connection in [*connections]:
            connection.transport.abort()

    @contextlib.asynccontextmanager
    async def reads(self, seconds: float) -> AsyncIterator[None]:
        """Around reads from a client: TimeoutError after so long, or when the server stops."""
        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(min(until, self._stops_at)) as read:
            self._reads.add(read)
            try:
                yield
            finally:
                self._reads.discard(read)

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        request = _Request(self, receive)
        try:
            status, body = await self._answer(scope, request)
        except _Gone:
            return
        kind = (b"content-type", b"application/json")
        headers = [kind, (b"content-length", str(len(body)).encode())]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if scope["method"] != "HEAD":
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if dict(scope["headers"]).get(b"expect", b"").lower() != b"100-continue":
            await request.discard()
        await send({"type": "http.response.body", "body": b""})

    async def _answer(self, scope: dict[str, Any], request: _Request) -> Answer:
        path, method = scope["path"], scope["method"]
        told: dict[str, Any] = {"/": self._facts, "/health": {"under_way": self._under_way}}
        if method in ("GET", "HEAD") and path in told:
            return 200, wire.bytes_of(told[path])
        entry = path[1:]
        if entry not in self._batches.entries:
            known = ", ".join(self._batches.entries)
            return error(404, "LookupError", f"[serve] expected one of {known}, got {entry!r}")
        if method != "POST":
            return error(405, "ValueError", f"[serve] expected POST, got {method}")
        if self._under_way >= self._room:
            return error(503, "RuntimeError", f"[serve] {self._room} requests are under way")
        self._under_way += 1
        try:
            return await self._run(entry, scope, request)
        finally:
            self._under_way -= 1

    async def _run(self, entry: str, scope: dict[str, Any], request: _Request) -> Answer:
        held = _Held(self)
        try:
            async with self.reads(ARRIVES):
                body = await held.read(scope, request)
        except TimeoutError:
            if self._stops_at < math.inf:
                return error(503, "RuntimeError", "[serve] the server stops")
            return error(408, "TimeoutError", f"[serve] did not arrive within {ARRIVES} s")
        else:
            return body if isinstance(body, tuple) else await self._wait(entry, body, request)
        finally:
            held.let_go()

    async def _wait(self, entry: str, body: bytes, request: _Request) -> Answer:
        """The answer to a request that has arrived, by its deadline (Note [Time])."""
        loop, seconds = asyncio.get_running_loop(), self._batches.timeout
        answer: asyncio.Future[Answer] = loop.create_future()

        def arrived(told: Answer) -> None:
            if not answer.done():
                answer.set_result(told)

        def give(told: Answer) -> None:
            loop.call_soon_threadsafe(arrived, told)

        deadline = None if seconds is None else time.monotonic() + seconds
        job = Job(entry, body, give, deadline)
        self._batches.put(job)
        leaves = asyncio.ensure_future(request.leaves())
        either: tuple[asyncio.Future[Any], ...] = (answer, leaves)
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            leaves.cancel()
            return answer.result()
        self._batches.leave(job)
        if leaves.done():
            raise _Gone
        leaves.cancel()
        return late(seconds)


class _Request:
    """What a client sends.

    Attributes:
        ended: all of it has been read.
    """

    def __init__(self, front: Front, receive: _Receive) -> None:
        self._front, self._receive, self.ended = front, receive, False

    async def part(self) -> bytes:
        """The next part of the body.

        Raises:
            _Gone: the client is.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        self.ended = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    async def leaves(self) -> None:
        """Ends when the client is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def discard(self) -> None:
        """Reads on to the end of the body, for a time."""
        try:
            async with self._front.reads(DISCARDS):
                while not self.ended:
                    await self.part()
        except (TimeoutError, _Gone):
            pass


class _Held:
    """The bytes of a request, counted among those of all."""

    def __init__(self, front: Front) -> None:
        self._front, self._bytes = front, 0

    def let_go(self) -> None:
        self._front._bytes -= self._bytes

    async def read(self, scope: dict[str, Any], request: _Request) -> bytes | Answer:
        """What the client sends, or why it is not taken."""
        front, parts, told = self._front, list[bytes](), dict(scope["headers"])
        wanted = f"[serve] expected a request of at most {front._limit} bytes"
        large = error(413, "ValueError", wanted)
        if int(told.get(b"content-length", 0)) > front._limit:
            return large
        while not request.ended:
            part = await request.part()
            self._bytes += len(part)
            front._bytes += len(part)
            parts.append(part)
            if self._bytes > front._limit:
                return large
            if front._bytes > 4 * front._limit:
                return error(503, "MemoryError", "[serve] the requests that wait are too large")
        return b"".join(parts)
