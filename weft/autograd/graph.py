"""The graph seen from outside: nodes, saved tensors, hooks over several tensors.

PyTorch's semantics (torch.autograd.graph).
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from weft import _C
from weft._C import Node, Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip


class GradientEdge(NamedTuple):
    """A place where a gradient arrives: output `output_nr` of `node`.

    >>> x = weft.ones(1, requires_grad=True)
    >>> weft.autograd.graph.get_gradient_edge(2 * x).output_nr
    0
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` goes: its node, or the accumulator of a leaf.

    Raises RuntimeError if the tensor does not require grad.

    A tensor of any shape.

    >>> x = weft.ones(2, requires_grad=True)
    >>> weft.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "[get_gradient_edge] expected a tensor that requires grad (It is not "
            "possible to get the gradient edge for a Tensor that does not require "
            "gradients), got one that does not"
        )
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts an in-place write of each tensor, for memory that was changed behind weft's back.

    Tensors of any shapes.

    >>> x = weft.ones(2)
    >>> weft.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C._increment_version(each)


# ---- saved tensors

_refused = threading.local()  # by the scopes of the thread


class saved_tensors_hooks:
    """Tensors saved for backward in this scope are kept as `pack_hook(tensor)` gives them.

    `unpack_hook` gets that object in backward, perhaps more than once, and returns a tensor with
    the values of the saved one; its place in the graph is restored. Of nested scopes the innermost
    counts. The hooks run without recording; `pack_hook` must not write its argument in place.

    Tensors of any shapes; what is unpacked has the shape of what was packed.

    >>> x = weft.tensor([2.], requires_grad=True)
    >>> with weft.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), weft.tensor):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([4.])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if (message := getattr(_refused, "message", None)) is not None:
            raise RuntimeError(message)
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: object) -> None:
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps copies of the saved tensors in CPU memory: writes after the forward do not reach them.

    `pin_memory` asks for page-locked memory in PyTorch; this build has the CPU only and ignores it.

    >>> x = weft.ones(2, requires_grad=True)
    >>> with weft.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda tensor: tensor.clone(), lambda packed: packed)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Entering `saved_tensors_hooks` in this scope raises RuntimeError(error_message).

    >>> with weft.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     weft.ones(1) + 1
    tensor([2.])
    """
    before = getattr(_refused, "message", None)
    _refused.message = error_message
    try:
        yield
    finally:
        _refused.message = before


class _Copies:
    """The saved tensors of one `allow_mutation_on_saved_tensors`, as long as nodes need them."""

    def __init__(self) -> None:
        self.kept: weakref.WeakKeyDictionary[_Copy, Tensor] = weakref.WeakKeyDictionary()

    def pack(self, tensor: Tensor) -> _Copy:
        copy = _Copy()
        self.kept[copy] = tensor.clone()
        return copy

    def unpack(self, copy: _Copy) -> Tensor:
        if copy not in self.kept:
            raise AssertionError(
                "[allow_mutation_on_saved_tensors] expected backward in the scope of the forward, "
                "got one after it (Trying to backward outside of the "
                "'allow_mutation_on_saved_tensors' context in which the graph was originally "
                "recorded.)"
            )
        return self.kept[copy]

    def clear(self) -> None:
        """Lets go of all of them: the graph can be run backward no more."""
        self.kept.clear()


class _Copy:
    """What a node holds for a saved tensor."""


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Copies]:
    """Tensors saved for backward in this scope may be written in place before it.

    Each is copied when it is saved, and backward reads the copies; they live as long as the scope,
    so backward must run in it (AssertionError). Scopes do not nest (RuntimeError).

    >>> x = weft.tensor([2.], requires_grad=True)
    >>> with weft.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y * y
    ...     _ = y.zero_()
    ...     z.backward()
    >>> x.grad
    tensor([4.])
    """
    if getattr(_refused, "copying", False):
        raise RuntimeError(
            "[allow_mutation_on_saved_tensors] expected one scope, got one within another "
            "(allow_mutation_on_saved_tensors contexts cannot be nested)"
        )
    copies = _Copies()
    _refused.copying = True
    try:
        with saved_tensors_hooks(copies.pack, copies.unpack):
            yield copies
    finally:
        _refused.copying = False
        copies.clear()


# ---- hooks over several tensors


class _Handles:
    """What register_multi_grad_hook returns."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Takes the hook away."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> _Handles:
    """Runs `fn` in each backward pass that makes gradients of these tensors.

    mode "all": `fn(grads)` once all that the pass makes are known, None for the others; mode "any":
    `fn(grad)` with the first one. What `fn` returns is ignored. The hook keeps the tensors' part of
    the graph alive until the handle's `remove()`, or the end of a `with` block over it.

    Gradients have their tensors' shapes.

    >>> a, b = (weft.ones((), requires_grad=True) for _ in range(2))
    >>> _ = weft.autograd.graph.register_multi_grad_hook((a, b), print)
    >>> (a + 2 * b).backward()
    (tensor(1.), tensor(2.))
    """
    if mode not in ("all", "any"):
        raise ValueError(f"[register_multi_grad_hook] expected mode 'all' or 'any', got {mode!r}")
    nodes = [get_gradient_edge(t).node for t in tensors]
    passes: dict[int, dict[int, Tensor]] = {}  # by pass: what has come
    expected: dict[int, int] = {}

    def begin(number: int) -> dict[int, Tensor]:
        if number not in passes:
            passes[number] = {}
            expected[number] = sum(_C._pass_reaches(node) for node in nodes)
            _C._queue_callback(lambda: (passes.pop(number, None), expected.pop(number, None)))
        return passes[number]

    def hook_of(index: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            number = _C._current_pass()
            come = begin(number)
            come[index] = grad
            if mode == "any" and len(come) == 1:
                fn(grad)
            elif mode == "all" and len(come) == expected[number]:
                fn(tuple(come.get(i) for i in range(len(nodes))))

        return hook

    return _Handles([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])
