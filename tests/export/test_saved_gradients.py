"""Gradients of programs that were saved and loaded: those of their functions, whatever way the
loaded one runs, for parameters and for arguments; and what is drawn of statements."""

import copy
import io
import random
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import nn

CASES: list[Callable[..., Any]] = []
F = nn.functional


class Table(nn.Module):
    """The parameters that the programs train."""

    def __init__(self, program: Callable[..., Any]) -> None:
        super().__init__()
        weft.manual_seed(0)
        self.program = program
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.cell = nn.GRUCell(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.scale = nn.Parameter(weft.tensor(0.7))
        self.rows = nn.Parameter(weft.randn(5, 3))
        self.register_buffer("mean", weft.ones(3))
        self.kept: Any = None

    def forward(self, x: Any) -> Any:
        return self.program(self, x)


def case(f: Callable[..., Any]) -> Callable[..., Any]:
    CASES.append(f)
    return f


@case
def as_often_as_values_say(m, x):
    turns = 0
    while x.detach().abs().sum() > 1 and turns < 7:
        x = weft.tanh(m.first(x)) * m.scale
        turns += 1
    return x + turns


@case
def either_way(m, x):
    if x.sum() > 0:
        x = m.first(x) if x[0, 0] > 0 else m.second(x)
    else:
        x = x * m.scale
    return x if x.mean() > 0 else -x


def folded(m, x, depth):
    if depth == 0 or x.detach().sum() > 9:
        return m.first(x)
    left, right = folded(m, x * m.scale, depth - 1), folded(m, m.second(x), depth - 1)
    return weft.tanh(left + right) if left.detach().sum() > 0 else left - right


@case
def recursion(m, x):
    return folded(m, x, 3)


@case
def trees(m, x):
    def sum_of(tree):
        if isinstance(tree, tuple):
            return m.cell(sum_of(tree[0]), sum_of(tree[1]))
        return x + tree

    return sum_of(((1, 2), (3, (0, 1))))


@case
def a_state_over_rows(m, x):
    h = weft.zeros(1, 3)
    rows = []
    for row in x:
        h = m.cell(row[None], h)
        rows.append(h)
    return weft.cat(rows)


@case
def in_place(m, x):
    y = m.first(x)
    y[0] = y[1].clone() * m.scale
    y[:, 1:] += x[:, 1:] * m.scale
    y.mul_(2).clamp_(min=-1)
    y.t()[0].add_(m.scale)
    return y


@case
def rows_by_number(m, x):
    places = [k for k in range(4) if x[0, 0] > k - 2]
    return m.rows[places].sum(0) + m.rows[x[:, 0].long().abs() % 5]


@case
def outside_of_the_graph(m, x):
    with weft.no_grad():
        y = m.first(x)
        m.mean.add_(x.mean())
    z = m.second(x)
    w = z.detach() * m.scale + y
    with weft.no_grad():
        with weft.enable_grad():
            w = w * x
    return w + z


@case
def statistics(m, x):
    y = m.norm(x)
    return F.layer_norm(y, (3,), m.rows[0], m.rows[1]) + m.mean


@case
def what_is_kept(m, x):
    before = m.kept
    m.kept = (x * m.scale).detach()
    return m.first(x) if before is None else m.first(x) + before.mean(0)


@case
def tries(m, x):
    out = x
    for k in (0, 1, 7):
        try:
            out = out + m.rows[k] * m.scale
        except IndexError:
            out = m.second(out)
    return out


@case
def containers(m, x):
    made = {"a": m.first(x), "b": [m.second(x), x * m.scale]}
    made["b"].append(made["a"] * made["b"][0])
    made["a"] = sum(made["b"], start=x)
    return weft.stack([made["a"], *made["b"]])


@case
def inner_functions(m, x):
    by = m.scale

    def twice(f, v):
        return f(f(v))

    y = twice(lambda v: weft.sin(v * by), m.first(x))
    return y + max([x, -x], key=lambda v: v.sum())


@case
def losses(m, x):
    target = x[:, 0].long().abs() % 3
    return F.cross_entropy(m.first(x), target) + F.mse_loss(m.second(x), x)


@case
def attention(m, x):
    q, k, v = m.first(x)[None, None], m.second(x)[None, None], x[None, None]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


@case
def views_of_parameters(m, x):
    w = m.second.weight.t().reshape(-1)[1:7].view(2, 3)
    return F.linear(x, w).pow(2) + m.rows.unbind()[2].expand(4, 3)[1:3, :1].sum()


@case
def checkpointed_by_hand(m, x):
    outs = [x]
    for layer in (m.first, m.second, m.first):
        outs.append(F.gelu(layer(outs[-1])) + outs[0])
    return sum(outs[1:])


def inputs(dtype: weft.dtype = weft.float32) -> list[weft.Tensor]:
    weft.manual_seed(3)
    made = [weft.randn(4, 3), weft.randn(4, 3) * 2, -weft.ones(4, 3), weft.randn(2, 3) + 1]
    made += [made[0].clone(), made[0].clone()]  # sizes that plans know
    return [x.to(dtype) for x in made]


def trained(module: nn.Module) -> list[Any]:
    """What comes of some steps: results, gradients of arguments and parameters, parameters."""
    found: list[Any] = []
    optimizer = weft.optim.Adam(module.parameters(), lr=0.01)
    for x in inputs(next(module.parameters()).dtype):
        x.requires_grad_()
        optimizer.zero_grad()
        weft.manual_seed(5)
        out = module(x)
        (out * weft.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        grads = {n: p.grad.tolist() for n, p in module.named_parameters() if p.grad is not None}
        found.append((out.tolist(), x.grad is not None and x.grad.tolist(), grads))
        optimizer.step()
    return [*found, {n: p.tolist() for n, p in module.state_dict().items()}]


def close(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            close(one, other)
    else:
        assert a == pytest.approx(b, rel=1e-4, abs=1e-5, nan_ok=True)


def loaded(module: nn.Module) -> nn.Module:
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(module), file)
    file.seek(0)
    return weft.jit.load(file)


def exported(module: nn.Module) -> nn.Module:
    """The same by `export`, for any number of rows."""
    file = io.BytesIO()
    rows = weft.export.Dim("rows")
    made = weft.export.export(module, (weft.ones(4, 3),), dynamic_shapes={"x": {0: rows}})
    weft.export.save(made, file)
    file.seek(0)
    return weft.export.load(file).module()


@pytest.mark.parametrize("program", CASES, ids=lambda f: f.__name__)
def test_a_loaded_program_trains_as_its_function(program: Callable[..., Any]) -> None:
    module = Table(program)
    twin = loaded(copy.deepcopy(module))
    made = [twin, loaded(twin), exported(copy.deepcopy(module))]
    wanted = trained(module)
    for one in made:
        close(trained(one), wanted)


@pytest.mark.parametrize("program", [recursion, either_way, in_place], ids=lambda f: f.__name__)
def test_second_gradients_of_a_loaded_program(program: Callable[..., Any]) -> None:
    module = Table(program)
    results = []
    for one in (module, loaded(copy.deepcopy(module))):
        for x in inputs():
            x.requires_grad_()
            (g,) = weft.autograd.grad(one(x).sin().sum(), x, create_graph=True)
            g.square().sum().backward()
            results.append(x.grad.tolist())
    half = len(results) // 2
    close(results[:half], results[half:])


LINES = [
    "{a} = m.first({b})", "{a} = {b} * m.scale", "{a} = weft.tanh({b} + {c})",
    "{a} = {b} @ m.rows[:3]",
    "{a} = {b} * {c}", "{a} = {b}.clone(); {a}[0] = {c}[1] * 2", "{a} = {b} + 1; {a} *= {c}",
    "{a} = {b} * 1; {a}[1:] += {c}[1:]", "{a} = m.cell({b}, {c})", "{a} = {b}.detach() + {c}",
    "{a}, {b} = {b}, {a}", "rows.append({a})", "{a} = sum(rows, start={b})",
    "{a} = F.softmax({b}, 1)",
    "{a} = weft.cat([{b}[:1], {c}[1:]])", "{a} = {b}.flip(0).t().contiguous().t()",
    "{a} = {b} + 0; {a}.t()[0].mul_({c}[0, 0])", "{a} = helper(m, {b}, {c})",
    "rows = [{a}, *rows[:2]]",
    "{a} = [v * 2 for v in (rows or [{b}])][-1]", "{a} = (lambda v: v * m.scale + {b})({c})",
]  # fmt: skip
HEADS = [
    "if {a}.sum() > 0:", "if {a}[0, 0] > {b}[0, 0]:", "for _ in range(2):", "for v in rows[:2]:",
    "with weft.no_grad():", "while {a}.abs().sum() > 8 and turn():", "try:",
]  # fmt: skip


def drawn(seed: int) -> str:
    """The text of a function over tensors x, y, z of sizes [n, 3]."""
    draw = random.Random(seed)
    out = ["def program(m, x):", "    y, z, rows, turns = x * 2, x - 1, [], [0]"]
    out += ["    def turn():", "        turns[0] += 1", "        return turns[0] < 4"]

    def line(text: str, depth: int) -> None:
        a, b, c = draw.sample("xyz", 2) + [draw.choice("xyz")]
        out.append("    " * depth + text.format(a=a, b=b, c=c))

    def block(depth: int, count: int) -> None:
        for _ in range(count):
            if depth < 4 and draw.random() < 0.3:
                head = draw.choice(HEADS)
                line(head, depth)
                if head == "for v in rows[:2]:":
                    line("{a} = v + {b}", depth + 1)
                block(depth + 1, draw.randint(1, 3))
                if head == "try:":
                    line("rows[{a}.numel() % 4]", depth + 1)
                    line("except IndexError:", depth)
                    line("{a} = -{b}", depth + 1)
                elif draw.random() < 0.3 and head.startswith("if"):
                    line("else:", depth)
                    block(depth + 1, 2)
            else:
                line(draw.choice(LINES), depth)

    block(1, 7)
    out.append("    return weft.tanh(x) + weft.tanh(y) * weft.tanh(z)")
    return "\n".join(out)


def helper(m, a, b):
    return helper(m, a * m.scale, b - a) if a.detach().sum() > 4 else m.second(a) + b


def mismatches(seeds: range, folder: Any) -> int:
    """Compares drawn programs; how many were saved."""
    count = 0
    for seed in seeds:
        file = folder / f"drawn_{seed}.py"
        file.write_text(drawn(seed))
        names = {"weft": weft, "F": F, "helper": helper, "__name__": f"drawn_{seed}"}
        exec(compile(drawn(seed), str(file), "exec"), names)  # noqa: S102
        module = Table(names["program"]).double()
        try:
            twin = loaded(copy.deepcopy(module))
        except weft.export.NotExportable:
            continue
        try:
            wanted: Any = trained(module)
        except RuntimeError as error:
            wanted = str(error)
        try:
            got: Any = trained(twin)
        except RuntimeError as error:
            got = str(error)
        count += 1
        try:
            assert isinstance(wanted, str) == isinstance(got, str), (wanted, got)
            if not isinstance(wanted, str):
                close(got, wanted)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}:\n{drawn(seed)}\n{error}") from None
    return count


@pytest.mark.parametrize("part", range(3))
def test_drawn_programs_train_as_their_functions(part: int, tmp_path: Any) -> None:
    assert mismatches(range(part * 20, part * 20 + 20), tmp_path) > 12
