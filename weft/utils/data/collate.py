"""Samples to batches: tensors are stacked, numbers become tensors, containers keep their shape."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import weft
from weft._C import Tensor

_TEXT_KINDS = "SaUO"


def _unknown(kind: Any) -> TypeError:
    return TypeError(
        "[default_collate] expected tensors, numpy arrays, numbers, dicts or lists "
        "(default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {kind}), got {kind}"
    )


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _mapped(like: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """A mapping of the class of `like`, with its other attributes where it can be copied."""
    try:
        if isinstance(like, MutableMapping):
            out = copy.copy(like)
            out.update(values)
            return out
        return type(like)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _listed(like: Sequence[Any], values: list[Any]) -> Any:
    """A sequence of the class of `like`; plain tuples become lists, as in PyTorch."""
    if isinstance(like, tuple):
        return values
    try:
        if isinstance(like, MutableSequence):
            out = copy.copy(like)
            for i, value in enumerate(values):
                out[i] = value
            return out
        return type(like)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


# ---- one kind of sample each


def _tensors(batch: Sequence[Any], **_: Any) -> Tensor:
    return weft.stack(list(batch), 0)


def _arrays(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in _TEXT_KINDS:
        raise _unknown(batch[0].dtype)
    return collate([weft.as_tensor(a) for a in batch], collate_fn_map=collate_fn_map)


def _array_scalars(batch: Sequence[Any], **_: Any) -> Tensor:
    import numpy as np

    return weft.as_tensor(np.asarray(batch))


def _floats(batch: Sequence[Any], **_: Any) -> Tensor:
    return weft.tensor(list(batch), dtype=weft.float64)


def _ints(batch: Sequence[Any], **_: Any) -> Tensor:
    return weft.tensor(list(batch))


def _as_they_are(batch: Any, **_: Any) -> Any:
    return batch


#: What `default_collate` does by type; users may add to it.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _tensors,
    float: _floats,
    int: _ints,
    str: _as_they_are,
    bytes: _as_they_are,
}


def _add_numpy(sample: Any) -> None:
    """NumPy's types enter the map with the first sample of NumPy's: it is not imported before."""
    if type(sample).__module__ == "numpy" and not _knows_numpy():
        import numpy as np

        default_collate_fn_map[np.ndarray] = _arrays
        for kind in (np.bool_, np.number, np.object_):
            default_collate_fn_map[kind] = _array_scalars


def _knows_numpy() -> bool:
    return _arrays in default_collate_fn_map.values()


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """A batch of samples as one: by `collate_fn_map`, then by the kind of container.

    Raises:
        TypeError: a kind of sample without a rule.
        RuntimeError: sequences of unlike lengths.
    """
    sample = batch[0]
    kind = type(sample)
    if collate_fn_map is not None:
        if collate_fn_map is default_collate_fn_map:
            _add_numpy(sample)
        rule = collate_fn_map.get(kind) or next(
            (run for known, run in collate_fn_map.items() if isinstance(sample, known)), None
        )
        if rule is not None:
            return rule(batch, collate_fn_map=collate_fn_map)
    if isinstance(sample, Mapping):
        return _mapped(
            sample,
            {k: collate([s[k] for s in batch], collate_fn_map=collate_fn_map) for k in sample},
        )
    if _is_namedtuple(sample):
        return kind(*(collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch)))
    if isinstance(sample, Sequence):
        lengths = [len(s) for s in batch]
        if len(set(lengths)) > 1:
            raise RuntimeError(
                "[default_collate] expected sequences of one length (each element in list of batch "
                f"should be of equal size), got {lengths}"
            )
        parts = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch)]
        return _listed(sample, parts)
    raise _unknown(kind)


def default_collate(batch: Any) -> Any:
    """A list of samples as one batch, with a new first dimension.

    Tensors and arrays are stacked, ints and floats become int64 and float64 tensors, texts stay a
    list; dicts, named tuples and sequences of these are collated part by part.

    >>> weft.utils.data.default_collate([{"x": 0.5, "y": "a"}, {"x": 1.5, "y": "b"}])
    {'x': tensor([0.5000, 1.5000], dtype=torch.float64), 'y': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """One sample with NumPy's arrays and scalars as tensors; everything else as it is.

    >>> import numpy as np
    >>> weft.utils.data.default_convert({"x": np.zeros(2), "y": "a"})
    {'x': tensor([0., 0.], dtype=torch.float64), 'y': 'a'}
    """
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "bytes_"):
        if kind.__name__ == "ndarray" and data.dtype.kind in _TEXT_KINDS:
            return data
        return weft.as_tensor(data)
    if isinstance(data, Mapping):
        return _mapped(data, {key: default_convert(data[key]) for key in data})
    if _is_namedtuple(data):
        return kind(*(default_convert(part) for part in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _listed(data, [default_convert(part) for part in data])
    return data
