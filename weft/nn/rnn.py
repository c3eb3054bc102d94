"""Recurrent layers over whole sequences: RNN, GRU and LSTM.

The input is `(T, B, input_size)`, `(B, T, input_size)` with `batch_first`, `(T, input_size)` for
one sequence, or a `PackedSequence` of unlike lengths. The output has the last layer's states of
every step, those of both directions side by side; then come the last states of every layer and
direction, `(num_layers * directions, B, hidden_size)`. All parameters start uniform between
±1 / sqrt(hidden_size).

>>> import weft
>>> rnn = weft.nn.GRU(10, 20, num_layers=2)
>>> output, h = rnn(weft.zeros(5, 3, 10))
>>> output.shape, h.shape
(torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import weft
from weft import Tensor
from weft.base.warn import warn
from weft.nn import init
from weft.nn.functional_rnn import run_layers
from weft.nn.module import Module
from weft.nn.parameter import Parameter
from weft.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """What RNN, GRU and LSTM share: parameters, checks, the walk over layers and directions.

    Input (L, N, input_size), or (N, L, input_size) with `batch_first`.

    >>> [name for name, _ in weft.nn.RNNBase("GRU", 2, 3).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        flags = {"bias": bias, "batch_first": batch_first, "bidirectional": bidirectional}
        for flag, given in flags.items():
            if not isinstance(given, bool):
                raise TypeError(
                    f"[{mode}] expected {flag} should be of type bool, got: {type(given).__name__}"
                )
        if mode not in _GATES:
            raise ValueError(f"[RNNBase] expected a mode of {list(_GATES)}, got {mode!r}")
        _check_sizes(input_size, hidden_size, num_layers, proj_size, mode)
        valid = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
        if not valid or not 0 <= dropout <= 1:
            raise ValueError(
                "[RNNBase] expected dropout should be a number in range [0, 1] representing the "
                f"probability of an element being zeroed, got {dropout!r}"
            )
        if dropout > 0 and num_layers == 1:
            warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}"
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        rows = _GATES[mode] * hidden_size
        state = proj_size or hidden_size
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            fan_in = input_size if layer == 0 else state * directions
            for suffix in ("", "_reverse")[:directions]:
                shapes: dict[str, tuple[int, ...]]
                shapes = {"weight_ih": (rows, fan_in), "weight_hh": (rows, state)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = {f"{name}_l{layer}{suffix}": s for name, s in shapes.items()}
                for name, shape in names.items():
                    value = weft.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(name, Parameter(value))
                self._all_weights.append(list(names))
        self.reset_parameters()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_names" in state:  # as it was called once
            state = {**state, "_all_weights": state["_names"]}
            del state["_names"]
        super().__setstate__(state)

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: the layers read the parameters where they are. As in PyTorch on a CPU."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of every layer and direction, by position."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
            ("dropout", 0), ("bidirectional", False),
        ):  # fmt: skip
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text

    def _check_input(self, input: Tensor, packed: bool) -> None:
        who = type(self).__name__
        dims = (2,) if packed else (2, 3)
        if input.dim() not in dims:
            raise ValueError(
                f"[{who}] expected a sequence or a batch, got {input.dim()} dims ({who}: Expected "
                f"input to be {' or '.join(f'{d}D' for d in dims)}, got {input.dim()}D instead)"
            )
        kind = next(iter(self.parameters())).dtype
        if input.dtype is not kind and not weft.is_autocast_enabled():
            raise ValueError(
                f"[{who}] expected an input of the weights' dtype: RNN input dtype ({input.dtype}) "
                f"does not match weight dtype ({kind}). Hint: convert input: input.to({kind})"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"[{who}] expected input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )
        weight = getattr(self, "weight_ih_l0")  # noqa: B009
        if input.dtype != weight.dtype:
            raise ValueError(
                f"[{who}] expected an input of the weights' dtype, RNN input dtype ({input.dtype}) "
                f"does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )

    def _check_state(self, state: Tensor, batch: int, width: int, what: str) -> None:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        if tuple(state.shape) != (layers, batch, width):
            raise RuntimeError(
                f"[{type(self).__name__}] Expected {what} size {(layers, batch, width)}, got "
                f"{list(state.shape)}"
            )

    def _zeros(self, batch: int, width: int, like: Tensor) -> Tensor:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        return weft.zeros(layers, batch, width, dtype=like.dtype, device=like.device)

    def _run(
        self, x: Tensor, sizes: list[int], h: Tensor, c: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Every layer over packed rows x (N, input_size)."""
        return run_layers(
            self.mode, self.all_weights, x, sizes, h, c, bias=self.bias,
            directions=2 if self.bidirectional else 1, dropped=self.dropout, training=self.training,
        )  # fmt: skip

    def _forward(
        self, input: Any, h: Tensor | None, c: Tensor | None
    ) -> tuple[Any, Tensor, Tensor | None]:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, h, c)
        self._check_input(input, packed=False)
        one = input.dim() == 2
        x = input.unsqueeze(1) if one else input.transpose(0, 1) if self.batch_first else input
        for state in (h, c):
            if state is not None and state.dim() != (2 if one else 3):
                raise RuntimeError(
                    f"[{type(self).__name__}] For {'unbatched 2-D' if one else 'batched 3-D'} "
                    f"input, hx should also be {2 if one else 3}-D but got {state.dim()}-D tensor"
                )
        steps, batch = x.shape[:2]
        if steps == 0:
            raise RuntimeError(
                f"[{type(self).__name__}] Expected sequence length to be larger than 0 in RNN, "
                "got 0"
            )
        if one:
            h = None if h is None else h.unsqueeze(1)
            c = None if c is None else c.unsqueeze(1)
        h, c = self._states(h, c, batch, x)
        rows = x.reshape(steps * batch, self.input_size)
        out, h, c = self._run(rows, [batch] * steps, h, c)
        out = out.reshape(steps, batch, out.shape[-1])
        if one:
            return out.squeeze(1), h.squeeze(1), None if c is None else c.squeeze(1)
        return out.transpose(0, 1) if self.batch_first else out, h, c

    def _forward_packed(
        self, input: PackedSequence, h: Tensor | None, c: Tensor | None
    ) -> tuple[PackedSequence, Tensor, Tensor | None]:
        self._check_input(input.data, packed=True)
        sizes = input.batch_sizes.tolist()
        order, back = input.sorted_indices, input.unsorted_indices
        given_h, given_c = h, c
        h, c = self._states(h, c, sizes[0], input.data)
        if order is not None:
            order = order.to(h.device)
            h = h if given_h is None else h.index_select(1, order)
            c = c if given_c is None or c is None else c.index_select(1, order)
        out, h, c = self._run(input.data, sizes, h, c)
        if back is not None:
            back = back.to(h.device)
            h = h.index_select(1, back)
            c = None if c is None else c.index_select(1, back)
        return input._with(out), h, c

    def _states(
        self, h: Tensor | None, c: Tensor | None, batch: int, like: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        lstm = self.mode == "LSTM"
        width = self.proj_size or self.hidden_size
        if h is None:
            h = self._zeros(batch, width, like)
            c = self._zeros(batch, self.hidden_size, like) if lstm else None
        else:
            self._check_state(h, batch, width, "hidden[0]" if lstm else "hidden")
            if lstm:
                self._check_state(c, batch, self.hidden_size, "hidden[1]")  # type: ignore[arg-type]
        return h, c


def _check_sizes(
    input_size: Any, hidden_size: Any, num_layers: int, proj_size: int, mode: str
) -> None:
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(
                f"[RNNBase] expected {name} should be of type int, got: {type(value).__name__}"
            )
    if input_size <= 0:
        raise ValueError(
            f"[RNNBase] expected input_size must be greater than zero, got {input_size}"
        )
    if hidden_size <= 0:
        raise ValueError(
            f"[RNNBase] expected hidden_size must be greater than zero, got {hidden_size}"
        )
    if num_layers <= 0:
        raise ValueError(
            f"[RNNBase] expected num_layers must be greater than zero, got {num_layers}"
        )
    if proj_size < 0 or proj_size >= hidden_size:
        raise ValueError(
            "[RNNBase] expected proj_size between 0 and hidden_size (proj_size has to be smaller "
            f"than hidden_size), got {proj_size}"
        )
    if proj_size and mode != "LSTM":
        raise ValueError(
            f"[{mode}] expected no proj_size (proj_size argument is only supported for LSTM, not "
            f"RNN or GRU), got {proj_size}"
        )


class RNN(RNNBase):
    """`h' = tanh(W_ih x + b_ih + W_hh h + b_hh)` over sequences (Elman 1990).

    Args:
        input_size, hidden_size: of a step's input and of the state.
        num_layers: layers, each reading the states of the one before.
        nonlinearity: "tanh" or "relu".
        bias, batch_first: see the module.
        dropout: after every layer but the last, while training.
        bidirectional: a second set of layers runs from the last step to the first.

    Raises:
        ValueError, TypeError: arguments out of range; inputs of other dims or dtypes.
        RuntimeError: sizes that do not fit, no step at all.

    >>> output, h = weft.nn.RNN(3, 4)(weft.ones(5, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("[RNN] expected no proj_size: it is only supported for LSTM, got one")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"[RNN] Unknown nonlinearity {nonlinearity!r}. Select from 'tanh' or 'relu'."
            )
        self.nonlinearity = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, h, _ = self._forward(input, hx, None)
        return out, h


class GRU(RNNBase):
    """Gated recurrent units over sequences (Cho et al. 2014, in PyTorch's form; see GRUCell).

    The arguments are those of `RNN` without nonlinearity.

    Input (L, N, input_size), or (N, L, input_size) with `batch_first`; see `RNN`.

    >>> rnn = weft.nn.GRU(3, 4, batch_first=True, bidirectional=True)
    >>> output, h = rnn(weft.ones(2, 5, 3))
    >>> output.shape, h.shape
    (torch.Size([2, 5, 8]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError(
                "[GRU] expected no proj_size: proj_size argument is only supported for LSTM, not "
                "RNN or GRU, got one"
            )
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        out, h, _ = self._forward(input, hx, None)
        return out, h


class LSTM(RNNBase):
    """Long short-term memory over sequences (Hochreiter and Schmidhuber 1997; see LSTMCell).

    The arguments are those of `RNN` without nonlinearity, and `proj_size`: the state h is projected
    to so many units (Sak et al. 2014). The state is the pair `(h, c)`.

    Input (L, N, input_size), or (N, L, input_size) with `batch_first`; see `RNN`.

    >>> rnn = weft.nn.LSTM(3, 4, num_layers=2)
    >>> output, (h, c) = rnn(weft.ones(5, 2, 3))  # 5 steps of 2 sequences
    >>> output.shape, h.shape, c.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        h, c = (None, None) if hx is None else (hx[0], hx[1])
        out, h, c = self._forward(input, h, c)
        return out, (h, c)  # type: ignore[return-value]
