"""`ShapeProp`: a graph is run, and each node remembers what its value was like."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft import Tensor
from weft.fx.graph_module import GraphModule
from weft.fx.interpreter import Interpreter
from weft.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a tensor was like.

    >>> TensorMetadata(weft.Size([2]), weft.float32, False, (1,), None, False, {}).shape
    torch.Size([2])
    """

    shape: weft.Size
    dtype: weft.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any  #: the first that it is contiguous in; None: there is none
    is_quantized: bool  #: false: there are no quantized tensors
    qparams: dict[str, Any]  #: empty


def _metadata_of(t: Tensor) -> TensorMetadata:
    formats = (weft.contiguous_format, weft.channels_last, weft.channels_last_3d)
    dense = t.layout is weft.strided
    fitting = (f for f in formats if dense and t.is_contiguous(memory_format=f))
    stride = t.stride() if dense else ()
    return TensorMetadata(
        t.shape, t.dtype, t.requires_grad, stride, next(fitting, None), False, {}
    )  # fmt: skip


class ShapeProp(Interpreter):
    """Runs a graph with example inputs and notes of each node what its value is like.

    `node.meta["tensor_meta"]` is then the `TensorMetadata` of a tensor, or has them in the place of
    the tensors of a tuple, list or dict; `node.meta["type"]` is the class of the value.

    Args:
        gm: the Module of the graph.
        fake_mode: None: with inputs on the meta device nothing is computed.

    Raises:
        NotImplementedError: another `fake_mode`.

    >>> traced = weft.fx.symbolic_trace(weft.nn.Linear(3, 2))
    >>> ShapeProp(traced).propagate(weft.ones(4, 3)).shape
    torch.Size([4, 2])
    >>> [tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes if n.op != "get_attr"]
    [(4, 3), (4, 2), (4, 2)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        if fake_mode is not None:
            raise NotImplementedError(
                f"[ShapeProp] expected no fake_mode, got {type(fake_mode).__name__}. Hint: pass a "
                "model and inputs on the meta device"
            )
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """The value of a node, which is noted.

        Raises:
            RuntimeError: the node raises; caused by its error.
        """
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        found = []

        def note(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            found.append(_metadata_of(value))
            return found[-1]

        noted = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = noted
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph; gives its result."""
        return super().run(*args)
