"""Recurrent layers: RNN, GRU and LSTM, a step at a time or by weft's layers where these fit."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.onnx.operators.elements import hard_sigmoid, softplus, thresholded_relu
from weft.onnx.operators.table import operator

_WITH_ALPHA = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0,
               "affine": 1.0, "scaledtanh": 1.0}  # fmt: skip
_WITH_BETA = {"hardsigmoid": 0.5, "affine": 0.0, "scaledtanh": 1.0}
_KNOWN = {*_WITH_ALPHA, "sigmoid", "tanh", "relu", "softsign", "softplus"}


def _applied(function: tuple[str, float, float], x: Tensor) -> Tensor:
    """A function of the standard's, with its alpha and beta."""
    name, alpha, beta = function
    if name == "sigmoid":
        return weft.sigmoid(x)
    if name == "tanh":
        return weft.tanh(x)
    if name == "relu":
        return weft.relu(x)
    if name == "softsign":
        return x / (1 + weft.abs(x))
    if name == "softplus":
        return softplus(x)
    if name == "leakyrelu":
        return weft.nn.functional.leaky_relu(x, alpha)
    if name == "thresholdedrelu":
        return thresholded_relu(x, alpha=alpha)
    if name == "hardsigmoid":
        return hard_sigmoid(x, alpha=alpha, beta=beta)
    if name == "elu":
        return weft.nn.functional.elu(x, alpha)
    if name == "affine":
        return alpha * x + beta
    return alpha * weft.tanh(beta * x)  # scaledtanh


def _activations(
    names: list[str] | None, alphas: Any, betas: Any, default: list[str], directions: int
) -> list[tuple[str, float, float]]:
    """Name, alpha and beta of each function, of all directions."""
    out, a, b = [], 0, 0
    for wanted in names or default * directions:
        name = wanted.lower()
        alpha, beta = _WITH_ALPHA.get(name, 0.0), _WITH_BETA.get(name, 0.0)
        if name in _WITH_ALPHA:
            if alphas and a < len(alphas):
                alpha = alphas[a]
            a += 1
        if name in _WITH_BETA:
            if betas and b < len(betas):
                beta = betas[b]
            b += 1
        out.append((name, alpha, beta))
    return out


def _unknown(words: dict[str, Any]) -> str | None:
    odd = [n for n in words.get("activations", []) if n.lower() not in _KNOWN]
    return f"the activation {odd[0]!r}" if odd else None


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else weft.clamp(x, -clip, clip)


Functions = list[tuple[str, float, float]]


def _rnn_step(x: Tensor, h: Tensor, W: Tensor, R: Tensor, B: Tensor, f: Functions,
              clip: float | None) -> Tensor:  # fmt: skip
    n = R.shape[-1]
    z = weft.nn.functional.linear(x, W, B[:n]) + weft.nn.functional.linear(h, R, B[n:])
    return _applied(f[0], _clipped(z, clip))


def _gru_step(x: Tensor, h: Tensor, W: Tensor, R: Tensor, B: Tensor, f: Functions,
              clip: float | None, linear_first: int) -> Tensor:  # fmt: skip
    n = R.shape[-1]
    wide = weft.nn.functional.linear(x, W, B[: 3 * n])
    own = weft.nn.functional.linear(h, R[: 2 * n], B[3 * n : 5 * n])
    z = _applied(f[0], _clipped(wide[:, :n] + own[:, :n], clip))
    r = _applied(f[0], _clipped(wide[:, n : 2 * n] + own[:, n:], clip))
    if linear_first:
        inner = r * weft.nn.functional.linear(h, R[2 * n :], B[5 * n :])
    else:
        inner = weft.nn.functional.linear(r * h, R[2 * n :], B[5 * n :])
    new = _applied(f[1], _clipped(wide[:, 2 * n :] + inner, clip))
    return (1 - z) * new + z * h


