"""Methods and properties of Tensor that need no speed: plain Python, attached to the C type.

PyTorch's semantics throughout. What is an op is not here: the table makes those methods.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import _C, _composites, _functions, _inplace, _tensor_queries
from weft._C import Size, Tensor, dtype
from weft._device import device, expect_cpu
from weft._names import _Named, tensortype

_Methods: dict[str, Any] = {}


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    _Methods[function.__name__] = function
    return function


def _property(function: Callable[[Tensor], Any]) -> None:
    _Methods[function.__name__] = property(function)


_CPU = device("cpu")


# ---- the graph


@_method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds d(self)/d(leaf) to `.grad` of every leaf it was made from.

    `gradient`: of self's shape, needed unless self has one element. `retain_graph`: keep the graph
    for another pass (default: `create_graph`). `inputs`: only these get a gradient.

    >>> x = weft.tensor([1., 2.], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is not None:
        from weft.autograd._backward import as_tuple

        inputs = as_tuple(inputs)
        if not inputs:
            raise RuntimeError(
                "[backward] expected inputs to name at least one tensor, got an empty "
                "sequence (`inputs` argument to `backward()` cannot be empty.)"
            )
    _C._backward((self,), (gradient,), bool(keep), bool(create_graph), inputs, True, True)


@_method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Any:
    """`hook(grad)` runs when the gradient of self is known; what it returns replaces it."""
    return _C._register_hook(self, hook)


@_method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> Any:
    """`hook(self)` runs after self's `.grad` was updated; for leaves."""
    return _C._register_after_accumulate(self, hook)


@_method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Sets `requires_grad` and returns self."""
    if not isinstance(requires_grad, bool):
        raise TypeError(f"[requires_grad_] expected a bool, got {requires_grad.__class__.__name__}")
    self.requires_grad = requires_grad
    return self


@_method
def is_inference(self: Tensor) -> bool:
    """Whether it was made in `inference_mode`."""
    return self._inference


# ---- conversion


@_method
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """A NumPy array over the same memory. `force=True` detaches first.

    >>> weft.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    import numpy as np

    if force:
        self = self.detach()
    if self.requires_grad:
        raise RuntimeError(
            "[numpy] expected a tensor outside the graph, got one that requires grad "
            "(Can't call numpy() on Tensor that requires grad.). Hint: use "
            "tensor.detach().numpy() instead."
        )
    return np.asarray(memoryview(self))


@_method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


@_method
def __format__(self: Tensor, spec: str) -> str:
    if self.dim() == 0:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


