"""Functions that PyTorch's own modules call by another name of `torch`: `torch._VF.lstm`."""

from typing import Any

import weft


def __getattr__(name: str) -> Any:
    return getattr(weft, name)
