"""Sums of rows of a table as a layer.

>>> import weft
>>> bag = weft.nn.EmbeddingBag(4, 3, mode="sum")
>>> bag(weft.tensor([[0, 1], [2, 3]])).shape
torch.Size([2, 3])
"""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.nn import functional as F
from weft.nn import init
from weft.nn.module import Module
from weft.nn.parameter import Parameter


class EmbeddingBag(Module):
    """The sum, mean or maximum of the rows of a table that each bag names; see `embedding_bag`.

    Indices of B bags, (B, n), or (n) with offsets (B), give (B, embedding_dim).

    Args:
        num_embeddings: rows of the table.
        embedding_dim: features of a row.
        max_norm, norm_type: rows longer than this are shortened when they are used.
        scale_grad_by_freq: divide the gradient of a row by how often it was used.
        mode: `"sum"`, `"mean"` or `"max"`.
        sparse: whether the gradient of the table is a sparse tensor of the rows that were used.
        include_last_offset: whether offsets end with the number of indices.
        padding_idx: a row that does not count, zero at first.

    >>> bag = weft.nn.EmbeddingBag(10, 3, mode='sum')
    >>> bag(weft.tensor([1, 2, 4, 5]), weft.tensor([0, 3])).shape  # bags of 3 and of 1
    torch.Size([2, 3])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]
    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = padding_idx
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        if _weight is None:
            size = (num_embeddings, embedding_dim)
            self.weight = Parameter(weft.empty(size, device=device, dtype=dtype))
            self.reset_parameters()
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draw all rows from a normal distribution; the padding row is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with weft.no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return a layer over a given table `(rows, features)`, not trained if `freeze`."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, features = embeddings.shape
        layer = cls(
            rows,
            features,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        layer.weight.requires_grad = not freeze
        return layer

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        return text + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")
