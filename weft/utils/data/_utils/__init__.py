"""What is behind a DataLoader, by PyTorch's private paths."""

from weft.utils.data._utils import collate as collate
from weft.utils.data._utils import fetch as fetch

__all__ = ["collate", "fetch"]

#: Seconds between looks whether a worker is alive.
MP_STATUS_CHECK_INTERVAL = 5.0
