"""Messages between a loader and its workers, with the bytes of tensors in shared memory.

A message is a pickle (protocol 5) and the buffers of its tensors and arrays. A small one goes
through the socket. A large one lies in an anonymous memory file, whose descriptor goes through the
socket; the receiver maps it, and tensors lie over the mapping. Nothing has a name, so nothing is
left behind by a process that is killed.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import select
import socket
import struct
import tempfile
from multiprocessing.reduction import ForkingPickler
from typing import Any

import weft
from weft import _C
from weft._C import Tensor

INLINE = 16 << 10
_ALIGNMENT = 64
_MOST = 64 << 10
_HEAD = struct.Struct("<BqqB")  # in a memory file?, epoch, number, kind
_SMALL = struct.Struct("<QQ")  # bytes of the pickle, number of buffers
_LARGE = struct.Struct("<QQQQ")  # size, where the pickle is, its bytes, number of buffers
_DESCRIPTOR = struct.Struct("i")
_PLACE = struct.Struct("<QQ")  # where a buffer is, its bytes

Message = tuple[bytes, int | None]
Received = tuple[int, int, int, Any]


# ---- objects to pickles and buffers


def _rebuild(
    memory: Any,
    kind: _C.dtype,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    cls: Any,
    requires_grad: bool,
    state: dict[str, Any],
) -> Tensor:
    """A tensor over the memory it came in."""
    out = (
        weft.empty_strided(shape, stride, dtype=kind)
        if memory is None
        else _C._over(memory, kind, 0, shape, stride)
    )
    if cls is not None:
        out = Tensor._make_subclass(cls, out)
    if requires_grad:
        out.requires_grad = True
    if state:
        out.__dict__.update(state)
    return out


def _reduce(t: Tensor) -> Any:
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            "[DataLoader] expected tensors outside the graph from a worker, got one that requires "
            "grad (Cowardly refusing to serialize non-leaf tensor which requires_grad, since "
            "autograd does not support crossing process boundaries.). Hint: detach() it"
        )
    shape, stride, memory = tuple(t.shape), t.stride(), None
    if t.numel():
        order = sorted(range(t.dim()), key=lambda d: (-stride[d], d))
        dense = t.detach().permute(order).contiguous() if order else t.detach()
        steps = dict(zip(order, dense.stride(), strict=True))
        stride = tuple(steps[d] for d in range(t.dim()))
        size, at = dense.numel() * dense.itemsize, dense._storage_info()[2] * dense.itemsize
        raw = memoryview(_C._over(dense, _C.bool, at, (size,), (1,))).cast("B")
        memory = pickle.PickleBuffer(raw)
    cls = None if type(t) is Tensor else type(t)
    return _rebuild, (memory, t.dtype, shape, stride, cls, t.requires_grad, dict(t.__dict__))


class _Pickler(pickle.Pickler):
    """multiprocessing's pickler, with tensors as buffers."""

    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.dispatch_table = ForkingPickler(io.BytesIO()).dispatch_table

    def reducer_override(self, obj: Any) -> Any:
        return _reduce(obj) if isinstance(obj, Tensor) else NotImplemented