@_method
def __dlpack__(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over the same memory, for other array libraries.

    Raises: BufferError for a tensor that requires grad or for another device.
    """
    if self.requires_grad:
        raise BufferError(
            "[__dlpack__] expected a tensor outside the graph, got one that requires "
            "grad (Can't export tensors that require gradient). Hint: use "
            "tensor.detach()"
        )
    if dl_device not in (None, (1, 0)):
        raise BufferError(f"[__dlpack__] expected the CPU (1, 0), got {dl_device}")
    return _C._to_dlpack(self.clone() if copy else self, max_version)


@_method
def __array_wrap__(
    self: Tensor, array: Any, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """What NumPy's functions make of a tensor is a tensor again, sharing the result's memory."""
    return weft.from_numpy(array)


_Methods["__array_priority__"] = 1000  # array + tensor is the tensor's to answer


@_method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """DLPack's name of the CPU."""
    return (1, 0)


def _parse_to(args: Sequence[Any], kwargs: dict[str, Any]) -> dtype | None:
    """The dtype asked for by the arguments of `to`, after checking the rest."""
    wanted: dtype | None = kwargs.pop("dtype", None)
    kwargs.pop("non_blocking", None)
    kwargs.pop("copy", None)
    expect_cpu(kwargs.pop("device", None))
    if kwargs:
        raise TypeError(
            f"[to] expected dtype, device, non_blocking or copy, got '{next(iter(kwargs))}'"
        )
    for arg in args:
        if isinstance(arg, Tensor):
            wanted = arg.dtype
        elif isinstance(arg, dtype) or arg in (float, int, bool, complex):
            wanted = arg
        elif isinstance(arg, (str, device)) or (isinstance(arg, int) and not isinstance(arg, bool)):
            expect_cpu(arg)
        elif not isinstance(arg, bool) and arg is not None:
            raise TypeError(
                f"[to] expected a dtype, a device or a tensor, got {arg.__class__.__name__}"
            )
    return wanted


@_method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`to(dtype)`, `to(device)`, `to(other)`: self if nothing changes, else a converted copy.

    >>> weft.ones(2).to(weft.int64)
    tensor([1, 1])
    """
    copy, form = kwargs.get("copy", False), kwargs.pop("memory_format", None)
    wanted = _parse_to(args, kwargs)
    out = self if wanted is None else _C.ops.to(self, wanted)
    out = out.clone() if copy and out is self else out
    return out if form is None else _in_format("to", out, form)


def _in_format(who: str, t: Tensor, form: Any) -> Tensor:
    """`t` in the order of a memory format, which "preserve" leaves as it is."""
    if not isinstance(form, _Named):
        raise TypeError(f"[{who}] expected a memory format, got {form!r}")
    return t if form is weft.preserve_format else t.contiguous(memory_format=form)


def _converter(name: str, to_dtype: dtype) -> None:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        out = _C.ops.to(self, to_dtype)
        return out if memory_format is None else _in_format(name, out, memory_format)

    convert.__name__ = name
    convert.__doc__ = f"self as {to_dtype}."
    _method(convert)


_converter("float", _C.float32)
_converter("double", _C.float64)
_converter("long", _C.int64)
_converter("bool", _C.bool)
_converter("half", _C.float16)
_converter("bfloat16", _C.bfloat16)
_converter("byte", _C.uint8)
_converter("char", _C.int8)
_converter("short", _C.int16)
_converter("int", _C.int32)
_converter("cfloat", _C.complex64)
_converter("cdouble", _C.complex128)

_TYPE_NAMES = {
    "torch.FloatTensor": _C.float32,
    "torch.DoubleTensor": _C.float64,
    "torch.LongTensor": _C.int64,
    "torch.BoolTensor": _C.bool,
    "torch.IntTensor": _C.int32,
    "torch.ShortTensor": _C.int16,
    "torch.CharTensor": _C.int8,
    "torch.ByteTensor": _C.uint8,
    "torch.HalfTensor": _C.float16,
    "torch.BFloat16Tensor": _C.bfloat16,
    "torch.ComplexFloatTensor": _C.complex64,
    "torch.ComplexDoubleTensor": _C.complex128,
}


@_method
def type(self: Tensor, dtype: Any = None, **kwargs: Any) -> Any:  # noqa: A001
    """The type's name ('torch.FloatTensor'), or self converted to `dtype`."""
    if dtype is None:
        return next(k for k, v in _TYPE_NAMES.items() if v is self.dtype)
    if isinstance(dtype, str) and dtype not in _TYPE_NAMES:
        raise ValueError(f"[type] expected one of {', '.join(_TYPE_NAMES)}, got {dtype!r}")
    if isinstance(dtype, tensortype):
        dtype = dtype.dtype
    return self.to(_TYPE_NAMES.get(dtype, dtype), **kwargs)


@_method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """self in other's dtype."""
    return _C.ops.to(self, other.dtype)


@_method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """self: it lives there already."""
    return self


@_method
def cuda(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises AssertionError: this build has the CPU only."""
    expect_cpu("cuda")
    return self


@_method
def is_floating_point(self: Tensor) -> bool:
    """Whether the dtype is floating."""
    return self.dtype.is_floating_point


@_property
def real(self: Tensor) -> Tensor:
    """The real part, over the same memory; a real tensor itself."""
    return weft.real(self)


@_property
def imag(self: Tensor) -> Tensor:
    """The imaginary part, over the same memory. Raises RuntimeError for real tensors."""
    return weft.imag(self)


@_method
def is_conj(self: Tensor) -> bool:
    """False: conjugates are made, not marked."""
    return False


@_method
def resolve_conj(self: Tensor) -> Tensor:
    """self: conjugates are made, not marked."""
    return self


@_method
def __complex__(self: Tensor) -> complex:
    return complex(self.item())


@_method
def is_complex(self: Tensor) -> bool:
    """Whether the dtype is complex."""
    return self.dtype.is_complex


@_method
def element_size(self: Tensor) -> int:
    """Bytes per element."""
    return self.itemsize


@_method
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return self.shape == other.shape


@_method
def allclose(
    self: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether |self - other| <= atol + rtol * |other| everywhere."""
    return weft.allclose(self, other, rtol, atol, equal_nan)


@_method
def equal(self: Tensor, other: Tensor) -> bool:
    """Whether shapes and all values are equal."""
    return weft.equal(self, other)


# ---- copies


def _as_class(cls: Any, data: Tensor, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    out = data if cls is Tensor else Tensor._make_subclass(cls, data)
    out.requires_grad = requires_grad
    if attributes:
        out.__dict__.update(attributes)
    return out


@_method
def __copy__(self: Tensor) -> Tensor:
    """A second leaf over the same memory, of the same class, with the same attributes."""
    return _as_class(self.__class__, self.detach(), self.requires_grad, dict(self.__dict__))


@_method
def __reversed__(self: Tensor) -> Tensor:
    """The tensor flipped along its first dimension."""
    return self.flip(0) if self.dim() else self


@_method
def __deepcopy__(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy of the storage under the same layout; tensors that share memory still do."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "[deepcopy] expected a leaf (only Tensors created explicitly by the user "
            "(graph leaves) support the deepcopy protocol at the moment), got one made "
            f"by {self.grad_fn.name()}. Hint: detach() or clone() it"
        )
    import copy

    address, size, offset = self._storage_info()
    memory = memo.get(key := ("storage", address, self.dtype))
    if memory is None:
        whole = self.detach().as_strided((size // self.itemsize,), (1,), 0)
        memory = memo[key] = whole.clone()
    data = memory.as_strided(self.shape, self.stride(), offset).detach()
    out = _as_class(self.__class__, data, self.requires_grad, {})
    memo[id(self)] = out
    if self.is_leaf and self.grad is not None:
        out.grad = copy.deepcopy(self.grad, memo)
    if self.__dict__:
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return out


def _rebuild(
    cls: Any,
    raw: bytes,
    shape: Sequence[int],
    order: Sequence[int],
    kind: dtype,
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    """The inverse of Tensor.__reduce_ex__."""
    data = weft.empty(shape, dtype=kind)
    if raw:
        memoryview(data.reshape(-1).view(_C.uint8)).cast("B")[:] = raw
    back = sorted(range(len(order)), key=order.__getitem__)
    data = data.permute(back).detach() if back != list(range(len(back))) else data
    return _as_class(Tensor if cls is None else cls, data, requires_grad, attributes)


@_method
def __reduce_ex__(self: Tensor, protocol: int) -> Any:
    """Values, order of dimensions in memory, requires_grad and attributes; the graph stays here."""
    stride = self.stride()
    order = tuple(sorted(range(self.dim()), key=lambda d: -stride[d]))
    data = self.detach().permute(order).contiguous() if order else self.detach()
    raw = bytes(memoryview(data.reshape(-1).view(_C.uint8)).cast("B")) if self.numel() else b""
    cls = None if self.__class__ is Tensor else self.__class__
    return _rebuild, (
        cls,
        raw,
        tuple(data.shape),
        order,
        self.dtype,
        self.requires_grad,
        dict(self.__dict__),
    )


def _named_dtype(name: str) -> dtype:
    return getattr(_C, name)


def _size(sizes: tuple[int, ...]) -> Size:
    return Size(sizes)


# Their classes are called torch.dtype and torch.Size, where pickle would not find them.
copyreg.pickle(dtype, lambda d: (_named_dtype, (str(d).removeprefix("torch."),)))  # type: ignore[arg-type]
copyreg.pickle(Size, lambda s: (_size, (tuple(s),)))


# ---- new tensors like this one


def _factory(name: str) -> None:
    def make(self: Tensor, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return getattr(weft, name)(*args, dtype=self.dtype if dtype is None else dtype, **kwargs)

    make.__name__ = "new_" + name
    make.__doc__ = f"weft.{name}(...) of self's dtype."
    _method(make)


for _name in ("zeros", "ones", "empty", "full"):
    _factory(_name)


@_method
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A copy of `data` in self's dtype."""
    return weft.tensor(
        data,
        dtype=self.dtype if dtype is None else dtype,
        device=device,
        requires_grad=requires_grad,
    )


@_method
def new_empty_strided(
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """An uninitialised tensor of those sizes and strides, of self's dtype."""
    return weft.empty_strided(
        size,
        stride,
        dtype=self.dtype if dtype is None else dtype,
        device=device,
        requires_grad=requires_grad,
    )


@_method
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """self summed down to a size that broadcasts to its own: the inverse of `expand`.

    Raises: RuntimeError for another size.

    >>> weft.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    sizes = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = self.dim() - len(sizes)
    dims = [*range(lead)]
    for d, n in enumerate(sizes):
        if lead < 0 or n not in (1, self.shape[lead + d]):
            raise RuntimeError(
                f"[sum_to_size] expected a size that expands to {tuple(self.shape)}, got {sizes}"
            )
        if n == 1 and self.shape[lead + d] != 1:
            dims.append(lead + d)
    return self.sum(dims, keepdim=True).reshape(sizes) if dims else self


# ---- functions made of operators that are methods too

_Methods.update(_composites.methods())


# ---- properties


@_property
def T(self: Tensor) -> Tensor:
    """The dimensions in reverse order; for matrices, the transpose."""
    return self.permute(tuple(range(self.dim() - 1, -1, -1)))


@_property
def H(self: Tensor) -> Tensor:
    """The transpose of a matrix (its conjugate, for complex numbers)."""
    if self.dim() not in (0, 2):
        raise RuntimeError(
            "[H] expected a matrix (tensor.H is only supported on matrices (2-D tensors)), got "
            f"{self.dim()} dimensions. Hint: mH is for batches of matrices"
        )
    return self.transpose(0, 1).conj() if self.dim() else self.conj()


def _matrix_transpose(self: Tensor) -> Tensor:
    """The last two dimensions swapped."""
    if self.dim() < 2:
        raise RuntimeError(
            f"[mT] expected a matrix or a batch of them, got {self.dim()} dimensions"
        )
    return self.transpose(-2, -1)


_Methods["mT"] = property(_matrix_transpose)
_Methods["mH"] = property(
    lambda self: _matrix_transpose(self).conj(), doc="The conjugate transpose of matrices."
)

_Methods.update(_inplace.METHODS)
_Methods.update(_tensor_queries.METHODS)
_Methods.update(_tensor_queries.PROPERTIES)
_Methods["nonzero"] = _functions.nonzero
_Methods["device"] = property(lambda self: _CPU, doc="The processor.")
_Methods["is_cuda"] = property(lambda self: False, doc="False: it lies in main memory.")
_Methods["is_cpu"] = property(lambda self: True, doc="True: it lies in main memory.")
_Methods["is_sparse"] = property(lambda self: False, doc="False: every tensor is dense.")
_Methods["is_quantized"] = property(lambda self: False, doc="False: no dtype is quantised.")
_Methods["layout"] = property(lambda self: weft.strided, doc="`weft.strided`.")


def attach() -> None:
    """Puts the methods of this file on Tensor. Called once by the package."""
    for name, method in _Methods.items():
        _C._extend(name, method)
