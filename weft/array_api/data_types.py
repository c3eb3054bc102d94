"""Dtypes: what they are, what they become together, and their limits."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft import Tensor, dtype
from weft.array_api.operands import common_dtype, own, promoted
from weft.base.device import expect_cpu
from weft.base.forms import expect

#: The standard's dtypes, by their kinds.
KINDS: dict[str, tuple[dtype, ...]] = {
    "bool": (weft.bool,),
    "signed integer": (weft.int8, weft.int16, weft.int32, weft.int64),
    "unsigned integer": (weft.uint8, weft.uint16, weft.uint32, weft.uint64),
    "real floating": (weft.float32, weft.float64),
    "complex floating": (weft.complex64, weft.complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]


class FloatLimits(NamedTuple):
    """What `finfo` gives: the standard's limits of a floating dtype, as Python's numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


class IntegerLimits(NamedTuple):
    """What `iinfo` gives: the standard's limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: dtype


def astype(x: Tensor, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in another dtype: a copy, unless `copy=False` and nothing changes.

    The shape stays.

    >>> from weft import array_api as xp
    >>> xp.astype(xp.asarray([1, 2]), xp.float32)
    tensor([1., 2.])
    """
    expect_cpu(device)
    out = x.to(dtype)
    return own(x, out) if copy else out


def can_cast(from_: dtype | Tensor, to: dtype, /) -> bool:
    """Whether promotion leads from one dtype to the other: whether `to` is the common one.

    An array of any shape, or a dtype.

    >>> from weft import array_api as xp
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.int16, xp.int8)
    (True, False)
    """
    kind = from_.dtype if isinstance(from_, Tensor) else from_
    for given in (kind, to):
        expect("can_cast", given, dtype, "dtypes")
    try:
        return promoted(kind, to) is to
    except TypeError:
        return False


def finfo(type: dtype | Tensor, /) -> FloatLimits:  # noqa: A002
    """The limits of a floating dtype; a complex one counts as that of its parts.

    Raises: TypeError for any other dtype.

    A dtype, or an array of any shape.

    >>> from weft import array_api as xp
    >>> xp.finfo(xp.float32).dtype
    torch.float32
    """
    kind = type.dtype if isinstance(type, Tensor) else type
    found = weft.finfo(kind)
    return FloatLimits(
        found.bits, found.eps, found.max, found.min, found.smallest_normal, kind.to_real()
    )


def iinfo(type: dtype | Tensor, /) -> IntegerLimits:  # noqa: A002
    """The limits of an integer dtype.

    Raises: TypeError for any other dtype.

    A dtype, or an array of any shape.

    >>> from weft import array_api as xp
    >>> xp.iinfo(xp.int8)
    IntegerLimits(bits=8, max=127, min=-128, dtype=torch.int8)
    """
    kind = type.dtype if isinstance(type, Tensor) else type
    found = weft.iinfo(kind)
    return IntegerLimits(found.bits, found.max, found.min, kind)


def isdtype(dtype: dtype, kind: dtype | str | tuple[dtype | str, ...]) -> bool:
    """Whether the dtype is the given one, of the given kind, or of one of several.

    Args:
        dtype: any.
        kind: a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating", "numeric", or a tuple of such. float16 and bfloat16, which the
            standard does not know, are "real floating" too.

    Raises: ValueError for another word, TypeError for anything else.

    >>> from weft import array_api as xp
    >>> xp.isdtype(xp.int8, "integral"), xp.isdtype(xp.int8, ("bool", xp.float32))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"[isdtype] expected one of {', '.join(KINDS)}, got {kind!r}")
        beyond = dtype.is_floating_point and kind in ("real floating", "numeric")
        return dtype in KINDS[kind] or beyond
    expect("isdtype", kind, weft.dtype, "a dtype, the name of a kind, or a tuple of them")
    return dtype is kind


def result_type(*arrays_and_dtypes: Any) -> dtype:
    """The dtype of arrays, dtypes and numbers together.

    Raises: TypeError where all are numbers, and for dtypes without a common one.

    >>> from weft import array_api as xp
    >>> xp.result_type(xp.int8, xp.uint8, 1)
    torch.int16
    """
    return common_dtype("result_type", arrays_and_dtypes)