def _lstm_step(
    x: Tensor, h: Tensor, c: Tensor, W: Tensor, R: Tensor, B: Tensor, P: Tensor | None,
    f: Functions, clip: float | None, coupled: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    n = R.shape[-1]
    wide = weft.nn.functional.linear(x, W, B[: 4 * n])
    wide = wide + weft.nn.functional.linear(h, R, B[4 * n :])
    i, o, forget = wide[:, :n], wide[:, n : 2 * n], wide[:, 2 * n : 3 * n]
    if P is not None:
        i, forget = i + P[:n] * c, forget + P[2 * n :] * c
    i = _applied(f[0], _clipped(i, clip))
    forget = 1 - i if coupled else _applied(f[0], _clipped(forget, clip))
    c = forget * c + i * _applied(f[1], _clipped(wide[:, 3 * n :], clip))
    if P is not None:
        o = o + P[n : 2 * n] * c
    return _applied(f[0], _clipped(o, clip)) * _applied(f[2], c), c


def _gates(t: Tensor, cell: str) -> Tensor:
    """A weight with its gates in weft's order, which is PyTorch's."""
    if cell not in ("lstm", "gru"):
        return t
    order = (0, 2, 3, 1) if cell == "lstm" else (1, 0, 2)
    parts = weft.chunk(t, len(order))
    return weft.cat([parts[k] for k in order])


def _whole(cell: str, x: Tensor, h: Tensor, c: Tensor | None, W: Tensor, R: Tensor, B: Tensor,
           backwards: bool) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """A direction by the op that weft's own layers are."""
    steps, rows = x.shape[:2]
    half = B.shape[0] // 2
    out, h, last, _ = _C.ops._rnn_sequence(
        x.reshape([steps * rows, -1]), h, c, _gates(W, cell), _gates(R, cell),
        _gates(B[:half], cell), _gates(B[half:], cell), [rows] * steps, cell, backwards,
    )  # fmt: skip
    return out.reshape([steps, rows, -1]), h, last if cell == "lstm" else None


def _direction(cell: str, x: Tensor, h: Tensor, c: Tensor, W: Tensor, R: Tensor, B: Tensor,
               P: Tensor | None, f: Functions, clip: float | None, lengths: Tensor | None,
               backwards: bool, flag: int) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """A direction over all steps; rows that are over keep their state and give zeros."""
    n, rows = x.shape[0], []
    for k in range(n):
        t = n - 1 - k if backwards else k
        at, new_h, new_c = x[t], h, c
        if cell == "lstm":
            new_h, new_c = _lstm_step(at, h, c, W, R, B, P, f, clip, flag)
        elif cell == "gru":
            new_h = _gru_step(at, h, W, R, B, f, clip, flag)
        else:
            new_h = _rnn_step(at, h, W, R, B, f, clip)
        if lengths is None:
            h, c = new_h, new_c
            rows.append(h)
        else:
            runs = (lengths > t).unsqueeze(1)
            h, c = weft.where(runs, new_h, h), weft.where(runs, new_c, c)
            rows.append(weft.where(runs, new_h, weft.zeros_like(new_h)))
    return weft.stack(rows[::-1] if backwards else rows), h, c


def _layer(cell: str, plain: bool, X: Tensor, W: Tensor, R: Tensor, B: Tensor | None,
           initial_h: Tensor | None, initial_c: Tensor | None, P: Tensor | None, f: Functions,
           clip: float | None, lengths: Tensor | None, direction: str, layout: int, flag: int,
           outputs: int) -> Any:  # fmt: skip
    """All directions of a layer, in ONNX's layout."""
    first_h, first_c = initial_h, initial_c
    if layout:
        X = X.transpose(0, 1)
        first_h = None if first_h is None else first_h.transpose(0, 1)
        first_c = None if first_c is None else first_c.transpose(0, 1)
    n, rows, hs, cs = R.shape[-1], [], [], []
    each = len(f) // (2 if direction == "bidirectional" else 1)
    for d in range(2 if direction == "bidirectional" else 1):
        backwards = direction == "reverse" or d == 1
        zeros = weft.zeros([X.shape[1], n], dtype=X.dtype)
        h = zeros if first_h is None else first_h[d]
        c = zeros if first_c is None else first_c[d]
        bias = weft.zeros([2 * W.shape[1]], dtype=X.dtype) if B is None else B[d]
        if plain and lengths is None and clip is None and P is None:
            out, h, last = _whole(
                cell, X, h, c if cell == "lstm" else None, W[d], R[d], bias, backwards
            )
            c = c if last is None else last
        else:
            own = f[d * each : d * each + each]
            peep = None if P is None else P[d]
            out, h, c = _direction(
                cell, X, h, c, W[d], R[d], bias, peep, own, clip, lengths, backwards, flag
            )
        rows.append(out)
        hs.append(h)
        cs.append(c)
    y, h, c = weft.stack(rows, 1), weft.stack(hs), weft.stack(cs)
    if layout:
        y, h, c = y.permute(2, 0, 1, 3), h.transpose(0, 1), c.transpose(0, 1)
    if outputs == 1:
        return y
    return (y, h) if outputs == 2 else (y, h, c)


@operator("RNN", refuses=_unknown)
def rnn(
    X: Tensor, W: Tensor, R: Tensor, B: Tensor | None = None, sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """h = f(x Wᵀ + h Rᵀ + b)."""
    found = _activations(activations, activation_alpha, activation_beta, ["tanh"], W.shape[0])
    names = [name for name, _, _ in found]
    alike = names in (["tanh"] * len(names), ["relu"] * len(names))
    return _layer(names[0], alike, X, W, R, B, initial_h, None, None, found, clip, sequence_lens,
                  direction, layout, 0, outputs)  # fmt: skip


@operator("GRU", refuses=_unknown)
def gru(
    X: Tensor, W: Tensor, R: Tensor, B: Tensor | None = None, sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None, *, activation_alpha: Any = None, activation_beta: Any = None,
    activations: Any = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Cho et al. 2014; the gates are z, r and h."""
    default = ["sigmoid", "tanh"]
    found = _activations(activations, activation_alpha, activation_beta, default, W.shape[0])
    plain = [name for name, _, _ in found] == default * (len(found) // 2) and linear_before_reset
    return _layer("gru", bool(plain), X, W, R, B, initial_h, None, None, found, clip,
                  sequence_lens, direction, layout, linear_before_reset, outputs)  # fmt: skip


@operator("LSTM", refuses=_unknown)
def lstm(
    X: Tensor, W: Tensor, R: Tensor, B: Tensor | None = None, sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, P: Tensor | None = None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    input_forget: int = 0, layout: int = 0, outputs: int,
) -> Any:  # fmt: skip
    """Hochreiter & Schmidhuber 1997, with peepholes if given; the gates are i, o, f and c."""
    default = ["sigmoid", "tanh", "tanh"]
    found = _activations(activations, activation_alpha, activation_beta, default, W.shape[0])
    plain = [name for name, _, _ in found] == default * (len(found) // 3) and not input_forget
    return _layer("lstm", plain, X, W, R, B, initial_h, initial_c, P, found, clip, sequence_lens,
                  direction, layout, input_forget, outputs)  # fmt: skip
