"""What writes: every in-place form and change of layout, batched and deferred, is the loop."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from op_samples import CASES, IDS, RECORDS, Inputs

import weft
from weft.utils.checkpoint import checkpoint

# ---- every op with an in-place form

IN_PLACE = [c for c in CASES if RECORDS[c[0]]["inplace"] and not RECORDS[c[0]]["random"]]


class Written(Inputs):
    """A sample in which the written tensor is read before and after."""

    def __init__(self, sample: str, seed: int, how: str, memo: dict[str, Any]) -> None:
        super().__init__(weft, "float64", sample)
        self.how, self.memo, self.seed = how, memo, seed

    def _tensor(self, values: Any, dtype: str) -> Any:
        t = super()._tensor(values, dtype)
        number = len(self.made)
        if self.how == "shared":
            return self.memo.setdefault(f"{number}", t)
        if self.how == "view":
            return weft.stack([t, t * 0 + t])[self.seed % 2]
        return t.clone() if self.how == "clone" else t * 1 if t.dtype != weft.bool else t ^ False

    def outcome(self, name: str) -> list[Any]:
        public = RECORDS[name]["public_name"] + "_"

        def in_place(x: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(x, weft.Tensor):
                return []
            before = [x + 0, x.reshape(-1)[:1].clone(), x.sum()]
            try:
                getattr(x, public)(*args, **kwargs)
            except (RuntimeError, TypeError) as error:
                return [*before, weft.tensor(float(len(type(error).__name__)))]
            return [*before, x, x * 2]

        return [t for t in self.run(in_place, self.sample) if isinstance(t, weft.Tensor)]


def loop(fn: Callable[[Any], Any], examples: list[Any]) -> list[Any]:
    return [fn(e) for e in examples]


def deferred(fn: Callable[[Any], Any], examples: list[Any]) -> list[Any]:
    with weft.deferred():
        return [fn(e) for e in examples]


def batched(fn: Callable[[Any], Any], examples: list[Any]) -> list[Any]:
    return weft.autobatch(fn, adaptive=False)(examples)


def plain(out: Any) -> Any:
    if isinstance(out, weft.Tensor):
        return tuple(out.shape), out.dtype, out.is_contiguous(), repr(out.tolist())
    if isinstance(out, (list, tuple)):
        return [plain(o) for o in out]
    return out


@pytest.mark.parametrize("how", ["computed", "clone", "view", "shared"])
@pytest.mark.parametrize(
    ("name", "sample"), IN_PLACE, ids=[i for c, i in zip(CASES, IDS) if c in IN_PLACE]
)
def test_an_in_place_form_is_the_loop(name, sample, how):
    def run(way: Any) -> Any:
        memo: dict[str, Any] = {}

        def one(seed: int) -> Any:
            inputs = Written(sample, seed, how, memo)
            inputs.sample = sample
            return inputs.outcome(name)

        return plain([way(one, [0, 1, 2]), list(memo.values())])

    expected = run(loop)
    assert run(deferred) == expected
    assert run(batched) == expected


# ---- every change of layout or memory

LAYOUTS = """
x.t_()
x.transpose_(0, 1)
x.swapaxes_(-1, 0)
x.swapdims_(0, 1)
x.unsqueeze_(0)
x.unsqueeze_(1).squeeze_(1).t_()
x.squeeze_()
x.as_strided_((2, 2), (1, 2))
x.as_strided_((3,), (1,), 1)
x.resize_(3, 2)
x.resize_(2, 2)
x.resize_(2, 3)
x.set_(other)
x.set_()
x.data = other
x.data = x.data.t()
x.detach_()
x.t_(); x.add_(1)
x.add_(1); x.t_(); x[0] = 5
x.data = other; x.mul_(2)
x.set_(other); x.mul_(2)
x.resize_(3, 2); x.zero_()
""".strip().splitlines()
READS = ["x * 2", "x.sum(1)", "x.clone()", "x @ w", "x.min(dim=-1).values", "x[0] + 1", "x.t() * 1",
         "x.reshape(-1)", "x[:, 1]", "(x * x).sum()", "x.detach() - 1", "x[1:] * y"]  # fmt: skip
MADE = ["e * 1", "e.clone()", "e.t().contiguous().t()", "shared"]


def layout_program(
    made: str, read: str, change: str, names: dict[str, Any]
) -> Callable[[Any], Any]:
    text = f"""
