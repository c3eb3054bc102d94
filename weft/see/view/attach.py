"""How a process that listens is found: a file of its own in a folder of its user alone."""

from __future__ import annotations

import atexit
import json
import os
import stat
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from weft.see.view.session import View


def folder() -> Path:
    """The user's folder, made where it is missing.

    Raises:
        PermissionError: one is there that is another's, or that others can read.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    path = Path(base, f"weft-{os.getuid()}")
    path.mkdir(mode=0o700, exist_ok=True)
    seen = path.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise PermissionError(f"[listen] expected a folder of this user alone, got {path}")
    return path


def _swept() -> Path:
    """The folder, without the files of processes that were killed."""
    from weft.experiments.stored import is_alive

    where = folder()
    for file in where.glob("*.json"):
        if file.stem.isdecimal() and not is_alive(int(file.stem)):
            file.unlink(missing_ok=True)
    return where


def announce(view: View) -> Path:
    """Writes down where the page of this process is, until the process ends."""
    path = _swept() / f"{os.getpid()}.json"
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump({"url": view.url}, file)
    pid = os.getpid()

    def forget() -> None:
        if os.getpid() == pid:
            path.unlink(missing_ok=True)

    atexit.register(forget)
    return path


def attach(pid: int) -> str:
    """Has a process that listens record its steps: the address of its page.

    Raises:
        ProcessLookupError: no process of this user listens under this number.
    """
    path = _swept() / f"{pid}.json"
    try:
        url: str = json.loads(path.read_text())["url"]
        wish = urllib.request.Request(
            f"{url}control", b'{"start": true}', {"Content-Type": "application/json"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(wish, timeout=10):
            return url
    except (OSError, ValueError, KeyError) as error:
        raise ProcessLookupError(
            f"[view] expected a process that called weft.listen(), got {pid}"
        ) from error
