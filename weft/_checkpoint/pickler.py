"""Objects to PyTorch's pickles.

Note [Names without modules]
pickle writes a class or function only if it can be imported under its name, and PyTorch's names
belong to no module here. So a name is pickled as a persistent id, a text that starts with a random
token, and that id is exchanged afterwards for the opcode GLOBAL. The token (128 random bits, new
for each pickle) keeps a user's text from being taken for one. Frames of protocol 4 say how many
bytes follow, so they are left out, which the protocol allows.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import re
from collections import OrderedDict
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft._checkpoint.dtypes import BY_STORAGE, KNOWN
from weft.base.device import device
from weft.base.names import _Named
from weft.base.shown import dtype_name
from weft.base.subclasses import dispatches

#: The protocol of PyTorch's files, and those that can be asked for.
PROTOCOL = 2
PROTOCOLS = range(1, pickle.HIGHEST_PROTOCOL + 1)


class _Name:
    """A global of PyTorch in the pickle."""

    __slots__ = ("path",)

    def __init__(self, module: str, name: str) -> None:
        self.path = f"{module}\n{name}\n"

    def __call__(self) -> None:
        """pickle takes only callables for the function of a reduction."""


_UTILS = "torch._utils"
_REBUILD_V2 = _Name(_UTILS, "_rebuild_tensor_v2")
_REBUILD_V3 = _Name(_UTILS, "_rebuild_tensor_v3")
_REBUILD_META = _Name(_UTILS, "_rebuild_meta_tensor_no_storage")
_REBUILD_PARAMETER = _Name(_UTILS, "_rebuild_parameter")
_REBUILD_PARAMETER_STATE = _Name(_UTILS, "_rebuild_parameter_with_state")
_REBUILD_TYPE = _Name("torch._tensor", "_rebuild_from_type_v2")
_REBUILD_SPARSE = _Name(_UTILS, "_rebuild_sparse_tensor")
_NESTED = "torch.nested._internal.nested_tensor"
_REBUILD_NESTED = _Name(_NESTED, "_rebuild_njt")
_NESTED_TENSOR = _Name(_NESTED, "NestedTensor")
_TENSOR = _Name("torch", "Tensor")
_SIZE = _Name("torch", "Size")
_DEVICE = _Name("torch", "device")
_LAYOUT = _Name("torch.serialization", "_get_layout")
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_STORAGES = {dtype: _Name("torch", name) for name, dtype in BY_STORAGE.items()}


class _Storage:
    """A storage to be written: its number, its elements, and the dtype it is seen as."""

    __slots__ = ("bytes", "dtype", "key", "kind", "owner")

    def __init__(self, key: str, owner: Tensor, dtype: _C.dtype) -> None:
        name = dtype_name(dtype)
        self.key, self.owner, self.dtype = key, owner, dtype
        self.kind = _STORAGES.get(name, _UNTYPED)
        size = KNOWN[name].size if name in KNOWN else owner.itemsize
        self.bytes = owner._storage_info()[1] // size * size

    @property
    def count(self) -> int:
        """How many elements the file says that it has."""
        unit = 1 if self.kind is _UNTYPED else KNOWN[dtype_name(self.dtype)].size
        return self.bytes // unit

    def pid(self) -> tuple[Any, ...]:
        """What stands for the storage in the pickle."""
        return ("storage", self.kind, self.key, "cpu", self.count)

    def memory(self) -> memoryview | bytes:
        """Its bytes, not copied."""
        return whole_memory(self.owner, self.bytes)


def whole_memory(owner: Tensor, size: int) -> memoryview | bytes:
    """The first `size` bytes of a tensor's storage, not copied."""
    if not size:
        return b""
    return memoryview(_C._over(owner, _C.bool, 0, (size,), (1,))).cast("B")


def _without_frames(pickled: bytes) -> bytes:
    """The same pickle without the opcodes FRAME and their eight bytes."""
    out, start = [], 0
    for opcode, _, at in pickletools.genops(pickled):
        if opcode.name == "FRAME" and at is not None:
            out.append(pickled[start:at])
            start = at + 9
    return b"".join([*out, pickled[start:]])


# See Note [Names without modules]: a path, what memoizes the text, and BINPERSID.
_AFTER_TOKEN = re.compile(b"([^\n]*\n[^\n]*\n)(q.|r....)Q", re.DOTALL)
_AFTER_TOKEN_FRAMED = re.compile(b"([^\n]*\n[^\n]*\n)(\x94)Q", re.DOTALL)