def program(e):
    other = e.flip(0) + 1
    y = other[:1]
    x = {made}
    v = x[0]
    a = {read}
    b = x.t()
    flat, none = x.reshape(-1), x[2:]
    {change}
    c = [{read}] if x.shape == (2, 3) else []
    return [a, b, v, x, x + 1, *c, other, v.sum(), flat.sum(), flat * 2, none.storage_offset()]
"""
    exec(text, names)
    return names["program"]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("change", LAYOUTS)
def test_a_change_of_layout_is_the_loop(change, made):
    """Kept calls read the layout that their operand had later: `y = x * 2; x.t_()`."""
    for read in READS:

        def run(way: Any) -> Any:
            shared = weft.arange(6.0).reshape(2, 3).clone()
            names = {"weft": weft, "w": weft.arange(12.0).reshape(3, 4), "shared": shared}
            program = layout_program(made, read, change, names)  # noqa: B023
            examples = [weft.arange(6.0).reshape(2, 3) + k for k in range(3)]
            try:
                return plain([way(program, examples), shared])
            except (RuntimeError, IndexError) as error:
                return type(error).__name__

        expected = run(loop)
        assert run(deferred) == expected, read
        assert run(batched) == expected, read


@pytest.mark.parametrize("change", ["w.t_()", "w.data = w.data.t()", "w.set_(w.t())"])
def test_a_shared_weight_changes_its_layout_in_turn(change):
    def run(way: Any) -> Any:
        w = weft.arange(4.0).reshape(2, 2)

        def f(a: Any) -> Any:
            z = a @ w
            exec(change, {"w": w})
            return z

        return plain(way(f, [weft.tensor([1.0, 0.0])] * 4))

    assert run(batched) == run(loop) == run(deferred)


SWAPS = ["w.data = {}", "w.set_({})", "w.data.copy_({})", "w.resize_(0); w.set_({})"]


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("view", ["w", "w[0]", "w.t()", "w.view(-1)[:2]"])
def test_a_shared_weight_has_other_values_for_a_while(view, swap):
    """Its new memory counted as the example's own, so others began and read it meanwhile."""

    def run(way: Any, leaf: bool) -> Any:
        values = weft.arange(4.0).reshape(2, 2) + 1
        w = values.clone()
        if leaf and "set_" not in swap:
            w.requires_grad_()
        names = {"weft": weft, "w": w, "values": values}
        there, back = swap.format("weft.zeros(2, 2)"), swap.format("values.clone()")

        def f(x: Any) -> Any:
            seen = [eval(view, names) * x]
            for change in (there, back):
                exec(change, names)
                seen.append(eval(view, names) * x)
            return seen

        return plain([t.detach() for s in way(f, [weft.full((2,), k + 1.0) for k in range(3)])
                      for t in s])  # fmt: skip

    for leaf in (True, False):
        expected = run(loop, leaf)
        for way in (deferred, batched, lambda f, xs: weft.autobatch(f)(xs)):
            assert run(way, leaf) == expected


def test_a_weight_leaves_the_graph_after_the_calls_that_were_kept():
    def f(e: Any) -> Any:
        y = e.leaf * 2
        e.leaf.detach_() if e.how else e.leaf.requires_grad_(False)
        return y * 3

    class Leaf:
        def __init__(self, how: int) -> None:
            self.leaf, self.how = weft.ones(2, requires_grad=True), how

    for how in (0, 1):
        for way in (loop, deferred, batched):
            assert all(y.requires_grad for y in way(f, [Leaf(how) for _ in range(3)]))


