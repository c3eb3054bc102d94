"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import weft
from weft import Tensor
from weft.base.forms import expect


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the values of all parameters one after the other, as one vector.

    >>> import weft
    >>> weft.nn.utils.parameters_to_vector([weft.zeros(2, 2), weft.ones(1)]).tolist()
    [0.0, 0.0, 0.0, 0.0, 1.0]
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(
            "[parameters_to_vector] expected tensors to iterate over, got "
            f"{type(parameters).__name__}"
        )
    items = list(parameters)
    for item in items:
        expect("parameters_to_vector", item, Tensor, "Tensors")
    return weft.cat([parameter.reshape(-1) for parameter in items])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters views of pieces of a vector, one after the other.

    Raises:
        TypeError: `vec` is not a tensor.
        RuntimeError: `vec` is too short.

    >>> import weft
    >>> p = weft.nn.Parameter(weft.zeros(1, 2))
    >>> weft.nn.utils.vector_to_parameters(weft.tensor([1.0, 2.0]), [p])
    >>> p.tolist()
    [[1.0, 2.0]]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view_as(parameter).data
        start = stop
