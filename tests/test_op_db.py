"""PyTorch's own operator database as a test source: every entry of tests/op_db.txt agrees.

`torch.testing._internal.common_methods_invocations.op_db` says for about 700 operators which calls
span their domain. An entry agrees if, for its first samples, weft's function of the same dotted
name gives PyTorch's values, shapes and dtypes, and its gradients in float64; if the values agree in
float32 and int64 too; and if the method, the in-place form and `out=` agree wherever PyTorch has
them. The wrong calls of the entries in tests/op_db_errors.txt raise errors of PyTorch's types.

`python tests/test_op_db.py [--update] [NAME ...]` runs all entries (or those whose name contains
one of NAME), prints what disagrees and why, and with --update adds the entries that agree to the
list. Nothing takes an entry off the list but an editor.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft

LIST = Path(__file__).with_name("op_db.txt")
LISTED = [s for s in LIST.read_text().split("\n") if s and s[0] != "#"] if LIST.exists() else []
ERROR_LIST = LIST.with_name("op_db_errors.txt")
ERRORS = ERROR_LIST.read_text().split() if ERROR_LIST.exists() else []
SAMPLES, FEWER = 16, 5  # calls of an entry in its main dtype, and in each other one

# Their values are whatever was in memory: shapes and dtypes count.
UNSET = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
    "resize_", "resize_as_",
}  # fmt: skip
# Factors are unique up to signs or phases: what PyTorch's own gradient tests make of them counts.
FACTORS = {"svd", "qr", "linalg.svd", "linalg.qr", "linalg.eig", "linalg.eigh", "linalg.eigvals",
           "svd_lowrank", "pca_lowrank"}  # fmt: skip
# Which of equal elements they name is left open: indices count where no two are equal.
TIES = {"topk", "kthvalue"}


class Disagreement(AssertionError):
    """What differs, in one line."""


class Unsupported(Exception):
    """A sample that says nothing of weft, such as one with a generator of PyTorch's."""


@functools.cache
def database() -> dict[str, Any]:
    """The entries by name and variant."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest")
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {e.name + (f" {e.variant_test_name}" if e.variant_test_name else ""): e for e in op_db}


# ---- the same call in weft


def dotted(name: str) -> Any:
    """weft.<name>, or its method where there is no such function."""
    home: Any = weft
    for part in name.split("."):
        home = getattr(home, part, None)
    return getattr(weft.Tensor, name, None) if home is None else home


def run_seeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """torch.testing's wrapper_set_seed, for both libraries: run() has set the seed."""
    return op(*args, **kwargs)


def peer_of(op: Any, name: str) -> Any:
    """weft's callable for PyTorch's `op`: a lambda of the database sees weft as its `torch`."""
    import torch

    if isinstance(op, functools.partial):
        inner = peer_of(op.func, name)
        return inner and functools.partial(inner, *map(to_weft, op.args), **op.keywords)
    if isinstance(op, types.FunctionType) and op.__module__.startswith("torch.testing"):
        if op.__name__ == "wrapper_set_seed":
            return run_seeded
        names = {**op.__globals__, "torch": weft}
        for used in op.__code__.co_names:
            value = names.get(used)
            if isinstance(value, types.FunctionType) and value is not op:
                names[used] = peer_of(value, used) or value
        cells = tuple(
            types.CellType(peer_of(c.cell_contents, name) if callable(c.cell_contents)
                           else to_weft(c.cell_contents))
            for c in op.__closure__ or ()
        )  # fmt: skip
        made = types.FunctionType(op.__code__, names, op.__name__, op.__defaults__, cells)
        made.__kwdefaults__ = op.__kwdefaults__
        return made
    if isinstance(op, types.FunctionType) and op.__module__.startswith("torch.nn.functional"):
        return getattr(weft.nn.functional, op.__name__, None) or dotted(name)
    if isinstance(op, torch.nn.Module):
        return getattr(weft.nn, type(op).__name__)()
    own = getattr(op, "__name__", "")
    if getattr(torch.Tensor, own, None) is op:
        return getattr(weft.Tensor, own, None)
    return dotted(name)


def tensor_to_weft(t: Any) -> Any:
    """The same values under the same layout, a leaf of its own."""
    import torch

    if t.layout is not torch.strided or t.is_quantized:
        raise Unsupported("not strided")
    if not hasattr(weft, str(t.dtype).removeprefix("torch.")):
        raise Disagreement(f"weft has no {t.dtype}")
    plain = t.detach().resolve_conj().resolve_neg()
    size = plain.untyped_storage().nbytes() // max(plain.itemsize, 1)
    memory = torch.as_strided(plain, (size,), (1,), 0).clone()
    if t.dtype is torch.bfloat16:
        out = weft.from_numpy(memory.view(torch.int16).numpy()).view(weft.bfloat16)
    else:
        out = weft.from_numpy(memory.numpy())
    out = out.as_strided(tuple(t.shape), t.stride(), t.storage_offset())
    return out.requires_grad_() if t.requires_grad else out


