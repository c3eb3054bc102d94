"""Recurrent layers over packed rows, for the modules, and the functions `torch` has of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import _C, Tensor
from weft.base import checks as _checks
from weft.nn.functional import dropout, linear

__all__ = ["gru", "lstm", "rnn_relu", "rnn_tanh"]

_CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "tanh", "RNN_RELU": "relu"}


def _first_rows(state: Tensor, rows: Tensor) -> Tensor:
    """`state` with its first rows replaced."""
    n = rows.shape[0]
    return rows if n == state.shape[0] else weft.cat((rows, state[n:]))


def _projected(
    gates: Tensor, h: Tensor, c: Tensor, w: Tensor, projection: Tensor, sizes: Sequence[int],
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """An LSTM whose state is projected, step by step (Sak et al. 2014)."""
    outputs: list[Any] = [None] * len(sizes)
    at = sum(sizes) if reverse else 0
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        rows = sizes[t]
        at -= rows if reverse else 0
        share = linear(h[:rows], w)
        wide, new_c, _ = _C.ops._lstm_gates(gates[at : at + rows], share, c[:rows])
        outputs[t] = linear(wide, projection)
        h, c = _first_rows(h, outputs[t]), _first_rows(c, new_c)
        at += 0 if reverse else rows
    return weft.cat(outputs), h, c


def _one_direction(
    mode: str, x: Tensor, h: Tensor, c: Tensor | None, weights: Sequence[Tensor], bias: bool,
    sizes: list[int], reverse: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    w_ih, w_hh, *rest = weights
    b_ih, b_hh = rest[:2] if bias else (None, None)
    if len(weights) % 2:
        both = None if b_ih is None or b_hh is None else b_ih + b_hh
        gates = linear(x, w_ih, both)
        return _projected(gates, h, c, w_hh, rest[-1], sizes, reverse)  # type: ignore[arg-type]
    out, h_n, c_n, _ = _C.ops._rnn_sequence(
        x, h, c, w_ih, w_hh, b_ih, b_hh, sizes, _CELLS[mode], reverse
    )
    return out, h_n, c_n if mode == "LSTM" else None


def run_layers(
    mode: str, weights: Sequence[Sequence[Tensor]], x: Tensor, sizes: list[int], h: Tensor,
    c: Tensor | None, *, bias: bool, directions: int, dropped: float, training: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """Every layer over packed rows x (N, input_size).

    Args:
        weights: of each layer and direction, in turn; an odd number of them projects the state.
        sizes: how many rows each step has.
        h, c: the states before the first step, (layers * directions, batch, size).
        dropped: the probability with which results between layers are zeroed.
    """
    last_h: list[Tensor] = []
    last_c: list[Any] = []
    for layer in range(len(weights) // directions):
        if layer and dropped:
            x = dropout(x, dropped, training)
        outputs = []
        for k in range(layer * directions, (layer + 1) * directions):
            out, h_n, c_n = _one_direction(
                mode, x, h[k], None if c is None else c[k], weights[k], bias, sizes,
                k % directions == 1,
            )  # fmt: skip
            outputs.append(out)
            last_h.append(h_n)
            last_c.append(c_n)
        x = outputs[0] if directions == 1 else weft.cat(outputs, 1)
    return x, weft.stack(last_h), None if c is None else weft.stack(last_c)


def _called(mode: str, given: tuple[Any, ...]) -> tuple[Tensor, Tensor, Tensor | None]:
    """The operators' two forms: a batch [L, N, size], or packed rows and how many each step has."""
    who = mode.lower()
    packed = isinstance(given[1], Tensor) and (who == "lstm" or isinstance(given[2], Tensor))
    if len(given) != 9:
        raise TypeError(f"[{who}] expected 9 arguments, got {len(given)}")
    if packed:
        x, steps, state, params, bias, layers, dropped, training, both = given
        sizes, batch_first = steps.tolist(), False
    else:
        x, state, params, bias, layers, dropped, training, both, batch_first = given
        x = x.transpose(0, 1) if batch_first else x
        sizes = [x.shape[1]] * x.shape[0]
    directions = 2 if both else 1
    count = len(params) // max(1, layers * directions)
    if count * layers * directions != len(params) or count not in (2, 3, 4, 5):
        raise RuntimeError(
            f"[{who}] expected as many weights for each of {layers} layers and {directions} "
            f"directions, got {len(params)}: got an incorrect number of RNN parameters"
        )
    h, c = (state[0], state[1]) if who == "lstm" else (state, None)
    rows = x if packed else x.reshape(-1, x.shape[-1])
    weights = [params[k : k + count] for k in range(0, len(params), count)]
    out, h, c = run_layers(
        mode, weights, rows, sizes, h, c, bias=bias, directions=directions, dropped=dropped,
        training=training,
    )  # fmt: skip
    if not packed:
        out = out.reshape(*x.shape[:2], out.shape[-1])
        out = out.transpose(0, 1) if batch_first else out
    return out, h, c


def _function(mode: str, what: str, states: str, gates: int) -> Callable[..., tuple[Tensor, ...]]:
    def function(*args: Any) -> tuple[Tensor, ...]:
        out, h, c = _called(mode, args)
        return (out, h) if c is None else (out, h, c)

    name = mode.lower()
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{what}, by its weights.

    `(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`, of
    (L, N, size), or `(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
    bidirectional)`, of packed rows. hx is {states}, each (layers * directions, N, hidden); params
    are the weights of one layer and direction after the other, as the layer has them.

    Returns: the states of every step, and the last {states}.

    Raises: TypeError for another number of arguments, RuntimeError for another one of weights.

    >>> h = weft.zeros(1, 2, 3)
    >>> params = [weft.ones({3 * gates}, 4), weft.ones({3 * gates}, 3)]
    >>> x, how = weft.ones(5, 2, 4), (False, 1, 0.0, False, False, False)
    >>> out, *last = weft.{name}(x, {states.replace("c", "h")}, params, *how)
    >>> out.shape, last[0].shape
    (torch.Size([5, 2, 3]), torch.Size([1, 2, 3]))
    """
    return function


lstm = _function("LSTM", "An LSTM over sequences", "(h, c)", 4)
gru = _function("GRU", "A GRU over sequences", "h", 3)
rnn_tanh = _function("RNN_TANH", "An RNN over sequences, with tanh", "h", 1)
rnn_relu = _function("RNN_RELU", "An RNN over sequences, with relu", "h", 1)

_checks.install(__name__)
