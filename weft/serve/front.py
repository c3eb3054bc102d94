"""What takes requests and answers them: an ASGI application over a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from weft.serve import wire
from weft.serve.batches import Answer, Batches, Job, error

__all__ = ["Front"]

#: Seconds that a request may take to arrive, and that what is too large is read to its end, so that
#: a client which sends before it reads sees the answer.
ARRIVES, DISCARDS = 30.0, 5.0

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

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        try:
            status, body = await self._answer(scope, receive)
        except _Gone:
            return
        kind = (b"content-type", b"application/json")
        headers = [kind, (b"content-length", str(len(body)).encode())]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        head = scope["method"] == "HEAD"
        await send({"type": "http.response.body", "body": b"" if head else body})

    async def _answer(self, scope: dict[str, Any], receive: _Receive) -> Answer:
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
            return await self._run(entry, scope, receive)
        finally:
            self._under_way -= 1

    async def _run(self, entry: str, scope: dict[str, Any], receive: _Receive) -> Answer:
        held = _Held(self)
        try:
            async with asyncio.timeout(ARRIVES):
                body = await held.read(scope, receive)
        except TimeoutError:
            return error(408, "TimeoutError", f"[serve] did not arrive within {ARRIVES} s")
        else:
            return body if isinstance(body, tuple) else await self._wait(entry, body, receive)
        finally:
            held.let_go()

    async def _wait(self, entry: str, body: bytes, receive: _Receive) -> Answer:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()

        def arrived(told: Answer) -> None:
            if not answer.done():
                answer.set_result(told)

        def give(told: Answer) -> None:
            loop.call_soon_threadsafe(arrived, told)

        job = Job(entry, body, give)
        self._batches.put(job)
        leaves = asyncio.ensure_future(_leaves(receive))
        either: tuple[asyncio.Future[Any], ...] = (answer, leaves)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        leaves.cancel()
        if not answer.done():
            self._batches.leave(job)
            raise _Gone
        return answer.result()


class _Held:
    """The bytes of a request, counted among those of all."""

    def __init__(self, front: Front) -> None:
        self._front, self._bytes = front, 0

    def let_go(self) -> None:
        self._front._bytes -= self._bytes

    async def read(self, scope: dict[str, Any], receive: _Receive) -> bytes | Answer:
        """What the client sends, or why it is not taken."""
        front, parts, told = self._front, list[bytes](), dict(scope["headers"])
        if int(told.get(b"content-length", 0)) > front._limit:
            return await self._refuse(told, receive)
        more = True
        while more:
            message = await _next(receive)
            part, more = message.get("body", b""), message.get("more_body", False)
            self._bytes += len(part)
            front._bytes += len(part)
            parts.append(part)
            if self._bytes > front._limit:
                return await self._refuse(told, receive)
            if front._bytes > 4 * front._limit:
                return error(503, "MemoryError", "[serve] the requests that wait are too large")
        return b"".join(parts)

    async def _refuse(self, told: dict[bytes, bytes], receive: _Receive) -> Answer:
        if told.get(b"expect", b"").lower() != b"100-continue":
            try:
                async with asyncio.timeout(DISCARDS):
                    while (await _next(receive)).get("more_body", False):
                        pass
            except TimeoutError:
                pass
        limit = self._front._limit
        return error(413, "ValueError", f"[serve] expected a request of at most {limit} bytes")


async def _next(receive: _Receive) -> dict[str, Any]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _Gone
    return message


async def _leaves(receive: _Receive) -> None:
    """Ends when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
