"""`assert_close`: PyTorch's comparison, with its defaults and its words."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import weft
from weft import Tensor

#: rtol and atol by dtype; other dtypes have to be equal
_TOLERANCES = {
    weft.float16: (1e-3, 1e-5),
    weft.bfloat16: (1.6e-2, 1e-5),
    weft.float32: (1.3e-6, 1e-5),
    weft.float64: (1e-7, 1e-7),
    weft.complex32: (1e-3, 1e-5),
    weft.complex64: (1.3e-6, 1e-5),
    weft.complex128: (1e-7, 1e-7),
}


class _Options:
    """How two values are compared."""

    def __init__(
        self, rtol: float | None, atol: float | None, nan: bool, attributes: frozenset[str]
    ) -> None:
        self.rtol, self.atol, self.nan, self.attributes = rtol, atol, nan, attributes

    def tolerances(self, *kinds: Any) -> tuple[float, float]:
        """Those given, or the greatest default of the dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        defaults = [_TOLERANCES.get(k, (0.0, 0.0)) for k in kinds]
        return max(d[0] for d in defaults), max(d[1] for d in defaults)


class _Mismatch(Exception):
    """What differs, and where."""

    def __init__(self, text: str, place: tuple[Any, ...] = ()) -> None:
        self.text, self.place = text, place


def _report(kind: str, pairs: Any, rtol: float, atol: float) -> str:
    exact = rtol == 0 and atol == 0
    words = "equal" if exact else "close"
    lines = [f"{kind} are not {words}!", ""]
    for text, allowed in pairs:
        lines.append(text if exact or allowed is None else f"{text} (up to {allowed} allowed)")
    return "\n".join(lines)


def _strided(t: Tensor) -> Tensor:
    return t if t.layout == weft.strided else t.to_dense()


def _compare_tensors(actual: Tensor, expected: Tensor, options: _Options) -> None:
    def equal(name: str, of: Callable[[Tensor], Any]) -> None:
        a, b = of(actual), of(expected)
        if a != b and name in options.attributes:
            raise _Mismatch(f"The values for attribute '{name}' do not match: {a} != {b}.")

    equal("shape", lambda t: t.shape)
    equal("layout", lambda t: t.layout)
    if actual.layout == expected.layout == weft.strided:
        equal("stride()", lambda t: t.stride())
    equal("device", lambda t: t.device)
    equal("dtype", lambda t: t.dtype)
    if actual.is_meta or expected.is_meta:
        return  # there are no values to compare
    if actual.layout != expected.layout:
        actual, expected = _strided(actual), _strided(expected)
    rtol, atol = options.tolerances(actual.dtype, expected.dtype)
    kind = weft.promote_types(actual.dtype, expected.dtype)
    actual, expected = actual.detach().to(kind), expected.detach().to(kind)
    if kind is weft.complex32:
        actual, expected = actual.to(weft.complex64), expected.to(weft.complex64)
    elif kind.is_floating_point and kind.itemsize == 1:
        return _compare_float8(actual, expected, rtol, atol, options)
    elif kind not in _TOLERANCES:
        wide = weft.bool if kind is weft.bool else weft.int64
        actual, expected = actual.to(wide), expected.to(wide)
    close = weft.isclose(actual, expected, rtol, atol, options.nan)
    if bool(close.all()):
        return
    if kind is weft.bool:
        actual, expected = actual.to(weft.int64), expected.to(weft.int64)
    difference = (actual - expected).abs()
    if kind in (weft.float16, weft.bfloat16):
        difference = difference.float()
    relative = difference / expected.abs()

    def worst(of: Tensor) -> tuple[Any, Any]:
        hidden = of.masked_fill(close, 0).flatten()
        at = int(hidden.argmax())
        place = weft.unravel_index(weft.tensor(at), of.shape) if of.dim() else ()
        return hidden[at].item(), tuple(int(i) for i in place)

    count, total = int((~close).sum()), close.numel()
    (most, at), (share, share_at) = worst(difference), worst(relative)
    if not close.dim():
        pairs = [(f"Expected {expected.item()} but got {actual.item()}.", None),
                 (f"Absolute difference: {most}", atol),
                 (f"Relative difference: {share}", rtol)]  # fmt: skip
        raise _Mismatch(_report("Scalars", pairs, rtol, atol))
    pairs = [(f"Mismatched elements: {count} / {total} ({count / total:.1%})", None),
             (f"Greatest absolute difference: {most} at index {at}", atol),
             (f"Greatest relative difference: {share} at index {share_at}", rtol)]  # fmt: skip
    raise _Mismatch(_report("Tensor-likes", pairs, rtol, atol))


