"""Dtypes of PyTorch's that no tensor here has: names to compare with and to ask the limits of."""

from __future__ import annotations

__all__ = [
    "AbsentDtype", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
]  # fmt: skip


class AbsentDtype:
    """A floating dtype by its name, size and limits. Asking for a tensor of it raises TypeError."""

    is_floating_point, is_complex, is_signed = True, False, True
    itemsize = 1

    def __init__(self, name: str, eps: float, largest: float, tiny: float) -> None:
        self._name = name
        self.limits = (8, eps, largest, tiny, 1.0)

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


def _absent(name: str, eps: float, largest: float, tiny: float) -> AbsentDtype:
    """One of a class with its name, which errors tell: they name the type of what they refuse."""
    kind = type(name, (AbsentDtype,), {"__doc__": AbsentDtype.__doc__})
    made: AbsentDtype = kind(name, eps, largest, tiny)
    return made


float8_e4m3fn = _absent("float8_e4m3fn", 2.0**-3, 448.0, 2.0**-6)
float8_e4m3fnuz = _absent("float8_e4m3fnuz", 2.0**-3, 240.0, 2.0**-7)
float8_e5m2 = _absent("float8_e5m2", 2.0**-2, 57344.0, 2.0**-14)
float8_e5m2fnuz = _absent("float8_e5m2fnuz", 2.0**-3, 57344.0, 2.0**-15)
