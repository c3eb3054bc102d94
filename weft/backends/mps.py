"""Apple's GPUs: weft does not use it."""


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Refused, as without the device in PyTorch.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "[is_macos_or_newer] expected a machine of Apple's, got another (Cannot execute "
        "isOnMacOSorNewer() without MPS backend.)"
    )
