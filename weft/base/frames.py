"""Which frames are the user's: those of files outside of weft's folder."""

from __future__ import annotations

import os
import sys
from types import FrameType

__all__ = ["HOME", "is_weft", "user_frame", "user_level"]

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_weft(frame: FrameType) -> bool:
    """Whether a frame runs weft's own code."""
    return frame.f_code.co_filename.startswith(HOME)


def user_frame() -> FrameType:
    """The innermost frame outside of weft; the outermost of all where there is none."""
    return _found()[0]


def user_level() -> int:
    """The `stacklevel` with which a warning of the caller's shows that frame's line."""
    return _found()[1]


def _found() -> tuple[FrameType, int]:
    frame, level = sys._getframe(2), 1
    while frame.f_back is not None and is_weft(frame):
        frame, level = frame.f_back, level + 1
    return frame, level
