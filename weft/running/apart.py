"""A working folder of its own for each of the two runs of `weft run --compare`.

What a process writes below the folder goes into a layer over it that no other process sees, by
Linux's overlay in a mount namespace (mount_namespaces(7), user_namespaces(7)): the paths are the
same, nothing is copied, and the folder stays as it was. Where the system allows none, both runs
write into the one folder.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from contextlib import suppress

__all__ = ["Layer"]

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000


class Layer:
    """A layer over the working folder; what it holds is gone with `close`."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._place = tempfile.mkdtemp()
        for name in ("written", "work"):
            os.mkdir(os.path.join(self._place, name))
        self._system = ctypes.CDLL(None, use_errno=True)

    def enter(self) -> None:
        """Puts the layer over the folder for this process, between fork and exec, and for those
        that it starts. Does nothing where the system does not allow it."""
        below, written, work = (
            self._folder, os.path.join(self._place, "written"), os.path.join(self._place, "work"),
        )  # fmt: skip
        user, group = os.geteuid(), os.getegid()
        unshare = getattr(self._system, "unshare", None)
        if unshare is None or set(",:\\") & set(below + written):
            return
        if unshare(_NEW_USER | _NEW_MOUNTS) != 0:
            return
        with suppress(OSError):
            for name, text in (("uid_map", f"{user} {user} 1"), ("setgroups", "deny"),
                               ("gid_map", f"{group} {group} 1")):  # fmt: skip
                with open(f"/proc/self/{name}", "w", encoding="utf-8") as stream:
                    stream.write(text)
        options = f"lowerdir={below},upperdir={written},workdir={work},userxattr"
        self._system.mount(b"overlay", os.fsencode(below), b"overlay", 0, os.fsencode(options))
        os.chdir(below)

    def close(self) -> None:
        """Removes what has been written; the processes in it have ended."""
        own = os.path.join(self._place, "work", "work")  # made by the system, for nobody to look at
        with suppress(OSError):
            os.chmod(own, 0o700)
        shutil.rmtree(self._place, ignore_errors=True)
