"""Nested tensors: tensors of unlike length in one, without padding; layout `weft.jagged`.

>>> import weft
>>> x = weft.nested.nested_tensor([weft.ones(2, 4), weft.ones(3, 4)], layout=weft.jagged)
>>> weft.nn.functional.linear(x, weft.ones(1, 4)).sum(1)
tensor([[ 8.],
        [12.]])

The functions that take them are the tables of this package's modules (weft/nested/table.py); others
raise NotImplementedError. docs/nested.md is the guide.
"""

from weft.nested.create import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
