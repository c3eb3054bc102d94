"""One step of a recurrent network.

Every cell takes one example, `(input_size)`, or a batch, `(batch, input_size)`, and a state of
the same kind, `(hidden_size)` or `(batch, hidden_size)`, which is zero if it is not given. All
parameters start uniform between ±1 / sqrt(hidden_size).

>>> import weft
>>> cell = weft.nn.GRUCell(10, 20)
>>> h = weft.zeros(3, 20)
>>> for x in weft.randn(6, 3, 10):
...     h = cell(x, h)
>>> h.shape
torch.Size([3, 20])
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import weft
from weft import _C, Tensor
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class RNNCellBase(Module):
    """Parameters and checks of a cell with a number of gates.

    Input (N, input_size) and state (N, hidden_size), the batch optional.

    >>> weft.nn.RNNCellBase(2, 3, True, num_chunks=4).weight_ih.shape
    torch.Size([12, 2])
    """

    __constants__: list[str] = ["input_size", "hidden_size", "bias"]
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        for name, shape in (
            ("weight_ih", (rows, input_size)),
            ("weight_hh", (rows, hidden_size)),
            ("bias_ih", (rows,)),
            ("bias_hh", (rows,)),
        ):
            wanted = bias or name.startswith("weight")
            parameter = None
            if wanted:
                parameter = Parameter(weft.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        if nonlinearity != "tanh":
            text += f", nonlinearity={nonlinearity}"
        return text

    def _zeros(self, input: Tensor) -> Tensor:
        """Return the state of a cell that has seen nothing."""
        shape = (*input.shape[:-1], self.hidden_size)
        return weft.zeros(shape, dtype=input.dtype, device=input.device)

    def _check_sizes(self, input: Tensor, *states: Tensor) -> None:
        """Raise a RuntimeError for features that the weights do not have."""
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"[{type(self).__name__}] expected features that the weights have, got others "
                f"(input has inconsistent input_size: got {input.shape[-1]} expected "
                f"{self.input_size})"
            )
        for k, state in enumerate(states):
            if state.shape[-1] != self.hidden_size:
                raise RuntimeError(
                    f"[{type(self).__name__}] expected a state that the weights have, got another "
                    f"(hidden{k} has inconsistent hidden_size: got {state.shape[-1]}, expected "
                    f"{self.hidden_size})"
                )

    def _fail_dims(self, tensor: Tensor, what: str) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead"
        )


class RNNCell(RNNCellBase):
    """`h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are `b_ih` and `b_hh`.
        nonlinearity: `"tanh"` or `"relu"`.
        device, dtype: of the parameters.

    Raises:
        RuntimeError: another nonlinearity (when called), or sizes that do not agree.
        ValueError: an input or a state that is neither 1-D nor 2-D.

    >>> weft.nn.RNNCell(2, 3)(weft.ones(1, 2)).shape
    torch.Size([1, 3])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if input.dim() not in (1, 2):
            self._fail_dims(input, "input")
        if hx is None:
            hx = self._zeros(input)
        elif hx.dim() not in (1, 2):
            self._fail_dims(hx, "hidden")
        self._check_sizes(input, hx)
        # The sum below would broadcast one state to a batch.
        if hx.shape[:-1] != input.shape[:-1]:
            raise RuntimeError(
                f"[RNNCell] expected a state for each input, got shapes {tuple(input.shape)} and "
                f"{tuple(hx.shape)}"
            )
        if self.nonlinearity == "tanh":
            step = _C.rnn_tanh_cell
        elif self.nonlinearity == "relu":
            step = _C.rnn_relu_cell
        else:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return step(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class GRUCell(RNNCellBase):
    """A gated recurrent unit (Cho et al., 2014).

    `r, z = sigmoid(W x + b + V h + c)` each, `n = tanh(W_n x + b_n + r * (V_n h + c_n))`,
    `h' = (1 - z) * n + z * h`. The weights hold r, z and n one below the other.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are `bias_ih` and `bias_hh`.
        device, dtype: of the parameters.

    Raises:
        RuntimeError: sizes that do not agree.
        ValueError: an input or a state that is neither 1-D nor 2-D.

    >>> weft.nn.GRUCell(2, 3)(weft.ones(1, 2)).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if input.dim() not in (1, 2):
            self._fail_dims(input, "input")
        if hx is None:
            hx = self._zeros(input)
        elif hx.dim() not in (1, 2):
            self._fail_dims(hx, "hidden")
        self._check_sizes(input, hx)
        return _C.gru_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class LSTMCell(RNNCellBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997).

    `i, f, o = sigmoid(W x + b + V h + c)` each, `g = tanh(W_g x + b_g + V_g h + c_g)`,
    `c' = f * c + i * g`, `h' = o * tanh(c')`. The weights hold i, f, g and o one below the other.
    The state is the pair `(h, c)`, and so is the output.

    Args:
        input_size: size of the input.
        hidden_size: size of h and of c.
        bias: whether there are `bias_ih` and `bias_hh`.
        device, dtype: of the parameters.

    Raises:
        RuntimeError: sizes that do not agree.
        ValueError: an input or a state that is neither 1-D nor 2-D.

    >>> h, c = weft.nn.LSTMCell(3, 4)(weft.ones(2, 3))
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if input.dim() not in (1, 2):
            self._fail_dims(input, "input")
        if hx is None:
            h = c = self._zeros(input)
        else:
            if not isinstance(hx, (tuple, list)):
                raise TypeError(
                    "[LSTMCell] expected a pair of Tensors as hx, got "
                    f"{type(hx).__name__} (argument 'hx' must be tuple of Tensors)"
                )
            h, c = hx
            if h.dim() not in (1, 2):
                self._fail_dims(h, "hx[0]")
            if c.dim() not in (1, 2):
                self._fail_dims(c, "hx[1]")
        self._check_sizes(input, h, c)
        return _C.ops._lstm_cell(
            input, h, c, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
