"""Devices by name. weft computes on the CPU; other names are known, so that programs can ask."""

from __future__ import annotations

from typing import Any

__all__ = ["device", "expect_cpu", "expect_plain"]

_KNOWN = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class device:
    """The name of a place for tensors: a type and an index. weft has the CPU.

    Raises: RuntimeError for a type or an index that PyTorch does not know.

    >>> weft.device("cpu")
    device(type='cpu')
    >>> weft.device("cuda:1").index
    1
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
        expect_cpu(self)
        return self

    def __exit__(self, *exc: object) -> None:
        return None


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
    """Raises unless what a new tensor is asked to be is what every tensor here is: on the CPU,
    strided, in memory that is not pinned.

    As `expect_cpu`, and RuntimeError for another layout or for pinned memory.
    """
    expect_cpu(place)
    if layout is not None and str(layout) != "torch.strided":
        raise RuntimeError(f"[{who}] expected layout=torch.strided, got {layout}")
    if pin_memory:
        raise RuntimeError(
            f"[{who}] expected pin_memory=False, got {pin_memory} (pin_memory=True requires a CUDA "
            "or other accelerator backend; no pinned memory allocator is available on this system.)"
        )
