"""Steps of recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

from weft import _C
from weft._C import Tensor

__all__ = ["lstm_cell"]


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One LSTM step: input [..., in], hx = (h, c) [..., d], w_ih [4d, in], w_hh [4d, d].

    The result is (h, c), each [..., d].

    >>> x, h = weft.ones(1, 3), weft.zeros(1, 2)
    >>> weft.lstm_cell(x, (h, h), weft.zeros(8, 3), weft.zeros(8, 2))
    (tensor([[0., 0.]]), tensor([[0., 0.]]))
    """
    h, c = hx
    return _C.ops._lstm_cell(input, h, c, w_ih, w_hh, b_ih, b_hh)
