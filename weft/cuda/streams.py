"""Streams, events and graphs of a GPU: classes to annotate with. Making one raises."""

from __future__ import annotations

from weft.base.absent import StreamScope, raises, raising_class

__all__ = ["CUDAGraph", "Event", "ExternalStream", "MemPool", "Stream", "StreamContext", "stream"]


def _dummy(name: str, doc: str) -> type:
    text = f"Tried to instantiate dummy base class {name}"
    return raising_class(name, "weft.cuda.streams", RuntimeError, text, doc)


Stream = raising_class(
    "Stream", "weft.cuda.streams", RuntimeError, "torch.cuda.Stream requires CUDA support",
    "A stream of a GPU. RuntimeError: there is none.",
)  # fmt: skip
ExternalStream = raising_class(
    "ExternalStream", "weft.cuda.streams", RuntimeError,
    "PyTorch was compiled without CUDA support", "A foreign stream. RuntimeError: there is no GPU.",
)  # fmt: skip
Event = _dummy("Event", "An event of a GPU. RuntimeError: there is none.")
CUDAGraph = _dummy("CUDAGraph", "A recorded graph of a GPU. RuntimeError: there is none.")
MemPool = _dummy("MemPool", "Memory of a GPU. RuntimeError: there is none.")


class StreamContext(StreamScope):
    """The scope of a stream: without a GPU it changes nothing."""


def stream(stream: Stream | None) -> StreamContext:  # type: ignore[valid-type]
    """The scope of a stream: without a GPU it changes nothing."""
    return StreamContext(stream)


class graph:  # noqa: N801
    """The scope in which a GPU's work is recorded. RuntimeError: there is none."""

    def __init__(self, cuda_graph: object, pool: object = None, stream: object = None) -> None:
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


is_current_stream_capturing = raises(
    RuntimeError, "Tried to instantiate dummy base class _cuda_isCurrentStreamCapturing"
)
graph_pool_handle = raises(RuntimeError, "Tried to instantiate dummy base class _graph_pool_handle")
make_graphed_callables = raises(RuntimeError, "Tried to instantiate dummy base class CUDAGraph")