def to_weft(x: Any) -> Any:
    """PyTorch's values as weft's, inside containers too."""
    import torch

    if isinstance(x, torch.Tensor):
        return tensor_to_weft(x)
    if isinstance(x, torch.Size):
        return weft.Size(x)
    if isinstance(x, (list, tuple)):
        return type(x)(map(to_weft, x))
    if isinstance(x, dict):
        return {k: to_weft(v) for k, v in x.items()}
    if isinstance(x, torch.Generator):
        raise Unsupported("a generator")
    if isinstance(x, (torch.dtype, torch.layout, torch.memory_format)):
        name = str(x).removeprefix("torch.")
        if not hasattr(weft, name):
            raise Disagreement(f"weft has no {x}")
        return getattr(weft, name)
    if isinstance(x, torch.device):
        return weft.device(str(x))
    if isinstance(x, torch.nn.Module) or (callable(x) and "torch" in str(x.__module__)):
        return peer_of(x, getattr(x, "__name__", ""))
    return x


# ---- comparison


def flat(out: Any) -> list[Any]:
    if isinstance(out, dict):
        out = [out[k] for k in sorted(out)]
    return [t for part in out for t in flat(part)] if isinstance(out, (tuple, list)) else [out]


def expect(condition: bool, where: str, what: str, got: Any, expected: Any) -> None:
    if not condition:
        raise Disagreement(f"{where}: {what} {got} for {expected}")


def same(got: Any, expected: Any, where: str, values: bool = True) -> None:
    """Shape, dtype and (unless they are unset) values."""
    import torch

    if not isinstance(expected, torch.Tensor):
        if isinstance(expected, torch.dtype):
            got, expected = str(got), str(expected)
        close = got == expected or (
            isinstance(expected, float) and np.isclose(got, expected, 1e-9, equal_nan=True)
        )
        return expect(bool(close), where, "value", got, expected)
    expect(isinstance(got, weft.Tensor), where, "a result", type(got).__name__, "Tensor")
    expect(tuple(got.shape) == tuple(expected.shape), where, "shape",
           tuple(got.shape), tuple(expected.shape))  # fmt: skip
    expect(str(got.dtype) == str(expected.dtype), where, "dtype", got.dtype, expected.dtype)
    if not values:
        return None
    if expected.dtype is torch.bfloat16:
        got, expected = got.float(), expected.float()
    a = np.asarray(got.detach().numpy())
    b = expected.detach().resolve_conj().resolve_neg().numpy(force=True)
    tolerance = {"float64": 1e-8, "complex128": 1e-8, "float32": 3e-5, "complex64": 3e-5}
    limit = tolerance.get(b.dtype.name, 1e-2 if b.dtype.kind == "f" else 0)
    if not np.allclose(a, b, limit, limit, equal_nan=True):
        at = np.unravel_index(np.argmax(~np.isclose(a, b, limit, limit, equal_nan=True)), b.shape)
        expect(False, where, "value", a[at], f"{b[at]} at {tuple(map(int, at))}")
    return None


def leaves(x: Any, kind: type) -> list[Any]:
    return [t for t in flat(x) if isinstance(t, kind) and t.requires_grad and t.is_leaf]


def compare_gradients(
    outs: tuple[Any, Any], inputs: tuple[list[Any], list[Any]], where: str
) -> None:
    """By one backward pass with a random cotangent per output."""
    import torch

    rng = np.random.default_rng(1)
    tracked: list[tuple[Any, Any, Any, Any]] = []
    for mine, theirs in zip(flat(outs[0]), flat(outs[1]), strict=True):
        if not isinstance(theirs, torch.Tensor) or not theirs.requires_grad:
            continue
        expect(mine.requires_grad, where, "requires_grad", False, True)
        seed = rng.standard_normal(tuple(theirs.shape))
        if theirs.is_complex():
            seed = seed + 1j * rng.standard_normal(tuple(theirs.shape))
        seed = np.asarray(seed)
        mine_seed = weft.from_numpy(seed).to(mine.dtype)
        tracked.append((mine, mine_seed, theirs, torch.from_numpy(seed).to(theirs.dtype)))
    if not tracked or not inputs[1]:
        return
    try:
        expected = torch.autograd.grad(
            [t[2] for t in tracked], inputs[1], [t[3] for t in tracked], allow_unused=True
        )
    except (RuntimeError, NotImplementedError):
        return  # PyTorch cannot
    got = weft.autograd.grad(
        [t[0] for t in tracked], inputs[0], [t[1] for t in tracked], allow_unused=True
    )
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a is None:
            expect(b is None or not bool(b.any()), where, "gradient", None, f"input {k}'s")
        elif b is None:
            expect(not bool((a != 0).any()), where, "gradient", "of values", f"None of input {k}")
        else:
            same(a, b, f"{where} gradient {k}")