def test_a_functions_forward_writes_in_turn():
    """A custom Function runs at once, on values: its writes to shared memory skipped the turn."""

    class Put(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, at: Any, value: Any) -> Any:
            ctx.mark_dirty(x)
            return x.put_(at, value)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, None, None

    def run(way: Any) -> Any:
        shared = weft.zeros(4)

        def f(k: int) -> Any:
            y = weft.full((2,), k + 1.0) * 2
            z = Put.apply(shared.as_strided((2,), (2,)), weft.tensor([k % 2]), y[:1])
            if z.sum() > 0:
                y = y * 2
            return z.sum() + y.sum()

        return plain([way(f, [0, 1, 2]), shared])

    assert run(batched) == run(loop)


def test_a_shared_source_of_a_copy_has_leading_dimensions():
    """A (1, 1) weight copied into a value: the batch had flattened the value to one dimension."""
    for shape, of in itertools.product([(1, 2), (2, 3), (1, 1, 2), (1,), (4,)], [(1, 1), (1,), ()]):
        weight = weft.ones(of, requires_grad=True)

        def f(x: Any) -> Any:
            return (x * 2).exp().copy_(weight)  # noqa: B023

        def run(way: Any) -> Any:
            try:
                return plain(way(f, [weft.full(shape, float(k)) for k in range(3)]))  # noqa: B023
            except RuntimeError as error:
                return str(error).split("\n")[0]

        assert run(batched) == run(loop)


# ---- errors that the loop raises in backward

# h is computed, another value saves it (or itself), then it is written. The line of the write is
# the last of `write`.
SAVES = [
    "h = x * w; s = h * h", "h = x @ w; s = h.exp() * h", "h = (x * w).exp(); s = h + h[0]",
    "h = (x * w).tanh(); s = h * 1", "h = (x + 0).sigmoid() * w; s = (h * w).sum() + h[0]",
    "h = x * 1; s = h * w", "h = x * w; s = (h[1:] * h[:-1]).sum()",
    "h = x @ w; s = h.softmax(-1) @ h", "h = x * w; s = (h.t() * h.t()).sum()",
    "h = x * w; s = h.view(-1).square()", "h = x * w; s = h.flip(0) @ h", "h = x * 1; s = h @ w",
    "h = (x * w).relu(); s = h * 2", "h = x * w; s = h.t() @ w",
    # a composite; an operand gathered from two blocks; a custom Function, of which the batch makes
    # one node, that saves an argument, its result, or neither; and one that runs forward twice
    "h = x * w; s = F.cross_entropy(h, i)", "k = x.abs() @ w; h = x * w; s = (k @ w).sum() + h @ w",
    "h = x * w; s = Square.apply(h)", "h = Exp.apply(x * w); s = h * 2",
    "h = x * w; s = Tanh.apply(h)", "h = x * w; s = checkpoint(twice, h, use_reentrant=True)",
    "h = x * w; s = checkpoint(twice, h, use_reentrant=False)",
]  # fmt: skip
OVERWRITES = ["h += 1", "h.mul_(2)", "h[0] = 0", "h.view(-1).add_(1)", "h.zero_()", "h *= x",
              "h.detach().add_(1)", "h[1:].mul_(x[1:])", "h.copy_(x)"]  # fmt: skip
OF_RESULTS = ["s.add_(1)", "s *= 2", "s.view(-1)[:1].add_(1)"]
HARMLESS = ["", "h = h + 1", "h.clone().add_(1)", "h.data"]


