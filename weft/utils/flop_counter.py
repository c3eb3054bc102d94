"""Counts the floating-point operations of what runs: `FlopCounterMode`.

Counted is what products are made of, forward and backward, as the records of ops say (two for a
product and its sum): matrix and vector products, convolutions, attention, recurrent layers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.nn import Module
    from weft.see.graphs import Graph

__all__ = ["FlopCounterMode", "register_flop_formula"]

#: Formulas of the user's, by the name of an op.
flop_registry: dict[str, Callable[..., int]] = {}

_SUFFIXES = ("", "K", "M", "B", "T")


def _op_name(op: Any) -> str:
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    if not isinstance(name, str):
        raise ValueError(
            f"[flop_counter] expected an op, or its name, got {op!r}. Hint: 'mul', weft.mul"
        )
    return name.removesuffix("_")


def _op_named(name: str) -> Any:
    """The packet of ATen's op of that name; the name itself where ATen has none."""
    from weft._ops import namespace_of

    return getattr(namespace_of("aten"), name, name)


def register_flop_formula(
    targets: Any, get_raw: bool = False
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorator: the function counts the operations of one op, or of each of several.

    It gets the shapes of the call's operands, None for one that was not given, and that of its
    result (of several a tuple of theirs) as `out_shape`. Where such a call runs others inside, they
    are not counted again.

    Raises:
        ValueError: `get_raw=True`, for tensors instead of shapes, which are not kept; something
            that is no op.
        RuntimeError: an op that has a formula.

    >>> @weft.utils.flop_counter.register_flop_formula("cumsum")
    ... def cumsum_flop(shape, out_shape=None):
    ...     return shape[0]
    >>> with weft.utils.flop_counter.FlopCounterMode(display=False) as counter:
    ...     y = weft.ones(10).cumsum(0)
    >>> counter.get_total_flops()
    10
    >>> del weft.utils.flop_counter.flop_registry["cumsum"]  # as it was
    """
    if get_raw:
        raise ValueError("[register_flop_formula] expected get_raw=False, got True")
    names = [_op_name(t) for t in (targets if isinstance(targets, (list, tuple)) else [targets])]

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for name in names:
            if name in flop_registry:
                raise RuntimeError(f"[register_flop_formula] duplicate registrations for {name}")
        flop_registry.update(dict.fromkeys(names, formula))
        return formula

    return register


class FlopCounterMode:
    """A scope that counts the floating-point operations of what runs in it, by module and op.

    Operations of backward are of the modules that the forward calls ran in. The numbers are
    PyTorch's where it has a formula, with one exception: the gradient of a convolution's weight
    counts the products within groups only. Where it has none, products count all the same: those
    with vectors (`mv`, `dot`), and the kernels of attention and recurrent layers on the CPU.

    Ops are those that PyTorch would run, as `weft.ops.aten` has them: a linear layer with a bias is
    `aten.addmm`. A kernel that is only weft's (`"_rnn_sequence"`) is its name, a string.

    The scope records (`weft.record`), and so holds some 250 bytes for each call in it.

    Args:
        mods: not needed, as in PyTorch: modules are known as they run.
        depth: of the modules that the table shows.
        display: whether to print the table at the end.
        custom_mapping: by op or the name of one, a function that counts, as
            `register_flop_formula` has it.

    >>> model = weft.nn.Sequential(weft.nn.Linear(8, 16), weft.nn.ReLU(), weft.nn.Linear(16, 4))
    >>> with weft.utils.flop_counter.FlopCounterMode() as counter:
    ...     model(weft.ones(2, 8)).sum().backward()
    Module              FLOP    % Total
    --------------  --------  ---------
    Sequential      1792.000    100.00%
     - aten.addmm    768.000     42.86%
     - aten.mm      1024.000     57.14%
     Sequential.0   1024.000     57.14%
      - aten.addmm   512.000     28.57%
      - aten.mm      512.000     28.57%
     Sequential.2    768.000     42.86%
      - aten.addmm   256.000     14.29%
      - aten.mm      512.000     28.57%
    >>> counter.get_total_flops()
    1792
    >>> counter.get_flop_counts()["Sequential.2"]
    {<OpOverloadPacket(op='aten.addmm')>: 256, <OpOverloadPacket(op='aten.mm')>: 512}
    """

    def __init__(
        self,
        mods: Module | Iterable[Module] | None = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Callable[..., int]] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.depth, self.display = depth, display
        self._custom = {_op_name(op): rule for op, rule in (custom_mapping or {}).items()}
        self._record: Any = None
        self._graph: Graph | None = None
        self._known: tuple[int, dict[str, dict[Any, int]]] = 0, {}

    @property
    def flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations by module, then by op; "Global" has all."""
        graph = self._graph
        if graph is not None and len(graph) != self._known[0]:
            from weft.see.flops import by_module

            counts = by_module(graph, {**flop_registry, **self._custom})
            ops = {name: _op_named(name) for of in counts.values() for name in of}
            named = {m: {ops[op]: n for op, n in of.items()} for m, of in counts.items()}
            self._known = len(graph), named
        return self._known[1]

    def get_total_flops(self) -> int:
        """Of all that ran in the scope, so far."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Operations by the name of the module, then by the op; "Global" has all."""
        return {module: dict(ops) for module, ops in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text, of modules down to `depth`."""
        depth = self.depth if depth is None else depth
        counts, total = self.flop_counts, self.get_total_flops()
        suffix = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))

        def rows_of(name: str, indent: str) -> list[tuple[str, str, str]]:
            whole = sum(counts[name].values())
            named = [(name, whole), *((f" - {op}", n) for op, n in counts[name].items())]
            return [
                (
                    indent + label,
                    f"{n / 1000**suffix:.3f}{_SUFFIXES[suffix]}",
                    f"{n / total:.2%}" if total else "0%",
                )
                for label, n in named
            ]

        modules = sorted(m for m in counts if m != "Global")
        shown = [m for m in modules if depth is None or m.count(".") < depth]
        has_all = any(sum(counts[m].values()) >= total for m in shown)
        more = "" if has_all or "Global" not in counts else " "
        rows = [row for m in shown for row in rows_of(m, more + " " * m.count("."))]
        if more:
            rows = rows_of("Global", "") + rows
        return _table(("Module", "FLOP", "% Total"), rows or [("Global", "0", "0%")])

    def __enter__(self) -> FlopCounterMode:
        from weft.see.recording import record

        self._record = record(times=False)
        self._graph, self._known = self._record.__enter__(), (0, {})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._record.__exit__(kind, error, trace)
        counts = self.flop_counts
        self._graph, self._record, self._known = None, None, (0, counts)
        if self.display:
            print(self.get_table())


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(h) + 2, *(len(r[i]) for r in rows)) for i, h in enumerate(head)]

    def line(cells: tuple[str, ...]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in others)])

    rule = "  ".join("-" * w for w in widths)
    return "\n".join([line(head), rule, *map(line, rows)])