def _compare_float8(
    actual: Tensor, expected: Tensor, rtol: float, atol: float, options: _Options
) -> None:
    """Floats of 8 bits have to be equal: no tolerance would tell anything of them."""
    if rtol or atol:
        raise _Mismatch(
            f"Rtol={rtol} and atol={atol} are not supported for bitwise comparison of low "
            "dimensional floats. Please use rtol=0.0 and atol=0.0."
        )
    actual, expected = actual.float(), expected.float()
    same = actual == expected
    if options.nan:
        same |= actual.isnan() & expected.isnan()
    count, total = int((~same).sum()), same.numel()
    if not count:
        return
    if not same.dim():
        a, e = actual.item(), expected.item()
        difference = abs(a - e)
        share = difference / abs(e) if e else float("inf")
        pairs = [(f"Expected {e} but got {a}.", None),
                 (f"Absolute difference: {difference}", None),
                 (f"Relative difference: {share}", None)]  # fmt: skip
        raise _Mismatch(_report("Scalars", pairs, 0, 0))
    place = tuple(int(i) for i in (~same).nonzero()[0])
    raise _Mismatch(
        f"Tensor-likes are not 'equal'!\n\nMismatched elements: {count} / {total} "
        f"({count / total:.1%})\nThe first mismatched element is at index "
        f"{place}."
    )


_KINDS = {bool: weft.bool, int: weft.int64, float: weft.float64, complex: weft.complex128}


def _compare_numbers(actual: Any, expected: Any, options: _Options) -> None:
    if isinstance(actual, bool) or isinstance(expected, bool):
        if actual != expected:
            raise _Mismatch(f"Booleans mismatch: {actual} is not {expected}")
        return
    kinds = [next((v for k, v in _KINDS.items() if type(x) is k), weft.float64)
             for x in (actual, expected)]  # fmt: skip
    if "dtype" in options.attributes and kinds[0] is not kinds[1]:
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    rtol, atol = options.tolerances(*kinds)
    difference = abs(actual - expected)
    both_nan = actual != actual and expected != expected
    if (
        actual == expected
        or (options.nan and both_nan)
        or (difference <= atol + rtol * abs(expected) and difference != float("inf"))
    ):
        return
    share = difference / abs(expected) if expected else float("inf")
    pairs = [(f"Expected {expected} but got {actual}.", None),
             (f"Absolute difference: {difference}", atol),
             (f"Relative difference: {share}", rtol)]  # fmt: skip
    raise _Mismatch(_report("Scalars", pairs, rtol, atol))


def _as_tensor(value: Any) -> Any:
    if isinstance(value, Tensor) or not hasattr(value, "__array_interface__"):
        return value
    return weft.as_tensor(value)


