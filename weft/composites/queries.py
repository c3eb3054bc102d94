"""What programs ask of places, memory and marks that weft has one of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._C import Tensor
from weft.base.device import expect_cpu
from weft.base.forms import attach, method
from weft.base.names import sparse_coo, sparse_csc, sparse_csr, strided

__all__ = ["get_device", "is_distributed", "is_storage", "is_tensor"]


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor.

    >>> weft.is_tensor(weft.ones(2)), weft.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> bool:
    """Whether `obj` is a storage.

    >>> weft.is_storage(weft.ones(2).untyped_storage())
    True
    """
    from weft.storage import TypedStorage, UntypedStorage

    return isinstance(obj, (UntypedStorage, TypedStorage))


@method
def get_device(input: Tensor) -> int:
    """-1: of the CPU, and of meta tensors.

    A tensor of any shape.

    >>> weft.get_device(weft.ones(2))
    -1
    """
    return -1


@method
def is_distributed(input: Tensor) -> bool:
    """False: a tensor of any shape is this process's.

    >>> weft.is_distributed(weft.ones(2))
    False
    """
    return False


@method
def cpu(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """self: it lives there already. A meta tensor raises NotImplementedError.

    The shape stays.

    >>> weft.ones(2).cpu()
    tensor([1., 1.])
    """
    return self.to("cpu") if self.is_meta else self


@method
def cuda(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises AssertionError: this build has the CPU only. `meta` tensors of any shape too.

    >>> weft.ones(2).cuda()
    Traceback (most recent call last):
    AssertionError: ...
    """
    expect_cpu("cuda")
    return self


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: there is no device that pages would be locked for.

    A tensor of any shape.

    >>> weft.ones(2).is_pinned()
    False
    """
    return False


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """RuntimeError: there is no device that pages would be locked for, whatever the shape.

    >>> weft.ones(2).pin_memory()
    Traceback (most recent call last):
    RuntimeError: ...
    """
    raise RuntimeError(
        "[pin_memory] expected an accelerator, got a build for the CPU (Cannot access accelerator "
        "device when none is available.)"
    )


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, of `dtype`; of a sparse one all elements.

    `masked_grad=False` gives a sparse tensor a gradient where it has no element too.

    >>> weft.eye(2).to_sparse().to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    return self if dtype is None else self.to(dtype)


@method
def dense_dim(self: Tensor) -> int:
    """The number of dimensions; of a sparse tensor those of each value.

    >>> weft.ones(2, 3).dense_dim(), weft.eye(2).to_sparse().dense_dim()
    (2, 0)
    """
    return self.dim()


@method
def sparse_dim(self: Tensor) -> int:
    """0; of a sparse tensor how many dimensions its indices tell.

    >>> weft.ones(2, 3).sparse_dim(), weft.eye(2).to_sparse().sparse_dim()
    (0, 2)
    """
    return 0


def _of_layout(name: str, wanted: str, doc: str, example: str = "") -> None:
    """A method that dense tensors have only to say so; sparse ones answer it (weft/sparse)."""

    def refuse(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"[{name}] expected a sparse tensor, got a dense one ({name} expected sparse "
            f"{wanted} tensor layout but got Strided)"
        )

    refuse.__name__ = name
    refuse.__doc__ = f"{doc} RuntimeError for a dense one.\n\n{example}"
    method(refuse)


_of_layout(
    "is_coalesced", "coordinate", "Whether a sparse tensor, of any shape, has no place twice.",
    ">>> weft.eye(2).to_sparse().is_coalesced()\nTrue",
)  # fmt: skip
_of_layout(
    "coalesce", "coordinate", "A sparse tensor of the same shape with each place once, in order.",
    ">>> i, v = weft.tensor([[0, 0]]), weft.ones(2)\n"
    ">>> weft.sparse_coo_tensor(i, v, (2,)).coalesce().values()\ntensor([2.])",
)  # fmt: skip
_of_layout(
    "indices", "coordinate", "The places of a coalesced sparse tensor: int64 [dimensions, places].",
    ">>> weft.eye(2).to_sparse().indices()\ntensor([[0, 1],\n        [0, 1]])",
)  # fmt: skip
_of_layout(
    "values", "coordinate", "The values of a coalesced sparse tensor: [places, *dense sizes].",
    ">>> weft.eye(2).to_sparse().values()\ntensor([1., 1.])",
)  # fmt: skip
_of_layout("_indices", "coordinate", "The places of a sparse tensor.")
_of_layout("_values", "coordinate", "The values of a sparse tensor, outside of the graph.")
_of_layout("_nnz", "coordinate", "How many values a sparse tensor has.")
_of_layout("_coalesced_", "coordinate", "Marks a sparse tensor as coalesced, in place.")
_of_layout(
    "crow_indices", "row compressed", "Where the rows of a CSR matrix begin: [rows + 1].",
    ">>> weft.eye(2).to_sparse_csr().crow_indices()\ntensor([0, 1, 2])",
)  # fmt: skip
_of_layout(
    "col_indices", "row compressed", "The column of each value of a CSR matrix: [values].",
    ">>> weft.eye(2).to_sparse_csr().col_indices()\ntensor([0, 1])",
)  # fmt: skip
_of_layout(
    "ccol_indices", "column compressed", "Where the columns of a CSC matrix begin: [columns + 1].",
    ">>> weft.eye(2).to_sparse_csc().ccol_indices()\ntensor([0, 1, 2])",
)  # fmt: skip
_of_layout(
    "row_indices", "column compressed", "The row of each value of a CSC matrix: [values].",
    ">>> weft.eye(2).to_sparse_csc().row_indices()\ntensor([0, 1])",
)  # fmt: skip
_of_layout(
    "sparse_resize_", "coordinate", "Gives a sparse tensor another size, in place.",
    ">>> weft.eye(2).to_sparse().sparse_resize_((3, 3), 2, 0).shape\ntorch.Size([3, 3])",
)  # fmt: skip


@method
def to_padded_tensor(
    self: Tensor, padding: float, output_size: Sequence[int] | None = None
) -> Tensor:
    """All parts of a nested tensor in one dense tensor (`weft.nested.to_padded_tensor`).

    NotImplementedError for a dense one.

    n parts [*] give [n, *], each size the largest of the parts' or as `output_size` says.

    >>> nt = weft.nested.nested_tensor([weft.ones(1), weft.ones(2)])
    >>> nt.to_padded_tensor(0)
    tensor([[1., 0.],
            [1., 1.]])
    """
    raise NotImplementedError(
        "[to_padded_tensor] expected a nested tensor, got a dense one (Could not run "
        "'aten::to_padded_tensor' with arguments from the 'CPU' backend.)"
    )


@method
def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """What is not zero, as a sparse tensor.

    Args:
        sparse_dim: how many of the dimensions, from the first on, indices tell; all by default.
        layout: `weft.sparse_coo`, which is the default, `weft.sparse_csr` or `weft.sparse_csc`.
        blocksize: None: there are no blocked layouts.
        dense_dim: how many of the last dimensions each value has.

    >>> import weft
    >>> weft.tensor([0.0, 2.0]).to_sparse()
    tensor(indices=tensor([[1]]),
           values=tensor([2.]),
           size=(2,), nnz=1, layout=torch.sparse_coo)
    """
    from weft.sparse.create import of_dense

    if blocksize is not None:
        raise NotImplementedError("[to_sparse] expected no blocksize: there are no blocked layouts")
    if sparse_dim is not None and not isinstance(sparse_dim, int):
        sparse_dim, layout = None, sparse_dim
    made: Tensor = of_dense(self, sparse_dim, sparse_coo if layout is None else layout, dense_dim)
    return made


@method
def to_sparse_coo(self: Tensor) -> Tensor:
    """`to_sparse()`.

    Of self's shape.

    >>> weft.eye(2).to_sparse_coo().to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    return self.to_sparse()