class Pickler(pickle.Pickler):
    """Pickles `obj` as PyTorch does; `storages` are then to be written beside it.

    Ids end with the view of a storage, which is none, in files `before_archives`.

    Raises RuntimeError where tensors of two dtypes view the same memory, as PyTorch does.
    """

    def __init__(self, protocol: int = PROTOCOL, before_archives: bool = False) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=protocol)
        self._framed = protocol >= 4
        self._ending = (None,) if before_archives else ()
        self._token = os.urandom(16).hex()
        self.storages: dict[tuple[int, int], _Storage] = {}

    def pickled(self, obj: Any) -> bytes:
        """The pickle of `obj`."""
        self.dump(obj)
        written = self._file.getvalue()
        token, after = self._token.encode(), _AFTER_TOKEN
        if self._framed:
            written, after = _without_frames(written), _AFTER_TOKEN_FRAMED
        first, *rest = written.split(token)
        out = [first]
        for piece in rest:
            found = after.match(piece)
            if found is None:
                raise pickle.PicklingError(
                    "[save] expected a name behind its token, got another text"
                )
            size = len(token) + len(found[1])
            short = self._framed and size < 256
            out[-1] = out[-1][: -2 if short else -5]  # the opcode of a text, and its size
            out += [b"c", found[1], found[2], piece[found.end() :]]
        return b"".join(out)

    def persistent_id(self, obj: Any) -> Any:
        """Ids of storages and of PyTorch's names."""
        if isinstance(obj, _Storage):
            return (*obj.pid(), *self._ending)
        if isinstance(obj, _Name):
            return self._token + obj.path
        if isinstance(obj, _C.dtype):
            return f"{self._token}torch\n{dtype_name(obj)}\n"
        return None

    def reducer_override(self, obj: Any) -> Any:
        """How weft's types are written."""
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, weft.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, _Named):
            known = (weft.strided, weft.sparse_coo, weft.sparse_csr, weft.sparse_csc, weft.jagged)
            if obj not in known:
                raise pickle.PicklingError(f"[save] expected a layout, got {obj}")
            return _LAYOUT, (str(obj),)
        return NotImplemented

    def _tensor(self, tensor: Tensor) -> Any:
        if dispatches(type(tensor)):
            return tensor.__reduce_ex__(PROTOCOL)  # weft's own, for weights_only=False
        if tensor.is_nested:
            parts = tensor.__reduce_ex__(PROTOCOL)[1]
            return _REBUILD_TYPE, (_REBUILD_NESTED, _NESTED_TENSOR, parts, {})
        if tensor.layout is not weft.strided:
            return _REBUILD_SPARSE, tensor.__reduce_ex__(PROTOCOL)[1]
        cls = type(tensor)
        if cls is weft.nn.Parameter:
            hooks: OrderedDict[Any, Any] = OrderedDict()
            args = (tensor.detach(), tensor.requires_grad, hooks)
            if state := dict(tensor.__dict__):
                return _REBUILD_PARAMETER_STATE, (*args, state)
            return _REBUILD_PARAMETER, args
        function, parts = self._parts(tensor)
        state = dict(tensor.__dict__)
        if cls is weft.nn.Buffer:
            state = {"persistent": state.get("persistent", True), "_is_buffer": True}
            return _REBUILD_TYPE, (function, _TENSOR, parts, state)
        if cls is not Tensor or state:
            return _REBUILD_TYPE, (function, _TENSOR if cls is Tensor else cls, parts, state)
        return function, parts

    def _parts(self, tensor: Tensor) -> tuple[_Name, tuple[Any, ...]]:
        if tensor.is_meta:
            layout = (tuple(tensor.shape), tensor.stride())
            return _REBUILD_META, (tensor.dtype, *layout, tensor.requires_grad)
        storage = self._storage(tensor)
        offset = tensor._storage_info()[2]
        layout = (tuple(tensor.shape), tensor.stride())
        hooks: OrderedDict[Any, Any] = OrderedDict()
        rest = (tensor.requires_grad, hooks)
        if storage.kind is _UNTYPED:
            return _REBUILD_V3, (storage, offset, *layout, *rest, tensor.dtype)
        return _REBUILD_V2, (storage, offset, *layout, *rest)

    def _storage(self, tensor: Tensor) -> _Storage:
        address, size, _ = tensor._storage_info()
        known = self.storages.get((address, size))
        if known is None:
            # The detached tensor keeps the memory, so that its address stays its own.
            known = _Storage(str(len(self.storages)), tensor.detach(), tensor.dtype)
            self.storages[address, size] = known
        elif known.dtype is not tensor.dtype:
            raise RuntimeError(
                f"[save] expected tensors that share memory to have one dtype, got {known.dtype} "
                f"and {tensor.dtype} (Cannot save multiple tensors or storages that view the same "
                "data as different types). Hint: clone() one of them"
            )
        return known
