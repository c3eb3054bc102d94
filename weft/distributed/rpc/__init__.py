"""`torch.distributed.rpc` of a build without it: functions are not called in other processes.

>>> weft.distributed.rpc.is_available()
False
"""

__all__ = ["is_available"]


def is_available() -> bool:
    """False: there are no remote calls."""
    return False
