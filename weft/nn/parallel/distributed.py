"""A Module trained by several processes, each with its part of the batch."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import weft
from weft import _C
from weft._C import Tensor
from weft.base.device import expect_cpu
from weft.base.joinable import Joinable
from weft.base.modes import DEFER
from weft.nn.module import Module

__all__ = ["DistributedDataParallel"]


def tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors of a result that require gradients."""
    if isinstance(value, Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_of(each)
    elif isinstance(value, Mapping):
        yield from tensors_of(list(value.values()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from tensors_of([getattr(value, f.name) for f in dataclasses.fields(value)])


def _expect_cpu_alone(device_ids: Any, output_device: Any) -> None:
    """ValueError for other devices than the CPU."""
    for device in [*(device_ids or ()), output_device]:
        try:
            expect_cpu(device)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"[DistributedDataParallel] expected device_ids=None, as parameters lie on the "
                f"CPU, got device_ids={device_ids}, output_device={output_device} "
                "(DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules)"
            ) from error


class DistributedDataParallel(Module, Joinable):
    """Calls `module`, and averages the gradients over the processes while backward goes on.

    Each process calls it with its part of the batch; they begin with the parameters and buffers of
    the first process, get the same gradients, and so stay the same. Graphs may differ: a parameter
    that the graph of a process did not reach contributes zeros there; one that no process' graph
    reached keeps its `.grad` as it is. For one process it is the module itself. The state's
    names begin with `module.`, as in PyTorch, so that checkpoints fit.

    Args:
        module: what is called; it has parameters that require gradients.
        device_ids, output_device: have to be empty or the CPU; ValueError for others.
        broadcast_buffers: have the first process' buffers in all of them before each forward.
        init_sync: have its parameters and buffers in all of them now.
        process_group: the processes; by default all.
        bucket_cap_mb: the size of what is exchanged at once, in MiB: by default an eighth of all
            gradients, at least 0.5 and at most 25.
        find_unused_parameters: not needed for it: see above.
        gradient_as_bucket_view: let gradients be parts of the buffers that are exchanged.
        static_graph: exchange after the backward pass, for passes within passes.

    Raises:
        ValueError: no process group; see `weft.distributed.init_process_group`.
        RuntimeError: no parameter requires a gradient, or other parameters in other processes.

    >>> dist = weft.distributed
    >>> dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    >>> net = weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(2, 1))
    >>> net(weft.ones(3, 2)).sum().backward()
    >>> net.module.weight.grad
    tensor([[3., 3.]])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        from weft.distributed.world import _known

        super().__init__()
        group = _known(process_group)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        _expect_cpu_alone(device_ids, output_device)
        self.module = module
        self.device_ids = None
        self.output_device = None
        self.device = weft.device("cpu")
        self.device_type = "cpu"
        self.dim = dim
        self.process_group = group
        self.broadcast_buffers = broadcast_buffers is not False
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._cap = None if bucket_cap_mb is None else int(bucket_cap_mb * (1 << 20))
        self._reducer: Any = None
        self._divides_by_all = True
        if group.size() > 1:
            self._start(init_sync)

    def _start(self, init_sync: bool) -> None:
        from weft.distributed.same import expect_same

        expect_same("DistributedDataParallel", self._named(), self.process_group)
        if init_sync:
            self._broadcast([*self._parameters_in_order(), *self._synced_buffers()], 0)
        self._make_reducer()

    def _make_reducer(self) -> None:
        from weft.distributed.reducer import Reducer

        wanted = [p for p in self._parameters_in_order() if p.requires_grad]
        self._reducer = Reducer(
            wanted, self.process_group, self._cap, self.gradient_as_bucket_view, self.static_graph,
            self._sparse(),
        )  # fmt: skip

    def _sparse(self) -> set[int]:
        """The ids of the parameters whose gradients are sparse."""
        from weft.nn.embedding import Embedding
        from weft.nn.embedding_bag import EmbeddingBag

        layers = [m for m in self.module.modules() if isinstance(m, (Embedding, EmbeddingBag))]
        return {id(m.weight) for m in layers if m.sparse}

    def __getstate__(self) -> dict[str, Any]:
        from weft.distributed.world import group

        if self.process_group is not group.WORLD:
            raise RuntimeError(
                "[DistributedDataParallel] expected the group of all processes to copy or save it, "
                "got another (DDP Pickling/Unpickling are only supported when using DDP with the "
                "default process group). Hint: copy or save `.module`"
            )
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("process_group", "_reducer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from weft.distributed.world import _known

        super().__setstate__(state)
        self.process_group = _known(None)
        self._reducer = None
        if self.process_group.size() > 1:
            self._make_reducer()

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Iterable[str]) -> None:
        """Leaves parameters and buffers of a module, by their names in it, to each process."""
        module._ddp_params_and_buffers_to_ignore = list(names)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What it is made with, by PyTorch's names."""
        params = [p for p in self._parameters_in_order() if p.requires_grad]
        group, cap = self.process_group, self._reducer.cap if self._reducer else self._cap
        sizes = [b.buffer().nbytes for b in self._reducer.buckets] if self._reducer else []
        return {
            "backend_name": group.name(), "world_size": group.size(), "rank": group.rank(),
            "module_name": type(self.module).__name__, "device_ids": "", "output_device": -1,
            "num_parameter_tensors": len(params), "bucket_cap_bytes": cap,
            "total_parameter_size_bytes": sum(p.nbytes for p in params),
            "dtypes": ", ".join(dict.fromkeys(str(p.dtype).split(".")[-1] for p in params)),
            "bucket_sizes": ", ".join(map(str, sizes)),
            "broadcast_buffers": int(self.broadcast_buffers),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "static_graph": int(self.static_graph),
        }  # fmt: skip

    def _ignored(self) -> set[str]:
        return set(getattr(self.module, "_ddp_params_and_buffers_to_ignore", ()))

    def _named(self) -> list[tuple[str, Tensor]]:
        ignored = self._ignored()
        return [(n, p) for n, p in self.module.named_parameters() if n not in ignored]

    def _parameters_in_order(self) -> list[Tensor]:
        return [p for _, p in self._named()]

    def _synced_buffers(self) -> list[Tensor]:
        ignored = self._ignored()
        return [b for n, b in self.module.named_buffers() if n not in ignored]

    def _broadcast(self, tensors: list[Tensor], rank: int) -> None:
        from weft.distributed.same import broadcast_all

        broadcast_all(tensors, self.process_group, rank)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        if self._reducer is None:
            return self.module(*inputs, **kwargs)
        syncs = _C.is_grad_enabled() and self.require_backward_grad_sync
        one_of_batch = bool(_C._mode() & DEFER)
        if not one_of_batch:
            self._before(syncs)
        out = self.module(*inputs, **kwargs)
        if syncs:
            for tensor in tensors_of(out):
                tensor.register_hook(self._reducer.begin)
        return out

    def _before(self, syncs: bool) -> None:
        """What is exchanged before the module is called."""
        self._reducer.recover()
        root = 0
        if self._join_config.enable:
            from weft.distributed.algorithms.join import Join
            from weft.distributed.joining import tell

            count = Join.notify_join_context(self)
            if not self._divides_by_all:
                self._reducer.divisor = count
            root = tell(self.process_group, True, syncs)[1]
        self._exchange_buffers(root)
        self.require_forward_param_sync = syncs

    def _exchange_buffers(self, root: int) -> None:
        if self.require_forward_param_sync and self.broadcast_buffers:
            if buffers := self._synced_buffers():
                self._broadcast(buffers, root)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A scope in which gradients are added up in each process, without an exchange.

        What counts is where forward is called. The next backward outside exchanges their sums.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """A scope for processes with unlike numbers of batches: who has no more contributes zeros.

        Args:
            divide_by_initial_world_size: divide gradients by the number of all processes, not of
                those that still train.
            enable: False: nothing is done.
            throw_on_early_termination: RuntimeError in all processes when one has no more.

        At the end all have the parameters and buffers of the last process.
        """
        from weft.distributed.algorithms.join import Join

        how = {"divide_by_initial_world_size": divide_by_initial_world_size}
        with Join([self], enable, throw_on_early_termination, **how):
            yield

    def join_hook(self, divide_by_initial_world_size: bool = True, **kwargs: Any) -> Any:
        """What `Join` calls when this process has no more batches."""
        from weft.distributed.joining import DDPJoinHook

        self._divides_by_all = divide_by_initial_world_size
        return DDPJoinHook(self)

    @property
    def join_device(self) -> Any:
        """The CPU."""
        return weft.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    def register_comm_hook(self, state: object, hook: Callable[[Any, Any], Any]) -> None:
        """Has `hook(state, bucket)` exchange the gradients of each bucket.

        It gets a `weft.distributed.GradBucket` and returns a Future of a tensor like the bucket's
        buffer: the average, which it divides for itself. `distributed.algorithms.ddp_comm_hooks`
        has some.

        Raises: TypeError for what cannot be called; RuntimeError for a second hook.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._reducer is None:
            self._make_reducer()
        if self._reducer._hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._reducer.set_hook(state, hook)