@method
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """What of a matrix is not zero, in CSR.

    [n, m], or a batch [*, n, m], gives the same shape.

    >>> import weft
    >>> weft.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return self.to_sparse(layout=sparse_csr, dense_dim=dense_dim)


@method
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """What of a matrix is not zero, in CSC.

    [n, m] gives the same shape.

    >>> import weft
    >>> weft.tensor([[0.0, 5.0], [6.0, 0.0]]).to_sparse_csc().values()
    tensor([6., 5.])
    """
    return self.to_sparse(layout=sparse_csc, dense_dim=dense_dim)


@method
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """What the tensor has at the places of a sparse one, as a sparse tensor.

    Of the mask's shape, which is self's.

    >>> import weft
    >>> weft.ones(2, 2).sparse_mask(weft.eye(2).to_sparse()).values()
    tensor([1., 1.])
    """
    raise RuntimeError(
        "[sparse_mask] expected a sparse mask, got a dense one (sparse_mask(): expected mask to "
        "have sparse layout)"
    )


@method
def smm(self: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, as a sparse tensor.

    [n, m] @ [m, k] give [n, k].

    >>> weft.eye(2).to_sparse().smm(weft.ones(2, 2)).to_dense()
    tensor([[1., 1.],
            [1., 1.]])
    """
    raise RuntimeError("[smm] expected a sparse matrix, got a dense one")


# ---- memory


@method
def const_data_ptr(self: Tensor) -> int:
    """The address of the first element.

    >>> t = weft.ones(2)
    >>> t.const_data_ptr() == t.data_ptr()
    True
    """
    return self.data_ptr()


@method
def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes (`share_memory_`).

    A tensor of any shape.

    >>> weft.ones(2).is_shared()
    False
    """
    import sys

    if self.is_meta or "weft.multiprocessing.shared" not in sys.modules:
        return False
    from weft.multiprocessing import shared

    return shared.is_shared(self)


@method
def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor's storage to memory that processes share, in place; returns self.

    Its shape stays.

    >>> weft.zeros(2).share_memory_().is_shared()
    True
    """
    from weft.multiprocessing import shared

    return shared.share_memory_(self)


@method
def untyped_storage(self: Tensor) -> Any:
    """The tensor's memory as an object (weft/storage.py).

    As many bytes as the whole memory has, whatever self's shape.

    >>> weft.zeros(2).untyped_storage().nbytes()
    8
    """
    from weft.storage import UntypedStorage

    return UntypedStorage._of(self)


@method
def storage(self: Tensor) -> Any:
    """The same with elements of the tensor's dtype.

    >>> weft.zeros(2).storage().size()
    2
    """
    from weft.storage import TypedStorage

    return TypedStorage._of(self)


@method
def _typed_storage(self: Tensor) -> Any:
    """`storage()`, which in PyTorch warns."""
    return self.storage()


# ---- marks


def _constant(name: str, value: Any, doc: str) -> None:
    attach(name, property(lambda self: value, doc=doc))


_constant("layout", strided, "`weft.strided`.")
attach("_cdata", property(id, doc="A number that no other tensor has while this one is there."))
_constant("name", None, "None: tensors have no names.")
_constant("is_nested", False, "Whether it is a nested tensor (weft.nested).")
for _name in (
    "is_cuda", "is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia",
    "is_quantized", "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu",
):  # fmt: skip
    _constant(_name, False, "False: there is no such tensor here.")
