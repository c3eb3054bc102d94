"""The page's server: on 127.0.0.1, for those who know the token.

Every path begins with the token, and every request names this host: a page of elsewhere that
rebinds its name to 127.0.0.1 is refused, as is a wrong token (403). Nothing is served from disk but
the page, and what a page posts is JSON that the server's own page sent.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from weft.base.strict_json import text

if TYPE_CHECKING:
    from weft.see.view.session import View

MOST_POSTED = 1 << 16
PAUSE = 0.1  # seconds between two messages to a page
SIGN = 2.0  # seconds after which a page that hears nothing gets a sign of life


class Server:
    """Serves a view in threads of its own, which end with the process."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.token = secrets.token_urlsafe(24)
        server = self

        class Bound(_Handler):
            owner = server

        self._http = _Http(("127.0.0.1", 0), Bound)
        self.port = int(self._http.server_address[1])
        self.hosts = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        self.running = True
        threading.Thread(target=self._http.serve_forever, name="weft.view", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def close(self) -> None:
        if self.running:
            self.running = False
            self._http.shutdown()
            self._http.server_close()

    def leave(self) -> None:
        """In a process that was forked: the socket is the parent's."""
        self.running = False
        self._http.socket.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that has gone is no error."""


class _Handler(BaseHTTPRequestHandler):
    owner: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the program's terminal."""

    def do_GET(self) -> None:
        where = self._path()
        if where is None:
            return
        view = self.owner.view
        if where == [""]:
            from weft.see.view.offline import page_of

            page = page_of(None, view.title).encode(errors="backslashreplace")
            self._answer(page, "text/html; charset=utf-8")
        elif where == ["events"]:
            self._events()
        elif where == ["runs"]:
            from weft.see.view.runs import runs_of

            self._answer(text(runs_of(view.runs)).encode(), "application/json")
        elif len(where) == 2 and where[0] == "step" and _is_number(where[1]):
            self._answer(view.model(int(where[1])) or b"null", "application/json")
        elif len(where) == 3 and where[0] == "value" and all(map(_is_number, where[1:])):
            picture = view.value(int(where[1]), int(where[2]))
            self._answer(text(picture).encode(), "application/json")
        else:
            self._refuse(404, "there is no such page")

    def do_POST(self) -> None:
        where = self._path()
        if where is None:
            return
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.owner.hosts:
            return self._refuse(403, "of another page")
        if where != ["control"] or self.headers.get("Content-Type") != "application/json":
            return self._refuse(404, "there is nothing to post to")
        size = self.headers.get("Content-Length", "")
        if not _is_number(size) or not 0 <= int(size) <= MOST_POSTED:
            return self._refuse(413, "too much")
        try:
            wish = json.loads(self.rfile.read(int(size)), parse_constant=_refuse_number)
            wrong = self.owner.view.control(wish)
        except (
            ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError,
        ) as error:  # fmt: skip
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            return self._refuse(400, wrong)
        self._answer(b"{}", "application/json")

    def _path(self) -> list[str] | None:
        """What follows the token; None: refused."""
        parts = self.path.partition("?")[0].split("/")
        known = self.headers.get("Host") in self.owner.hosts
        right = secrets.compare_digest(parts[1].encode(), self.owner.token.encode())
        if not known or not right:
            self._refuse(403, "[view] expected the address that weft.view() printed")
            return None
        return parts[2:]

    def _refuse(self, code: int, why: str) -> None:
        self._answer(why.encode(), "text/plain; charset=utf-8", code)

    def _answer(self, data: bytes, kind: str, code: int = 200) -> None:
        self.send_response(code)
        self._headers(kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _headers(self, kind: str) -> None:
        for name, value in (
            ("Content-Type", kind), ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"), ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"), ("Cross-Origin-Resource-Policy", "same-origin"),
        ):  # fmt: skip
            self.send_header(name, value)

    def _events(self) -> None:
        """Tells of what changes until the page has gone."""
        self.send_response(200)
        self._headers("text/event-stream")
        self.end_headers()
        view, since, told = self.owner.view, 0, ""
        view.watch(1)
        try:
            while self.owner.running:
                state = view.state(since)
                history, since = state.pop("history"), state.pop("revision")
                now = text(state)
                if history or now != told:
                    told = now
                    message = text({**state, "history": history})
                    self.wfile.write(f"data: {message}\n\n".encode())
                else:
                    self.wfile.write(b":\n\n")
                self.wfile.flush()
                time.sleep(PAUSE)
                view.wait(SIGN)
        finally:
            view.watch(-1)


def _refuse_number(name: str) -> None:
    raise ValueError(f"[view] expected JSON, got {name}")


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
