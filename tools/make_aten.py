"""Writes weft/_library/aten_schemas.txt: the overloads of ATen that weft answers as PyTorch does.

Every sample input of PyTorch's own test database runs under a mode that sees the calls of `aten`
operators; each call that is seen is made again with weft. An overload is listed if there was a call
of it and all its calls agree. Needs PyTorch (`make env PARITY=1`); takes minutes.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

import weft
from weft._library.aten import runner
from weft._ops import bind
from weft.base.schemas import parse_schema

FILE = Path(__file__).resolve().parent.parent / "weft/_library/aten_schemas.txt"
SAMPLES, CALLS = 8, 6
#: What is listed though no sample calls it: what raises here as on any machine without a device,
#: and products of sparse matrices, which tests/sparse/test_reduced_products.py compares.
LISTED = [
    torch.ops.aten._pin_memory.default,
    torch.ops.aten._sparse_addmm.default,
    torch.ops.aten._sparse_mm_reduce_impl.default,
]


class Refused(Exception):
    """A value that weft has not."""


def ours(value: Any) -> Any:
    """A value of PyTorch's as one of weft's."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise Refused
        made = weft.from_dlpack(value.detach().resolve_conj().resolve_neg().clone())
        return made
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return getattr(weft, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return weft.device(str(value))
    if isinstance(value, (list, tuple)):
        return tuple(map(ours, value)) if type(value) is tuple else [*map(ours, value)]
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    raise Refused


def alike(mine: Any, theirs: Any) -> bool:
    """Whether two results agree in layout and values."""
    if isinstance(theirs, torch.Tensor):
        if not isinstance(mine, weft.Tensor) or str(mine.dtype) != str(theirs.dtype):
            return False
        if tuple(mine.shape) != tuple(theirs.shape):
            return False
        try:
            weft.testing.assert_close(mine, ours(theirs), equal_nan=True, rtol=1e-4, atol=1e-4)
        except (AssertionError, Refused):
            return False
        return True
    if isinstance(theirs, (list, tuple)):
        same = isinstance(mine, (list, tuple)) and len(mine) == len(theirs)
        return same and all(map(alike, mine, theirs))
    return type(mine) is type(theirs) and (mine == theirs or mine != mine)


class Seen(TorchDispatchMode):
    """Replays each call with weft and keeps whether it agreed."""

    def __init__(self) -> None:
        super().__init__()
        self.agreed: dict[Any, list[bool]] = defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        wanted = func.namespace == "aten" and len(self.agreed[func]) < CALLS
        if not wanted:
            return func(*args, **kwargs)
        try:
            mine = ours(list(args)), {k: ours(v) for k, v in kwargs.items()}
        except Refused:
            return func(*args, **kwargs)
        torch.manual_seed(3)
        result = func(*args, **kwargs)
        weft.manual_seed(3)
        self.agreed[func].append(self.replayed(func, *mine, result))
        return result

    @staticmethod
    def replayed(func: Any, args: Any, kwargs: Any, theirs: Any) -> bool:
        try:
            schema = parse_schema(str(func._schema))
            run = runner(schema)
            if run is None:
                return False
            mine = run(bind(schema, args, kwargs))
            if "empty" in func._schema.name:  # nothing is said of the values
                mine, theirs = mine.fill_(1), theirs.fill_(1)
            return alike(mine, theirs)
        except Exception:
            return False


def main() -> None:
    seen = Seen()
    warnings.simplefilter("ignore")
    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        for k, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=False)):
            if k == SAMPLES:
                break
            for form in (op.op, op.inplace_variant):
                for scope in (torch.no_grad, torch.inference_mode):
                    if form is None:
                        continue
                    copied = _pytree.tree_map_only(
                        torch.Tensor, torch.clone, (sample.input, sample.args, sample.kwargs)
                    )
                    try:
                        with seen, scope():
                            form(copied[0], *copied[1], **copied[2])
                    except Exception:
                        continue
    lines = sorted(
        str(func._schema).removeprefix("aten::")
        for func, agreed in seen.agreed.items()
        if agreed and all(agreed)
    )
    lines += [str(func._schema).removeprefix("aten::") for func in LISTED]
    lines.sort()
    FILE.write_text("\n".join(lines) + "\n")
    failed = sorted(str(f) for f, agreed in seen.agreed.items() if agreed and not all(agreed))
    print(f"{len(lines)} overloads; without: {' '.join(failed)}")


if __name__ == "__main__":
    main()
