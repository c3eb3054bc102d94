"""`weft serve`: answers HTTP requests with a program that was saved."""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import weft
import weft.export

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = (
        "Answers POST /forward with the result of the program in FILE; requests that wait run as "
        "one batch. There is no password: whoever reaches the address may ask."
    )
    parser.add_argument("file", metavar="FILE", help="what weft.jit.save or weft.export.save wrote")
    option = parser.add_argument
    option("--host", default="127.0.0.1", help="the address to listen at (default: 127.0.0.1)")
    option("--port", type=_from(0, int, 65535), default=8000, help="0: a free one (default: 8000)")
    option("--batch", type=_from(1, int), default=32, help="requests of a batch (default: 32)")
    option("--wait", type=_from(0, float), default=2.0, metavar="MS",
           help="milliseconds that a request waits for others (default: 2)")  # fmt: skip
    option("--queue", type=_from(1, int), default=256,
           help="requests under way, beyond which the answer is 503 (default: 256)")  # fmt: skip
    option("--limit", type=_from(1e-6, float), default=64.0, metavar="MB",
           help="megabytes that a request may have (default: 64)")  # fmt: skip
    option("--timeout", type=_from(0.001, float), metavar="S",
           help="seconds until a request is answered (default: no limit)")  # fmt: skip


def _from(least: float, kind: Any, most: float = 1e9) -> Any:
    def number(text: str) -> Any:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {least} to {most:g}, got {text}")
        return value

    return number


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT, then answers what was accepted and returns 0; a second signal
    ends it at once."""
    try:
        import uvicorn
    except ImportError:
        print("weft serve needs uvicorn. Hint: pip install weft[serve]", file=sys.stderr)
        return 1
    from weft.serve.batches import Batches
    from weft.serve.front import Front

    try:
        exported = weft.export.load(args.file)
        family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
        listens = socket.create_server((args.host, args.port), family=family, backlog=1024)
    except (OSError, RuntimeError, ValueError) as e:
        print(f"weft serve: {e}", file=sys.stderr)
        return 1
    batches = Batches(exported, args.batch, args.wait / 1000, args.timeout)
    facts = _facts(exported, args.file, batches.entries)
    front: Any = Front(batches, facts, args.queue, int(args.limit * 1e6))

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            front.stop()
            lets_go = asyncio.ensure_future(front.lets_go(self.server_state.connections))
            await super().shutdown(sockets)
            lets_go.cancel()

    server = Server(uvicorn.Config(front, lifespan="off", access_log=False, log_level="warning"))

    def ends(*_: Any) -> None:
        if server.should_exit:  # for the second time: at once
            raise KeyboardInterrupt
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ends)

    # HTTP has the processor soon while a program runs: its time is short, and clients wait
    sys.setswitchinterval(0.0005)

    def serve() -> None:
        try:
            server.run(sockets=[listens])
        finally:
            batches.close()

    threading.Thread(target=serve, daemon=True).start()
    host, port = listens.getsockname()[:2]
    address = f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"
    print(f"{args.file} ({', '.join(batches.entries)}) at http://{address}", flush=True)
    try:
        batches.run()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _facts(exported: Any, file: str, entries: list[str]) -> dict[str, Any]:
    """What `GET /` says."""
    parameters = {
        name: {"shape": list(p.shape), "dtype": str(p.dtype).rpartition(".")[2]}
        for name, p in exported.named_parameters()
    }
    name = exported._program.original_name or Path(file).name
    return {"name": name, "entries": entries, "parameters": parameters}