def _compare(actual: Any, expected: Any, options: _Options, place: tuple[Any, ...]) -> None:
    """Raise a _Mismatch with the place inside containers, or a TypeError for other types."""
    plain = str, bytes
    try:
        if actual is None or expected is None:
            if actual is not expected:
                raise _Mismatch(f"None mismatch: {actual} is not {expected}")
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            _compare_keys(actual, expected)
            for key in sorted(actual) if _sortable(actual) else actual:
                _compare(actual[key], expected[key], options, (*place, key))
        elif (
            isinstance(actual, Sequence) and isinstance(expected, Sequence)
            and not isinstance(actual, plain) and not isinstance(expected, plain)
        ):  # fmt: skip
            if len(actual) != len(expected):
                raise _Mismatch(
                    f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
                )
            for i, (a, b) in enumerate(zip(actual, expected)):
                _compare(a, b, options, (*place, i))
        elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
            _compare_numbers(actual, expected, options)
        else:
            a, b = _as_tensor(actual), _as_tensor(expected)
            if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
                raise TypeError(
                    "[assert_close] expected two tensors, numbers or containers of them, got "
                    f"others (No comparison pair was able to handle inputs of type {type(actual)} "
                    f"and {type(expected)}.)"
                )
            _compare_tensors(a, b, options)
    except _Mismatch as found:
        raise _Mismatch(found.text, found.place or place) from None


def _sortable(keys: Any) -> bool:
    try:
        sorted(keys)
    except TypeError:
        return False
    return True


def _compare_keys(actual: Any, expected: Any) -> None:
    if set(actual) == set(expected):
        return
    lines = ["The keys of the mappings do not match:"]
    for what, keys in (
        ("Missing keys in the actual", set(expected) - set(actual)),
        ("Additional keys in the actual", set(actual) - set(expected)),
    ):
        if keys:
            lines.append(f"{what} mapping: {sorted(keys) if _sortable(keys) else list(keys)}")
    raise _Mismatch("\n".join(lines))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError that says what differs, unless both are close.

    Close is `|actual - expected| <= atol + rtol |expected|`, element by element. Mappings and
    sequences are compared item by item.

    Args:
        actual, expected: tensors, arrays, numbers, None, or mappings or sequences of such.
        allow_subclasses: compare a tensor with one of a subclass, too.
        rtol, atol: tolerances, both or none; the defaults go by the dtype, and whole numbers have
            to be equal.
        equal_nan: nan is close to nan.
        check_device, check_dtype, check_layout: these have to agree; layouts that need not are
            compared by their elements. Those of the meta device have none to compare.
        check_stride: the strides of strided tensors have to agree.
        msg: the error's text, or a function that makes it of the text.

    Raises:
        AssertionError: they differ.
        TypeError: no such values.
        ValueError: one tolerance without the other.

    >>> weft.testing.assert_close(weft.ones(2) / 3, weft.full((2,), 1 / 3))
    """
    if (rtol is None) != (atol is None):
        given, missing = ("rtol", "atol") if atol is None else ("atol", "rtol")
        raise ValueError(
            f"[assert_close] expected both tolerances or none, got {given} alone (rtol and atol "
            f"must both be specified or both be unspecified, but got no {missing})"
        )
    if not allow_subclasses and type(actual) is not type(expected):
        raise TypeError(
            f"[assert_close] expected one type, got {type(actual)} and {type(expected)} (No "
            "comparison pair was able to handle them)"
        )
    checked = {"device": check_device, "dtype": check_dtype, "layout": check_layout,
               "stride()": check_stride, "shape": True}  # fmt: skip
    options = _Options(rtol, atol, equal_nan, frozenset(k for k, v in checked.items() if v))
    try:
        _compare(actual, expected, options, ())
    except _Mismatch as found:
        text = found.text
        if found.place:
            where = "".join(f"[{p!r}]" for p in found.place)
            text += f"\n\nThe failure occurred for item {where}"
        text = text if msg is None else msg(text) if callable(msg) else msg
        raise AssertionError(text) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: Any = "",
) -> None:
    """`assert_close` under its older name: dtypes may differ, and nan is close to nan.

    >>> weft.testing.assert_allclose(weft.ones(2), weft.ones(2, dtype=weft.float64))
    """
    assert_close(
        _as_tensor(actual) if isinstance(actual, Tensor) else weft.as_tensor(actual),
        weft.as_tensor(expected), rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
        msg=msg or None,
    )  # fmt: skip
