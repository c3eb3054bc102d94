"""Devices by name. weft computes on the CPU, and lays out on `meta`; other names are known.

New tensors lie where a bit of the mode says: `with device("meta"):` and `set_default_device` set
it, a `device=` sets or clears it for one call (Note [On meta] in src/ops/call.h).
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from weft import _C
from weft.base import modes

__all__ = ["device", "expect_cpu", "expect_plain", "is_meta"]

_KNOWN = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class device:
    """The name of a place for tensors: a type and an index. weft has the CPU, and `meta`, where
    tensors have a shape and a dtype and no memory.

    As a context, where tensors lie that are made from sizes, numbers or data without `device=`.

    Raises: RuntimeError for a type or an index that PyTorch does not know.

    >>> weft.device("cpu")
    device(type='cpu')
    >>> weft.device("cuda:1").index
    1
    >>> with weft.device("meta"):
    ...     layer = weft.nn.Linear(100000, 100000)  # 40 GB, if it were there
    >>> layer(weft.empty(5, 100000, device="meta")).shape
    torch.Size([5, 100000])
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __new__(cls, type: Any, index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        self = super().__new__(cls)
        if isinstance(type, int) and not isinstance(type, bool):
            raise RuntimeError(
                "[device] expected the name of a device, got an accelerator's number (Cannot "
                "access accelerator device when none is available.)"
            )
        if not isinstance(type, str):
            raise TypeError(f"[device] expected the name of a device, got {type!r}")
        name, colon, number = type.partition(":")
        if name not in _KNOWN:
            raise RuntimeError(
                f"[device] expected one of them, got {type!r} (Expected one of "
                f"{', '.join(_KNOWN)} device type at start of device string: {type})"
            )
        if colon and not (number.isascii() and number.isdigit()):
            raise RuntimeError(
                f"[device] expected a type and a number, got {type!r} (Invalid device string: "
                f"{type!r})"
            )
        self.type = name
        self.index = int(number) if number else index
        return self

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}'"
            + ("" if self.index is None else f", index={self.index}")
            + ")"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        before = make_new_on(is_meta(self))
        _entered.set((*_entered.get(), before))
        return self

    def __exit__(self, *exc: object) -> None:
        *outer, before = _entered.get()
        _entered.set(tuple(outer))
        make_new_on(before)


#: What `x.device` gives.
CPU, META = device("cpu"), device("meta")

#: Where new tensors lay before each context that is entered.
_entered: ContextVar[tuple[bool, ...]] = ContextVar("devices entered", default=())


def make_new_on(meta: bool) -> bool:
    """New tensors lie there from now on, or on the CPU; returns whether they did."""
    mode = _C._set_mode((_C._mode() & ~modes.META) | (modes.META if meta else 0))
    return bool(mode & modes.META)


def new_on_meta() -> bool:
    """Whether new tensors without a `device=` are of the meta device."""
    return bool(_C._mode() & modes.META)


def is_meta(place: Any) -> bool:
    """Whether `place` is the meta device; None is where new tensors lie now.

    Raises what PyTorch's CPU build raises for devices that are neither that nor the CPU:
    AssertionError for 'cuda' and 'xpu', NotImplementedError for others, TypeError for what is none.
    """
    if place is None:
        return new_on_meta()
    kind = device(place).type
    if kind not in ("cpu", "meta"):
        expect_cpu(place)
    return kind == "meta"


def expect_cpu(place: Any) -> None:
    """Raises what PyTorch's CPU build raises if `place` (a name, a device or None) is no CPU.

    AssertionError for 'cuda' and 'xpu', NotImplementedError for other devices, TypeError for what
    is no device.
    """
    if place is None:
        return
    kind = device(place).type
    if kind == "cpu":
        return
    if kind in ("cuda", "xpu"):
        raise AssertionError(
            f"[device] expected 'cpu', got '{place}' (Torch not compiled with {kind.upper()} "
            f"enabled). Hint: this build computes on the CPU"
        )
    raise NotImplementedError(
        f"[device] expected 'cpu', got '{place}'. Hint: this build has no other device"
    )


def expect_plain(who: str, place: Any, layout: Any = None, pin_memory: Any = False) -> None:
    """Raises unless what a new tensor is asked to be is what every tensor here is: on the CPU or
    the meta device, strided, in memory that is not pinned.

    As `is_meta`, and RuntimeError for another layout or for pinned memory.
    """
    is_meta(place)
    if layout is not None and str(layout) != "torch.strided":
        raise RuntimeError(f"[{who}] expected layout=torch.strided, got {layout}")
    if pin_memory:
        raise RuntimeError(
            f"[{who}] expected pin_memory=False, got {pin_memory} (pin_memory=True requires a CUDA "
            "or other accelerator backend; no pinned memory allocator is available on this system.)"
        )
