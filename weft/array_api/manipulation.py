"""Shapes: the same elements in another form."""

from __future__ import annotations

from collections.abc import Sequence

import weft
from weft import Tensor
from weft.array_api.operands import Axes, alike, expect_array, own

Arrays = tuple[Tensor, ...] | list[Tensor]


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """The arrays, expanded to their common shape.

    >>> from weft import array_api as xp
    >>> [tuple(x.shape) for x in xp.broadcast_arrays(xp.ones((2, 1)), xp.ones(3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(tuple(x.shape) for x in arrays))
    return tuple(x.expand(shape) for x in arrays)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast.

    Raises: ValueError for shapes that do not.

    >>> from weft import array_api as xp
    >>> xp.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    try:
        return tuple(weft.broadcast_shapes(*shapes))
    except RuntimeError as error:
        raise ValueError(*error.args) from None


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """A view of `x` in a shape to which it broadcasts.

    >>> from weft import array_api as xp
    >>> xp.broadcast_to(xp.asarray([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return weft.broadcast_to(x, shape)


def concat(arrays: Arrays, /, *, axis: int | None = 0) -> Tensor:
    """The arrays one behind the other along `axis`, in their common dtype; without one, flat.

    [n, *] and [m, *] give [n + m, *] along axis 0.

    >>> from weft import array_api as xp
    >>> xp.concat([xp.ones((1, 2)), xp.zeros((1, 2))], axis=None)
    tensor([1., 1., 0., 0.])
    """
    parts = alike("concat", *arrays)
    if axis is None:
        return weft.cat([x.reshape(-1) for x in parts])
    return weft.cat(parts, axis)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """A view with a dimension of size 1 at each place `axis` of the result.

    Raises: IndexError for a place that the result has not, ValueError for one place twice.

    >>> from weft import array_api as xp
    >>> xp.expand_dims(xp.ones(3), axis=(0, -1)).shape
    torch.Size([1, 3, 1])
    """
    expect_array("expand_dims", x)
    places = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = x.ndim + len(places)
    for place in places:
        if not -rank <= place < rank:
            raise IndexError(
                f"[expand_dims] expected an axis in [{-rank}, {rank - 1}], got {place}"
            )
    found = sorted({place % rank for place in places})
    if len(found) != len(places):
        raise ValueError(f"[expand_dims] expected each axis once, got {places}")
    for place in found:
        x = x.unsqueeze(place)
    return x


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """The elements in reverse order along `axis`, or along all.

    >>> from weft import array_api as xp
    >>> xp.flip(xp.arange(3))
    tensor([2, 1, 0])
    """
    expect_array("flip", x)
    axes: Sequence[int] = (
        tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    )
    return weft.flip(x, list(axes))


def moveaxis(
    x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """A view with the dimensions `source` at the places `destination`; the others keep their order.

    >>> from weft import array_api as xp
    >>> xp.moveaxis(xp.ones((2, 3, 4)), 0, -1).shape
    torch.Size([3, 4, 2])
    """
    return weft.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """A view with the dimensions in the order `axes`.

    >>> from weft import array_api as xp
    >>> xp.permute_dims(xp.ones((2, 3, 4)), (2, 0, 1)).shape
    torch.Size([4, 2, 3])
    """
    return weft.permute(x, axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element, or each slice along `axis`, as often as told; without an axis, flat.

    Args:
        x: any shape.
        repeats: a number, or integers of shape `(x.shape[axis],)` or `(1,)`.
        axis: the dimension.

    >>> from weft import array_api as xp
    >>> xp.repeat(xp.arange(3), xp.asarray([2, 0, 1]))
    tensor([0, 0, 2])
    """
    if isinstance(repeats, Tensor):
        return weft.repeat_interleave(x, repeats.long(), axis)
    return weft.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape, of which one size may be -1.

    Args:
        x: any shape.
        shape: with as many elements.
        copy: True for memory of its own, False for a view or a ValueError, None for either.

    >>> from weft import array_api as xp
    >>> xp.reshape(xp.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    expect_array("reshape", x)
    out = weft.reshape(x, shape)
    shared = out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    if copy is False and not shared:
        raise ValueError("[reshape] expected a layout that has a view for copy=False, got another")
    return out.clone() if copy and shared else out


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Tensor:
    """The elements moved `shift` places on along `axis`, those at the end to the beginning.

    One shift for several axes is that of each; without an axis the elements move in flat order.

    >>> from weft import array_api as xp
    >>> xp.roll(xp.arange(4), 1)
    tensor([3, 0, 1, 2])
    """
    if axis is None:
        return weft.roll(x, shift)
    if not isinstance(axis, int) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return weft.roll(x, shift, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """A view without the dimensions `axis`.

    Raises: ValueError where one is not of size 1.

    >>> from weft import array_api as xp
    >>> xp.squeeze(xp.ones((1, 3)), axis=0).shape
    torch.Size([3])
    """
    expect_array("squeeze", x)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for place in axes:
        if x.shape[place] != 1:
            raise ValueError(f"[squeeze] expected size 1 at axis {place}, got {x.shape[place]}")
    return weft.squeeze(x, axes)


def stack(arrays: Arrays, /, *, axis: int = 0) -> Tensor:
    """The arrays, of one shape, side by side along a new dimension, in their common dtype.

    >>> from weft import array_api as xp
    >>> xp.stack([xp.ones(2), xp.zeros(2)], axis=-1)
    tensor([[1., 0.],
            [1., 0.]])
    """
    return weft.stack(alike("stack", *arrays), axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array, as often along each dimension as told.

    >>> from weft import array_api as xp
    >>> xp.tile(xp.arange(2), (2, 2))
    tensor([[0, 1, 0, 1],
            [0, 1, 0, 1]])
    """
    return own(x, weft.tile(x, repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, as views.

    [n, *] gives n arrays [*] along axis 0.

    >>> from weft import array_api as xp
    >>> xp.unstack(xp.arange(2))
    (tensor(0), tensor(1))
    """
    return tuple(weft.unbind(x, axis))
