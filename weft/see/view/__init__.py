"""The graph in the browser: the page, what it shows, and the server behind it."""

from __future__ import annotations

import os
import sys

from weft.base.checks import index, of_type
from weft.see.view.server import Server
from weft.see.view.session import View

__all__ = ["View", "listen", "view"]

EVERY = 50  # steps of which one is recorded

_current: View | None = None


def view(
    *,
    every: int = EVERY,
    title: str | None = None,
    metrics: str | os.PathLike[str] | None = None,
    runs: str | os.PathLike[str] = "runs",
) -> View:
    """Serves a page that shows the steps of this process, and prints where.

    The page is on 127.0.0.1 behind a random token, and ends with the process. A step goes from one
    call of an optimizer's `step` to the next, or to the next `View.step()`. One in `every` is
    recorded, with statistics; the others cost the call of a hook. The first call decides; later
    ones return the same `View`.

    Args:
        every: record one step in so many; the page can change it, and ask for the next one.
        title: above the page; the script's name if left out.
        metrics: a file of JSON lines with a `step` and numbers each, shown as it grows.
        runs: the folder of `weft.experiment`, whose runs the page compares.

    Raises:
        ValueError: `every` below 1.
        TypeError: `every` is no integer, `title` no string, `metrics` or `runs` no path.

    >>> page = weft.view()
    >>> page.url.startswith("http://127.0.0.1:")
    True
    >>> page.log(loss=0.5)
    >>> page.close()
    """
    page = _serve("view", every, title, metrics, runs)
    page.start()
    print(f"[view] {page.url}", file=sys.stderr)
    return page


def listen(
    *,
    every: int = EVERY,
    title: str | None = None,
    metrics: str | os.PathLike[str] | None = None,
    runs: str | os.PathLike[str] = "runs",
) -> View:
    """Lets `weft view --attach PID` reach this process; until then nothing is recorded.

    Where the page is stands in a file that only this user can read. The arguments are those of
    `view`.

    Raises:
        PermissionError: the folder of such files is another's, or others can read it.
        TypeError, ValueError: as of `view`.
    """
    from weft.see.view.attach import announce

    page = _serve("listen", every, title, metrics, runs)
    announce(page)
    return page


def _serve(
    who: str,
    every: int,
    title: str | None,
    metrics: str | os.PathLike[str] | None,
    runs: str | os.PathLike[str],
) -> View:
    global _current
    every = index(every, who, "every")
    if every < 1:
        raise ValueError(f"[{who}] expected every >= 1, got {every}")
    of_type(who, "title", title, None, str)
    of_type(who, "metrics", metrics, None, str, os.PathLike)
    of_type(who, "runs", runs, str, os.PathLike)
    if _current is None:
        name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "weft"
        page = View(every, title or name, metrics, runs)
        page.server = Server(page)
        _current = page
    return _current


def forget(page: View) -> None:
    """The page is closed: the next call of `view` opens another."""
    global _current
    if _current is page:
        _current = None


def _after_fork() -> None:
    """The page is the parent's."""
    global _current
    if _current is not None:
        _current.leave()
        _current = None


os.register_at_fork(after_in_child=_after_fork)