# ---- one entry


def samples(entry: Any, dtype: Any, grad: bool, limit: int) -> Iterator[Any]:
    import torch

    torch.manual_seed(11)
    yield from itertools.islice(entry.sample_inputs("cpu", dtype, requires_grad=grad), limit)


def compare_call(entry: Any, op: Any, ours: Any, sample: Any, where: str, grad: bool) -> bool:
    """One call in both libraries: values, and gradients if `grad`. Whether PyTorch can make it."""
    import torch

    theirs = (sample.input, list(sample.args), dict(sample.kwargs))
    try:
        mine = to_weft(theirs)
    except Unsupported:
        return False
    own_leaves, peer_leaves = leaves(mine, weft.Tensor), leaves(theirs, torch.Tensor)
    torch.manual_seed(42)
    try:
        expected = op(theirs[0], *theirs[1], **theirs[2])
    except Exception:  # noqa: BLE001
        return False
    weft.manual_seed(42)
    try:
        got = ours(mine[0], *mine[1], **mine[2])
    except Exception as error:
        raise Disagreement(f"{where}: {type(error).__name__} {error}"[:300]) from error
    if entry.name in FACTORS:
        got, expected = map(sample.output_process_fn_grad, (got, expected))
    a, b = flat(got), flat(expected)
    expect(len(a) == len(b), where, "results", len(a), len(b))
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        tied = k == 1 and entry.name in TIES and not b[0].is_floating_point()
        same(x, y, where, entry.name not in UNSET and not tied)
    if grad:
        compare_gradients((a, b), (own_leaves, peer_leaves), where)
    return True


def forms(entry: Any) -> Iterator[tuple[str, Any]]:
    """The further forms that PyTorch has: the method and the in-place one."""
    if entry.method_variant is not None and entry.method_variant is not entry.op:
        yield "method", entry.method_variant
    if entry.inplace_variant is not None:
        yield "in place", entry.inplace_variant


def compare_out(entry: Any, ours: Any, dtype: Any) -> None:
    """The first call again, written into tensors that are given."""
    import torch

    for sample in samples(entry, dtype, False, 1):
        theirs = (sample.input, list(sample.args), dict(sample.kwargs))
        try:
            torch.manual_seed(42)
            expected = entry.op(theirs[0], *theirs[1], **theirs[2])
            empty = [torch.empty_like(t) for t in flat(expected)]
            many = isinstance(expected, (tuple, list))
            torch.manual_seed(42)
            entry.op(theirs[0], *theirs[1], **theirs[2], out=tuple(empty) if many else empty[0])
            mine, out = to_weft(theirs), to_weft(empty)
        except Exception:  # noqa: BLE001
            return
        weft.manual_seed(42)
        try:
            ours(mine[0], *mine[1], **mine[2], out=tuple(out) if many else out[0])
        except Exception as error:
            raise Disagreement(f"out=: {type(error).__name__} {error}"[:300]) from error
        for x, y in zip(out, empty, strict=True):
            same(x, y, "out=", entry.name not in UNSET | FACTORS)


def in_place_copy(sample: Any) -> Any:
    return sample.transform(lambda t: t.clone() if hasattr(t, "clone") else t)


def disagreement(entry: Any) -> str | None:
    """What differs first, or None."""
    import torch

    ours = peer_of(entry.op, entry.name)
    if ours is None:
        return "missing"
    kinds = [torch.float64, torch.int64, torch.bool, torch.complex128, torch.float32]
    able = [k for k in kinds if entry.supports_dtype(k, "cpu")]
    if not able:
        return "no dtype that weft has"
    grad = entry.supports_autograd and able[0] is torch.float64
    made = False
    try:
        for n, sample in enumerate(samples(entry, able[0], grad, SAMPLES)):
            where = f"sample {n} {able[0]}"
            made |= compare_call(entry, entry.op, ours, sample, where, grad)
        for kind in able[1:]:
            if kind in (torch.int64, torch.float32):
                for n, sample in enumerate(samples(entry, kind, False, FEWER)):
                    compare_call(entry, entry.op, ours, sample, f"sample {n} {kind}", False)
        if entry.supports_out:
            compare_out(entry, ours, able[0])
        for what, op in forms(entry):
            form = peer_of(op, getattr(op, "__name__", ""))
            if form is None:
                return f"{what} form missing"
            for n, sample in enumerate(samples(entry, able[0], False, FEWER)):
                if what == "in place":
                    if sample.broadcasts_input:
                        continue
                    sample = in_place_copy(sample)
                compare_call(entry, op, form, sample, f"{what} sample {n}", False)
    except Disagreement as error:
        return str(error)
    return None if made else "no call that PyTorch can make"