def encode(epoch: int, number: int, kind: int, obj: Any) -> Message:
    """A message and, for a large one, the descriptor of its memory file (to be closed)."""
    file, buffers = io.BytesIO(), []  # type: ignore[var-annotated]
    _Pickler(file, buffers).dump(obj)
    pickled, parts = file.getbuffer(), [b.raw() for b in buffers]
    total = len(pickled) + sum(len(p) + _PLACE.size for p in parts)
    if total <= INLINE:
        head = _HEAD.pack(0, epoch, number, kind) + _SMALL.pack(len(pickled), len(parts))
        lengths = b"".join(_PLACE.pack(0, len(p)) for p in parts)
        return b"".join([head, lengths, pickled, *parts]), None
    descriptor = _memory_file()
    try:
        layout = _write(descriptor, pickled, parts)
    except BaseException:
        os.close(descriptor)
        raise
    return _HEAD.pack(1, epoch, number, kind) + layout, descriptor


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("weft-batch", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(descriptor: int, pickled: memoryview, parts: list[memoryview]) -> bytes:
    """Buffers, pickle, and the places of the buffers; returns where they are."""
    places, at = [], 0
    with open(descriptor, "wb", buffering=1 << 16, closefd=False) as file:
        for part in parts:
            fill = -at % _ALIGNMENT
            file.write(b"\0" * fill)
            file.write(part)
            places.append(_PLACE.pack(at + fill, len(part)))
            at += fill + len(part)
        file.write(pickled)
        file.write(b"".join(places))
    size = at + len(pickled) + len(places) * _PLACE.size
    return _LARGE.pack(size, at, len(pickled), len(parts))


def decode(message: bytes, descriptor: int | None) -> Any:
    """The object of a message; takes the descriptor over."""
    if descriptor is None:
        length, count = _SMALL.unpack_from(message, _HEAD.size)
        at = _HEAD.size + _SMALL.size + count * _PLACE.size
        sizes = [p[1] for p in _PLACE.iter_unpack(message[_HEAD.size + _SMALL.size : at])]
        pickled, at = message[at : at + length], at + length
        buffers = []
        for size in sizes:
            buffers.append(bytearray(message[at : at + size]))
            at += size
        return pickle.loads(pickled, buffers=buffers)
    try:
        size, at, length, count = _LARGE.unpack_from(message, _HEAD.size)
        populate = getattr(mmap, "MAP_POPULATE", 0)
        mapped = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | populate)
    finally:
        os.close(descriptor)
    whole = memoryview(mapped)
    places = _PLACE.iter_unpack(whole[at + length :])
    return pickle.loads(whole[at : at + length], buffers=[whole[a : a + n] for a, n in places])


# ---- sockets. (Python 3.11's send_fds and recv_fds drop their flags, so it is sendmsg here.)


def _rights(descriptor: int | None) -> list[tuple[int, int, bytes]]:
    if descriptor is None:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(descriptor))]


class Channel:
    """One end of the connection of a loader and a worker."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def fileno(self) -> int:
        """For `select`."""
        return self.socket.fileno()

    def send(self, message: Message, inbox: Channel | None = None) -> list[Received]:
        """Sends a message, and closes its descriptor. OSError if the other end is gone.

        The loader sends with `inbox`, itself: while the other end does not take the message, it
        takes the other's, so that the two never wait for each other. Returns those.
        """
        data, descriptor = message
        taken: list[Received] = []
        flags = socket.MSG_NOSIGNAL | (socket.MSG_DONTWAIT if inbox is not None else 0)
        try:
            while True:
                try:
                    self.socket.sendmsg([data], _rights(descriptor), flags)
                    return taken
                except BlockingIOError:
                    if select.select([self], [self], [])[0]:
                        taken.append(self.receive())
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def receive(self) -> Received:
        """The next message: epoch, number, kind, object. EOFError if the other end is gone.

        An object that cannot be made here arrives as the exception that it raised.
        """
        try:
            data, extra, _, _ = self.socket.recvmsg(
                _MOST, socket.CMSG_LEN(_DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            raise EOFError from None
        if not data:
            raise EOFError
        _, epoch, number, kind = _HEAD.unpack_from(data)
        try:
            obj = decode(data, _DESCRIPTOR.unpack(extra[0][2])[0] if extra else None)
        except Exception as error:
            return epoch, number, FAILURE, error
        return epoch, number, kind, obj

    def waits(self, timeout: float) -> bool:
        """Whether a message, or the end, came within that time."""
        return bool(select.select([self], [], [], timeout)[0])

    def close(self) -> None:
        """Ends the connection for both, whoever else inherited the socket."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


#: Kinds of messages. To a worker: a batch to make, or a new pass. From it: a batch, the end of an
#: iterable dataset, or an exception.
BATCH, RESTART, DATA, END, FAILURE = range(5)


def pair() -> tuple[Channel, Channel]:
    """Two connected ends. Messages keep their boundaries."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(a), Channel(b)
