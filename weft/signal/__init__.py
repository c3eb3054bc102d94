"""Signal processing: `weft.signal`."""

from weft.signal import windows

__all__ = ["windows"]