def on_a_short_stack(run: Callable[..., Any], *args: Any) -> Any:
    """In a thread: PyTorch formats the whole stack whenever it is seeded, and pytest's is long."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run, *args).result()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LISTED)
def test_agrees_with_pytorch(name: str) -> None:
    entries = on_a_short_stack(database)
    assert name in entries
    reason = on_a_short_stack(disagreement, entries[name])
    assert reason is None, f"[{name}] {reason}"


def wrong_calls(entry: Any) -> tuple[int, list[str]]:
    """How many wrong calls of the database weft can be asked for, and those that it answers
    otherwise than by an error of PyTorch's type."""
    ours = peer_of(entry.op, entry.name)
    count, wrong = 0, []
    for n, case in enumerate(entry.error_inputs("cpu")):
        sample = case.sample_input
        try:
            mine = to_weft((sample.input, list(sample.args), dict(sample.kwargs)))
        except Exception:  # noqa: BLE001, S112
            continue  # a dtype or a device that weft lacks
        try:
            entry.op(sample.input, *sample.args, **sample.kwargs)
            continue
        except Exception as error:  # noqa: BLE001
            expected = type(error)
        count += 1
        try:
            ours(mine[0], *mine[1], **mine[2])
            wrong.append(f"call {n}: no {expected.__name__}")
        except Exception as error:  # noqa: BLE001
            if not isinstance(error, expected):
                wrong.append(f"call {n}: {type(error).__name__} for {expected.__name__}")
    return count, wrong


@pytest.mark.filterwarnings("ignore")
def test_errors_are_pytorchs() -> None:
    """The wrong calls of the entries in tests/op_db_errors.txt raise errors of PyTorch's types."""
    entries = on_a_short_stack(database)
    found = {name: on_a_short_stack(wrong_calls, entries[name]) for name in ERRORS}
    assert not {name: wrong for name, (_, wrong) in found.items() if wrong}
    assert sum(count for count, _ in found.values()) >= 150


FLOOR = 630  # entries that agree; the list may only grow


def test_the_list_is_one() -> None:
    assert LISTED == sorted(set(LISTED))
    assert len(LISTED) >= FLOOR


def raises_as_pytorch(name: str) -> bool:
    entry = database()[name]
    if entry.error_inputs_func is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count, wrong = wrong_calls(entry)
    return count > 0 and not wrong


def report(arguments: list[str]) -> None:
    """Runs entries in child processes, so that a crash is one more disagreement."""
    wanted = [a for a in arguments if a[0] != "-"]
    entries = {n: e for n, e in database().items() if not wanted or any(w in n for w in wanted)}
    agree, reasons = [], []
    todo = list(entries)
    while todo:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            warnings.simplefilter("ignore")
            with os.fdopen(write, "w") as lines:
                for name in todo:
                    try:
                        found = disagreement(entries[name])
                    except Exception as error:  # noqa: BLE001
                        found = f"the test failed: {type(error).__name__} {error}"
                    lines.write((found or "").replace("\n", " ") + "\n")
                    lines.flush()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as lines:
            found = [line.rstrip("\n") for line in lines]
        os.waitpid(child, 0)
        found = found[: len(todo)] + ["crash"] * (len(found) < len(todo))
        for name, reason in zip(todo, found):
            (reasons if reason else agree).append((reason, name))
        todo = todo[len(found) :]
    for reason, name in sorted(reasons):
        print(f"{name}: {reason}")
    listed = sorted({*LISTED, *(n for _, n in agree)})
    lost = {n for _, n in reasons} & set(LISTED)
    print(f"{len(agree)} agree, {len(reasons)} do not; {len(lost)} of those are on the list")
    if "--update" in arguments:
        LIST.write_text("\n".join(listed) + "\n")
        right = {n for n in entries if n in listed and " " not in n and raises_as_pytorch(n)}
        ERROR_LIST.write_text("\n".join(sorted({*ERRORS, *right})) + "\n")


if __name__ == "__main__":
    report(sys.argv[1:])
