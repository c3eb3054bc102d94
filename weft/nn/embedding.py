"""A table of vectors, looked up by number."""

from __future__ import annotations

from typing import Any

import weft
from weft import _C, Tensor
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class Embedding(Module):
    """From integers of any shape `(*)` to vectors, `(*, embedding_dim)`.

    The table starts with normal values.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of each vector.
        padding_idx: a row that starts with zeros and gets no gradient.
        max_norm: rows that are used and longer than this are shortened, in place.
        norm_type: the order of that norm.
        scale_grad_by_freq: divide the gradient of a row by how often the input names it.
        sparse: whether the gradient of the table is a sparse tensor of the rows that were used.
        device, dtype: of the table.

    Raises:
        AssertionError: `padding_idx` is out of range.

    >>> import weft
    >>> weft.nn.Embedding(10, 3)(weft.tensor([[1, 2], [4, 5]])).shape
    torch.Size([2, 2, 3])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]
    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(padding_idx, bool):
            raise TypeError("[Embedding] expected an int as padding_idx, got bool")
        if padding_idx is not None:
            in_range = -num_embeddings <= padding_idx < num_embeddings
            assert in_range, "Padding_idx must be within num_embeddings"
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            values = weft.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(values, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            assert tuple(_weight.shape) == shape, (
                "Shape of weight does not match num_embeddings and embedding_dim"
            )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return an embedding of a given table.

        Args:
            embeddings: `(num_embeddings, embedding_dim)`.
            freeze: whether the table is not to be trained.
            padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse: see the class.

        Raises:
            AssertionError: the table is not a matrix.

        >>> import weft
        >>> table = weft.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> weft.nn.Embedding.from_pretrained(table)(weft.tensor(1)).tolist()
        [3.0, 4.0]
        """
        assert embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional"
        rows, cols = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=cols,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with weft.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        if self.max_norm is None and not (self.scale_grad_by_freq or self.sparse):
            padding = self.padding_idx
            return _C.embedding(self.weight, input, -1 if padding is None else padding)
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse:
            text += ", sparse=True"
        return text
