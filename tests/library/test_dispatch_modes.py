"""Modes of operators: what `__torch_dispatch__` sees, and that a call through one is the call."""

import weakref
from collections import Counter
from typing import Any

import pytest
from op_samples import CASES, IDS, RECORDS, Inputs, ours

import weft
from weft.utils._python_dispatch import TorchDispatchMode, is_in_torch_dispatch_mode

aten = weft.ops.aten


def modes_of(lib: Any) -> Any:
    if lib is weft:
        return TorchDispatchMode
    from torch.utils._python_dispatch import TorchDispatchMode as Theirs

    return Theirs


def seen(lib: Any, run: Any) -> list[str]:
    """The operators of a program, but for those by which PyTorch hands tensors on."""
    names: list[str] = []

    class Log(modes_of(lib)):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            names.append(str(func))
            return func(*args, **kwargs)

    with Log():
        run()
    return [n for n in names if n not in ("aten.detach.default", "aten.lift_fresh.default")]


class Through(TorchDispatchMode):
    """Calls the operator."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self.seen.append(func)
        return func(*args, **kwargs)


# ---- the law: within a mode that calls the operator, every op is as without


def values(inputs: Inputs, results: list[Any]) -> list[Any]:
    tensors = [t for t in results if isinstance(t, weft.Tensor)]
    wanted = [t for t in tensors if t.requires_grad]
    if wanted:
        try:
            weft.autograd.backward(wanted, [weft.ones_like(t) for t in wanted])
        except (RuntimeError, NotImplementedError) as error:  # no derivative
            return [*tensors, str(error).partition("(")[0]]
    return [*tensors, *(leaf.grad for leaf in inputs.leaves)]


@pytest.mark.parametrize("name, sample", CASES, ids=IDS)
def test_a_call_through_a_mode_is_the_call(name: str, sample: str) -> None:
    def run() -> list[Any]:
        weft.manual_seed(0)
        inputs = Inputs(weft, "float32", sample, grad=True)
        return values(inputs, inputs.run(ours(RECORDS[name]), sample))

    expected = run()
    with Through():
        found = run()
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        if isinstance(a, weft.Tensor):
            assert a.requires_grad == b.requires_grad and a.dtype == b.dtype
            if not a.is_meta and "empty" not in name:
                weft.testing.assert_close(a, b, equal_nan=True, rtol=1e-4, atol=1e-5)
        else:
            assert a == b


# ---- what a mode sees is what PyTorch shows


def net(lib: Any) -> Any:
    return lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU(), lib.nn.Linear(8, 2))


PROGRAMS: dict[str, Any] = {
    "layers": lambda lib: net(lib)(lib.ones(3, 4)),
    "arithmetic": lambda lib: (lib.ones(2) + 1) * 2 - lib.ones(2) / 2,
    "numbers": lambda lib: (1 - lib.ones(2), lib.ones(2) % 2, -lib.ones(2), lib.ones(2) > 0),
    "factories": lambda lib: (
        lib.zeros(2), lib.ones(2, dtype=lib.float64), lib.empty(2, 3), lib.full((2,), 3.0),
        lib.arange(3), lib.randn(2), lib.zeros_like(lib.ones(2)), lib.eye(2),
    ),
    "views": lambda lib: (
        lib.ones(3, 4).t(), lib.ones(3, 4).view(12), lib.ones(3, 4)[0], lib.ones(3, 4)[None],
        lib.ones(3, 4).permute(1, 0), lib.ones(3).expand(2, 3), lib.ones(3, 4).split(1),
    ),
    "reductions": lambda lib: (
        lib.ones(3, 4).sum(), lib.ones(3, 4).sum(1), lib.ones(3, 4).mean(0), lib.ones(3, 4).max(1),
        lib.ones(3, 4).softmax(1), lib.ones(3, 4).log_softmax(-1), lib.ones(3).cumsum(0),
    ),
    "products": lambda lib: (
        lib.ones(3, 4) @ lib.ones(4, 2), lib.ones(3, 4) @ lib.ones(4), lib.ones(4) @ lib.ones(4),
        lib.bmm(lib.ones(2, 3, 4), lib.ones(2, 4, 5)),
        lib.nn.functional.linear(lib.ones(2, 3, 4), lib.ones(5, 4), lib.ones(5)),
    ),
    "in place": lambda lib: (
        lib.ones(2).add_(1), lib.ones(2).zero_(), lib.ones(2).fill_(2), lib.ones(2).relu_(),
        lib.ones(2).mul_(lib.ones(2)), lib.ones(2).copy_(lib.ones(2)),
    ),
    "conversions": lambda lib: (lib.ones(2).double(), lib.ones(2).to(lib.float64)),
    "choices": lambda lib: (
        lib.cat([lib.ones(2), lib.ones(2)]), lib.ones(3, 4).gather(1, lib.tensor([[0], [1]])),
        lib.ones(3)[lib.tensor([0, 1])], lib.ones(3).sort(), lib.ones(3).topk(2),
        lib.ones(3).nonzero(),
    ),
    "networks": lambda lib: (
        lib.nn.functional.conv2d(lib.ones(1, 2, 5, 5), lib.ones(3, 2, 3, 3), padding=1),
        lib.nn.functional.layer_norm(lib.ones(3, 4), (4,)),
        lib.nn.functional.embedding(lib.tensor([0, 1]), lib.ones(3, 4)),
        lib.nn.functional.max_pool2d(lib.ones(1, 2, 4, 4), 2),
        lib.nn.functional.cross_entropy(lib.ones(3, 2), lib.tensor([0, 1, 1])),
        lib.nn.functional.gelu(lib.ones(2)), lib.nn.functional.mse_loss(lib.ones(2), lib.ones(2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mode_sees_the_operators_that_pytorch_shows(name: str) -> None:
    torch = pytest.importorskip("torch")
    run = PROGRAMS[name]
    assert seen(weft, lambda: run(weft)) == seen(torch, lambda: run(torch))


def test_arguments_are_those_of_the_schema_without_what_is_so_anyway() -> None:
    calls = []

    class Keep(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            calls.append((func, args, kwargs, types))
            return func(*args, **kwargs)

    x = weft.ones(3, 4)
    with Keep():
        x.sum(1)
        x.sum(1, keepdim=True, dtype=weft.float64)
        weft.add(x, x, alpha=2)
        weft.zeros(2, 3)
    (a, b, c, d) = calls
    assert a == (aten.sum.dim_IntList, (x, [1]), {}, ())
    assert b == (aten.sum.dim_IntList, (x, [1], True), {"dtype": weft.float64}, ())
    assert c == (aten.add.Tensor, (x, x), {"alpha": 2}, ())
    assert d[1:3] == (([2, 3],), {"device": weft.device("cpu"), "pin_memory": False})


def test_operators_in_backward() -> None:
    model = net(weft)
    loss = model(weft.ones(3, 4)).square().sum()
    with Through() as mode:
        loss.backward()
    counted = Counter(func._overloadpacket for func in mode.seen)
    assert counted[aten.mm] == 3 and counted[aten.threshold_backward] == 1
    assert all(p.grad is not None for p in model.parameters())


# ---- a mode may change what it sees


def test_results_are_the_modes_and_have_the_calls_gradient() -> None:
    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            out = func(*args, **kwargs)
            return out * 2 if func is aten.exp.default else out

    x = weft.zeros(2, requires_grad=True)
    with Twice():
        y = x.exp()
    assert y.tolist() == [2, 2] and "ExpBackward0" in repr(y)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]  # exp's rule, of the result that it is told


def test_modes_nest_and_the_innermost_is_asked_first() -> None:
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name: str) -> None:
            self.name = name

        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            order.append((self.name, str(func)))
            if self.name == "inner" and func is aten.exp.default:
                return args[0].sin()
            return func(*args, **kwargs)

    assert not is_in_torch_dispatch_mode()
    with Named("outer"):
        with Named("inner"):
            y = weft.zeros(2).exp()
            assert is_in_torch_dispatch_mode()
        weft.ones(1)
    assert y.tolist() == [0, 0] and not is_in_torch_dispatch_mode()
    names = [(who, what.split(".")[1]) for who, what in order]
    assert names == [
        ("inner", "zeros"), ("outer", "zeros"), ("inner", "exp"), ("outer", "sin"),
        ("outer", "ones"),
    ]  # fmt: skip


def test_an_error_leaves_the_mode_and_refusals_are_told() -> None:
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return NotImplemented

    x = weft.ones(2)
    with pytest.raises(TypeError, match="dispatch failed for 'aten.exp.default'"), Refuses():
        x.exp()
    assert not is_in_torch_dispatch_mode() and x.exp().shape == (2,)
    with pytest.raises(TypeError, match="expected 1 results of __torch_dispatch__, got 2"):

        class Two(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
                return x, x

        with Two():
            x.exp()


def test_writes_and_views_keep_their_graph() -> None:
    x = weft.ones(3, requires_grad=True)
    with Through():
        y = x * 1
        y.mul_(3)
        y[1:].add_(x[:2])
        out = weft.empty(3)
        weft.add(y.detach(), 1, out=out)
    assert y._version == 2 and out.tolist() == [4, 5, 5]
    y.sum().backward()
    assert x.grad.tolist() == [4, 4, 3]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"), Through():
        x.add_(1)


# ---- idioms of public programs


def test_counting_flops() -> None:
    class Flops(TorchDispatchMode):
        def __init__(self) -> None:
            self.total = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            out = func(*args, **kwargs)
            if func._overloadpacket is aten.mm:
                self.total += 2 * args[0].shape[0] * args[0].shape[1] * args[1].shape[1]
            elif func._overloadpacket is aten.addmm:
                self.total += 2 * args[1].shape[0] * args[1].shape[1] * args[2].shape[1]
            elif func._overloadpacket is aten.convolution:
                wide = args[0].shape if args[6] else out.shape
                self.total += 2 * wide[0] * wide[2:].numel() * args[1].numel()
            elif func._overloadpacket is aten.convolution_backward and args[10][1]:
                wide = args[1].shape if args[7] else args[0].shape
                self.total += 2 * wide[0] * wide[2:].numel() * args[2].numel()
            return out

    model, image = net(weft), weft.ones(1, 2, 5, 5, requires_grad=True)
    with Flops() as mode:
        model(weft.ones(3, 4)).sum().backward()
    forward = 2 * 3 * (4 * 8 + 8 * 2)
    assert mode.total == 2 * forward + 2 * 3 * 8 * 2  # the first input wants no gradient
    with Flops() as mode:
        weft.nn.Conv2d(2, 3, 3)(image).sum().backward()
    assert mode.total == 3 * (2 * 9 * 3 * 2 * 9)


def test_counting_memory() -> None:
    class Memory(TorchDispatchMode):
        def __init__(self) -> None:
            self.now = self.peak = 0
            self.known: set[int] = set()

        def forget(self, key: int, size: int) -> None:
            self.known.discard(key)
            self.now -= size

        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            out = func(*args, **kwargs)
            for t in out if isinstance(out, (tuple, list)) else [out]:
                key, size = t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()
                if key not in self.known:
                    self.known.add(key)
                    self.now += size
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(t, self.forget, key, size)
            return out

    with Memory() as mode:
        x = weft.zeros(256)
        y = x + 1
        z = y.view(16, 16)
        del x
        w = z.exp()
    assert mode.peak == mode.now == 2 * 1024 and w.shape == z.shape == (16, 16)
    del y, z
    assert mode.now == 1024


def test_compiled_and_batched_calls_are_seen() -> None:
    @weft.compile
    def f(x: Any) -> Any:
        return (x * 2).exp()

    for _ in range(10):
        f(weft.ones(3))
    with Through() as mode:
        f(weft.ones(3))
    assert [str(func) for func in mode.seen] == [
        "aten.ones.default", "aten.mul.Tensor", "aten.exp.default",
    ]  # fmt: skip
    with Through() as mode:
        a, b = weft.autobatch(lambda x: (x * 2).sum())([weft.ones(3), weft.ones(3)])
    assert a.item() == b.item() == 6 and aten.mul.Tensor in mode.seen


def test_an_optimizer_steps_by_operators() -> None:
    p = weft.nn.Parameter(weft.ones(2))
    p.grad = weft.ones(2)
    with Through() as mode:
        weft.optim.SGD([p], 0.5).step()
    assert p.tolist() == [0.5, 0.5] and mode.seen


def all_seen(lib: Any, run: Any) -> list[str]:
    """With those by which tensors are handed on."""
    calls: list[str] = []

    class Log(modes_of(lib)):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            calls.append(str(func))
            return func(*args, **kwargs)

    with Log():
        run()
    return calls


READS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.sum() > 0),
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "if": lambda x: 1 if x[0] > 0 else 2,
    "detach": lambda x: (x * 2).detach() + 1,
    "list": lambda x: x.tolist(),
    "index": lambda x: range(9)[x.long().sum()],
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_numbers_that_a_program_reads_are_seen(torch: Any, read: str) -> None:
    """`item` and `detach` are no records of the core's: modes saw neither."""
    calls = [all_seen(t, lambda t=t: READS[read](t.ones(3, requires_grad=True)))
             for t in (weft, torch)]  # fmt: skip
    assert calls[0] == calls[1]


def test_a_mode_gives_the_number() -> None:
    class Seven(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return 7.5

    x, pair = weft.ones(()), weft.ones(2)
    with Seven():
        assert (x.item(), float(x), int(x), bool(x)) == (7.5, 7.5, 7, True)
    for read in (weft.Tensor.item, bool, float):
        with Seven(), pytest.raises((RuntimeError, ValueError), match="one element"):
            read(pair)


def test_no_mode_has_the_number() -> None:
    class Nobody(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return NotImplemented

    x = weft.ones(())
    for read in (weft.Tensor.item, weft.Tensor.detach, bool, int):
        with Nobody(), pytest.raises(TypeError, match="Multiple dispatch failed for 'aten"):
            read(x)