class Square(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


class Exp(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(y := x.exp())
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


class Tanh(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(t := x.tanh())
        return t * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 - ctx.saved_tensors[0] ** 2)


def planted(saves: str, write: str) -> Callable[..., Any]:
    names: dict[str, Any] = {
        "weft": weft, "F": weft.nn.functional, "i": weft.tensor([0, 1, 2, 3]), "Square": Square,
        "Exp": Exp, "Tanh": Tanh, "checkpoint": checkpoint, "twice": lambda a: (a * a).tanh(),
    }  # fmt: skip
    text = (
        f"def program(x, w, bad):\n    {saves}\n    if bad:\n        {write or 'pass'}\n"
        "    return s.sum() + h.sum()\n"
    )
    exec(compile(text, "planted.py", "exec"), names)
    return names["program"]


def backward_of(way: Any, program: Any, bad: tuple[bool, ...]) -> Any:
    w = (weft.arange(16.0, dtype=weft.float64) / 7).sin().reshape(4, 4).requires_grad_()
    xs = [(weft.arange(16.0, dtype=weft.float64) + k).cos().reshape(4, 4) for k in range(len(bad))]
    try:
        losses = way(lambda k: program(xs[k], w, bad[k]), list(range(len(bad))))
        sum(losses).backward()
    except RuntimeError as error:
        lines = re.findall(r"(?:saved|overwritten) at planted\.py:(\d+)", str(error))
        return lines, "modified by an inplace operation" in str(error)
    return [round(v, 9) for v in w.grad.flatten().tolist()]


@pytest.mark.parametrize("write", [*OVERWRITES, *OF_RESULTS, *HARMLESS])
@pytest.mark.parametrize("saves", SAVES)
def test_a_planted_in_place_error_is_raised(saves, write):
    """It was lost: `h += x` of a value that waits made h another value, and nobody was told."""
    program = planted(saves, write)
    for bad in ((True,), (True, True, True), (False, True, False), (False, False)):
        expected = backward_of(loop, program, bad)
        assert backward_of(deferred, program, bad) == expected
        assert backward_of(batched, program, bad) == expected


def test_examples_without_the_error_keep_their_gradients():
    program = planted("h = x * w; s = h * h", "h += 1")

    def gradient(way: Any) -> Any:
        w = weft.full((4, 4), 0.5, requires_grad=True)
        losses = way(lambda k: program(weft.full((4, 4), k + 1.0), w, k == 1), [0, 1, 2])
        (losses[0] + losses[2]).backward(retain_graph=True)
        with pytest.raises(
            RuntimeError, match=r"(?s)saved at planted\.py:2.*overwritten at planted\.py:4"
        ):
            losses[1].backward()
        return plain(w.grad)

    assert gradient(deferred) == gradient(loop)


def test_zeros_for_other_calls_of_a_batch_are_no_gradients():
    """Two sums that ran as one took zeros, of either sign, to what the loop's backward spares."""
    w = weft.full((4, 4), -0.5, requires_grad=True)

    def f(x: Any) -> Any:
        h = (w * x).sigmoid()
        float(h.sum())
        h *= w
        a, b = h.sum(), w.sum()
        return a, b

    sum(b for _, b in batched(f, [1.0, 2.0])).backward()
    assert w.grad.tolist() == weft.full((4, 4), 2.0).tolist()


@pytest.mark.parametrize("write", ["m.mul_(2)", "m.data = m.data * 2", "m.set_(m * 2)", "m[:] *= 2",
                                   "weft.mul(m, 2, out=m)"])  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*before later ones read it")
@pytest.mark.parametrize("reads", [True, False])
def test_shared_memory_changes_in_order_on_every_level(write, reads):
    """An inner batch waited for its own order only: examples of the outer one came in between."""

    def run(batch: bool) -> Any:
        m = weft.arange(3.0)

        def inner(k: float) -> Any:
            y = weft.full((2,), k) * 2
            if reads and y.sum().item() < 0:
                return y
            exec(write, {"m": m, "weft": weft})
            return m + k

        def outer(k: float) -> Any:
            return batched(inner, [k, k + 0.5]) if batch else loop(inner, [k, k + 0.5])

        return plain([batched(outer, [0, 1, 2]) if batch else loop(outer, [0, 1, 2]), m])

    assert run(True) == run(False)


def test_a_view_taken_before_shared_memory_is_replaced_is_told():
    """A later example had taken a view of the old memory already; nobody said so."""
    m = weft.arange(4.0).reshape(2, 2)

    def f(k: int) -> Any:
        view = m.t()
        (weft.ones(2) * k).sum().item()
        m.data = m.data + 1
        return view.sum()

    with pytest.warns(UserWarning, match="before later ones read it"):
        batched(f, [0, 1, 2])


@pytest.mark.parametrize("hold", [
    lambda t: t, lambda t: t[:1], lambda t: t.view(1, 1), lambda t: t.detach(),
    lambda t: (t, weft.arange(5)[t])[0],
], ids=["itself", "piece", "view", "detached", "used twice"])  # fmt: skip
@pytest.mark.parametrize("way", ["autobatch", "deferred"])
def test_a_later_write_to_what_a_batch_gathered_is_told(hold: Any, way: str) -> None:
    """Batches do not watch operands that nobody holds any more; those of which a view is held they
    have to."""
    table = weft.randn(5, 3, requires_grad=True)

    def losses(write: bool, fn: Any = loop) -> Any:
        held = []

        def lookup(k: int) -> Any:
            word = weft.tensor([k])
            if write:
                held.append(hold(word))
            return weft.nn.functional.embedding(word, table).sin().sum()

        out = fn(lookup, [3, 1, 4])
        if write:
            held[1].zero_()
        return sum(out)

    ways = {"autobatch": lambda f, xs: weft.autobatch(f, adaptive=False)(xs), "deferred": deferred}
    for fn in (loop, ways[way]):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            losses(True, fn).backward()
        losses(False, fn).backward()
    grad, table.grad = table.grad / 2, None
    losses(False).backward()
    assert weft.allclose(grad, table.grad)


def test_sums_of_values_that_wait_are_still_one_flush():
    def f(x: Any) -> Any:
        h = x * 1
        for _ in range(5):
            h += x
        return h

    with weft.explain() as report:
        weft.autobatch(f)([weft.ones(3) for _ in range(8)])
    assert len(report.flushes) == 1 and all(b["calls"] == 8 for b in report.flushes[0]["batches"])


@pytest.mark.parametrize("before", [0, 1])
def test_attributes_are_numbered_where_calls_are_kept_and_within_bounds(before):
    """`x.narrow(0, i, 1)` with new numbers grew a table of the batcher, also outside of it.

    After an odd number of calls, what came in pairs was never remembered."""
    x = weft.arange(70_000.0)
    for i in range(40 + before):
        x.narrow(0, i, 2)
    known = weft._C._numbered()
    for i in range(1000):
        x.narrow(0, i, 1)
        x.narrow(0, i, 1)
    assert weft._C._numbered() == known
    with weft.deferred():
        y = x * 1
        numbers = []  # the table begins anew somewhere on the way, by what it had before
        for i in range(69_000):
            y.narrow(0, i, 1)
            y.narrow(0, i, 1)
            numbers.append(weft._C._numbered())
        assert max(numbers) > 1000
        assert y.narrow(0, 5, 2).tolist() == [5.0, 6.0]
    assert weft._C._numbered() <= 1 << 16


DETACHED = {
    "flatten": lambda h: h.flatten(),
    "row": lambda h: h[0],
    "row of a row": lambda h: h[0][0],
    "t": lambda h: h.t(),
    "split": lambda h: h.split(1)[1],
}


@pytest.mark.parametrize("view", DETACHED.values(), ids=DETACHED.keys())
@pytest.mark.parametrize("way", ["autobatch", "deferred"])
def test_views_taken_before_detach_keep_their_graph(view, way) -> None:
    """They were taken anew of the tensor that had left the graph."""

    def f(x):
        h = x * 2
        v = view(h)
        h.detach_()
        return v * 3, h * 5

    def run(way):
        xs = [weft.arange(4.0).reshape(2, 2).add(k).requires_grad_() for k in range(3)]
        if way == "loop":
            results = [f(x) for x in xs]
        elif way == "autobatch":
            results = weft.autobatch(f, adaptive=False)(xs)
        else:
            with weft.deferred():
                results = [f(x) for x in xs]
        assert not any(h.requires_grad for _, h in results)
        sum(v.sum() for v, _ in results).backward()
        return [(v.tolist(), h.tolist()) for v, h in results], [x.grad.tolist() for x in xs]

    assert run(way) == run("loop")
