"""oneDNN: weft does not use it."""


def is_available() -> bool:
    """False."""
    return False


#: Whether oneDNN may be used; there is none here, whatever it says.
enabled = True
