"""Functions and Modules that are compiled and compared with themselves, and calls of them."""

import math
from typing import NamedTuple

import weft
from weft import nn
from weft.nn import functional as F

scale = 2.0
table = {"a": 1.5, "b": -0.5}


def pointwise(x, y):
    return weft.tanh(x * 2 + y) * weft.sigmoid(y - x)


def several_results(x, y):
    z = x @ y.T
    return z, z.sum(), x.shape[0], [z + 1, {"half": z / 2}]


def result_used_further(x, y):
    z = weft.tanh(x + y)
    return z, (z * z).sum()


def branch_on_value(x, y):
    z = x * y + 1
    if z.sum() > 0:
        return weft.relu(z - y)
    return weft.exp(-z * z)


def branch_on_shape(x, y):
    if x.size(0) > 2 and x.ndim == 2:
        return (x + y).mean(0)
    return (x - y).sum()


def loop_over_length(x, y):
    h = weft.zeros(x.shape[1])
    for t in range(x.shape[0]):
        h = weft.tanh(x[t] + h * 0.5) + y[t]
    return h


def loop_over_rows(x, y):
    total = x[0] * 0
    for row in x:
        total = total + row.sigmoid() * y[0]
    return total


def loop_while(x, y):
    n = 0
    while x.abs().max() > 0.5 and n < 5:
        x = x * 0.7 + y * 0.01
        n += 1
    return x, n


def globals_and_constants(x, y):
    return x * scale + y * table["a"] + math.sqrt(2.0)


def in_place(x, y):
    z = x + y
    z += y
    z[0] = 1.0
    z.mul_(2)
    return weft.relu(z) + z


def writes_over_its_own(x, y):
    z = x * 2
    z += y
    z.mul_(0.5).sub_(y * 3)
    h = z @ y.T
    h -= h.mean()
    return z, F.relu(h, inplace=True) * z.sum(), z + 1


def writes_over_what_has_views(x, y):
    z = x * 2
    first = z[0]
    z.add_(y)
    z[0] *= 3.0
    return first, z, z.T


def added_and_looked_at(z, y):
    z.add_(y)
    if z.sum() > 0:
        z.mul_(2)
    return z


def writes_before_a_read(x, y):
    z = x - y
    h = added_and_looked_at(z * 2, x)
    z += h
    if h.max() > 1:
        z /= h.max()
    with weft.no_grad():
        z.add_(1)
    return z, h


def writes_of_other_layouts(x, y):
    z = x.sum(0) * 2
    z += y[0].double()
    n = weft.arange(3) + x.shape[0]
    n *= 2
    n.add_(1)
    t = (x * y).t()
    t += 1
    return z, n, t


def no_grad_inside(x, y):
    with weft.no_grad():
        w = weft.softmax(x, -1) * 2
    return w * y + x.detach()


def grad_off_and_on(x, y):
    z = x * 2
    with weft.no_grad():
        s = z.abs().max() + 1e-3
        with weft.enable_grad():
            z = z / s
    return z + y


@weft.no_grad()
def scaled_apart(x):
    return x * x.shape[0]


def scope_of_a_decorator(x, y):
    return scaled_apart(x) * y + x


def scope_left_by_a_read(x, y):
    z = x * 2
    with weft.set_grad_enabled(False):
        s = z.abs() + y
        if s.max() > 1:
            s = s / s.max()
        t = s * 2 + 1
    return z * t


def grad_switched(x, y):
    on = weft.is_grad_enabled()
    weft.set_grad_enabled(False)
    z = (x + y).tanh()
    weft.set_grad_enabled(on)
    return x * z - y, z


def views(x, y):
    a, b = (x + y).chunk(2, dim=-1)
    c = weft.cat([b, a], dim=-1).transpose(0, 1)
    return c, a[:, :1], c.reshape(-1)[::2]


def leaves_made_inside(x, y):
    """From its second run on a plan gave copies of one leaf, whose `.grad` stayed None."""
    made = weft.ones(6, requires_grad=True)
    rows = [x.new_full((6,), 2.0, requires_grad=True), weft.tensor([0.5] * 6, requires_grad=True)]
    return made, rows, (x * made + rows[0]).sum() + (y * rows[1]).sum()


def results_that_are_inputs(x, y):
    z = x + 1
    return x, z * y, x.view(-1), (x, y)


def dropped_out(x, y):
    return F.dropout(x * y, 0.5, True) + weft.rand(x.shape)


def index(x, y):
    i = x.argmax(-1)
    return y[i % y.shape[0]] + x.sum(-1, keepdim=True)


def raises_on_values(x, y):
    z = x * 2 + y
    i = weft.tensor([7])
    return weft.index_select(z * z, 0, i) + 1


def raises_and_catches(x, y):
    z = weft.tanh(x) + y
    try:
        return weft.index_select(z * z, 0, weft.tensor([7])) + 1
    except IndexError as error:
        return z, str(error)[:20]


def wrong_shapes(x, y):
    z = weft.tanh(x) * y
    return z @ weft.ones(17, 3) + 1


def helper(x, *rest, factor=2.0, **more):
    for r in rest:
        x = x + r * factor
    return x * more.get("last", 1.0)


def starred(x, y):
    both = (x, y)
    words = {"factor": 0.5, "last": 3.0}
    return helper(*both, x, **words) + helper(x) + helper(y, x, factor=1)


def comprehensions(x, y):
    parts = [weft.tanh(p) * k for k, p in enumerate((x, y, x + y))]
    named = {f"p{k}": p for k, p in enumerate(parts)}
    return sum(parts), weft.stack(parts).mean(0) + named["p1"]


def closures(x, y):
    w = x * 2

    def inner(z):
        return z * w + y

    return inner(x) + inner(y)


def tuples(x, y):
    (a, b), c = ((x, y), x * y)
    a, b = b, a
    return tree(((a, b), (c, (x, y)))) + c


def tree(node):
    if isinstance(node, tuple):
        left, right = tree(node[0]), tree(node[1])
        return weft.tanh(left * 0.5 + right)
    return node


def numbers(x, y):
    n, m = divmod(x.shape[0] * 7, 4)
    k = int(3.7) + len([x, y]) + max(n, m, 2)
    return x * k + y / (n + 1) + (-m) ** 2 - abs(-3) + min(1.5, 2)


def none_and_is(x, y, mask=None):
    if mask is not None:
        x = x * mask
    z = x if mask is None else y
    return weft.relu(z) + z * (1 if mask is not None else 2)


def dtypes(x, y):
    z = x.double() + y.to(weft.float64)
    return z.float() * x.to(y.dtype), (x > y).sum(), x.dtype == weft.float32


class Pair(NamedTuple):
    first: weft.Tensor
    second: weft.Tensor


def named_tuples(x, y):
    p = Pair(x + y, x - y)
    return Pair(p.first * p.second, p.second.exp())


def random_numbers(x, y):
    noise = weft.randn_like(x)
    weft.rand(3)  # nobody needs it, but the next draws come after it
    kept = F.dropout(x * y, 0.4) + noise
    own = weft.randn(2, requires_grad=True)
    return kept * weft.rand(x.shape[1]), weft.randint(0, 9, (3,)), weft.randperm(4), own


def random_then_an_error(x, y):
    z = (x * weft.randn(x.shape[1])).tanh() + y
    return z[weft.tensor([x.shape[0] // 4 * 9])] + weft.rand(1)


def checks_only(x, y):
    """What nobody needs may raise all the same."""
    F.cross_entropy(x, weft.full((x.shape[0],), 5 if x.shape[0] < 4 else 6))
    z = x * 2 + y
    z.long() // (x.shape[0] - 1)
    return z.sigmoid()


FUNCTIONS = [
    pointwise, several_results, result_used_further, branch_on_value, branch_on_shape,
    loop_over_length, loop_over_rows, loop_while, globals_and_constants, in_place,
    writes_over_its_own, writes_over_what_has_views, writes_before_a_read, writes_of_other_layouts,
    no_grad_inside,
    grad_off_and_on, views, leaves_made_inside, results_that_are_inputs, dropped_out, index,
    raises_on_values, raises_and_catches, wrong_shapes, starred, comprehensions, closures, tuples,
    numbers, scope_of_a_decorator, scope_left_by_a_read, grad_switched,
    none_and_is, dtypes, named_tuples, random_numbers, random_then_an_error,
    checks_only,
]  # fmt: skip


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 6))

    def forward(self, x):
        return self.net(x) + x


class Deep(nn.Module):
    """Layers in a list, a flag and a number that calls read, dropout and buffers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.25)
        self.residual, self.factor, self.calls = True, 0.5, 0
        self.register_buffer("shift", weft.ones(6))

    def forward(self, x):
        self.calls += 1
        for k, layer in enumerate(self.layers):
            y = weft.relu(layer(x)) * self.factor + self.shift
            x = x + y if self.residual else y
            if k == 1:
                x = self.drop(self.norm(x))
        return x


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(weft.ones(6, 6) / 6)
        self.gain = nn.Parameter(weft.tensor(2.0))

    def body(self, x):
        return weft.tanh(x @ self.weight) * self.gain

    def forward(self, x):
        return self.body(x) + self.offset

    @property
    def offset(self):
        return self.gain * 2


class Derived(Base):
    def forward(self, x):
        return super().forward(self.body(x)) - x


def twice(cell, x):
    return cell(x, cell(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(6, 6)
        self.out = nn.Linear(6, 6)

    def forward(self, x):
        h, seen = None, []
        for row in x:
            h = self.cell(row.unsqueeze(0), h)
            seen.append(h)
        return self.out(weft.cat(seen))


class TreeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.join = nn.Linear(12, 6)

    def forward(self, x):
        return self.state(((x[0], (x[1], x[2])), x[-1]))

    def state(self, node):
        if not isinstance(node, tuple):
            return weft.tanh(node) * 2
        left, right = self.state(node[0]), self.state(node[1])
        i, g = self.join(weft.cat([left, right])), left * right
        return weft.sigmoid(i) * weft.tanh(g) + left


class Remembers(nn.Module):
    """A branch on a tensor that the call before left."""

    def __init__(self):
        super().__init__()
        self.last = weft.ones(())
        self.gain = nn.Parameter(weft.tensor(1.5))

    def forward(self, x):
        h = weft.tanh(x * self.gain).clone()
        h = h * 2 if self.last > 0 else weft.rand(x.shape) + h
        if self.last:
            h = h + 1
        self.last = (x.detach().sum() - 1).relu()
        return h


MODULES = [Remembers, Perceptron, Deep, Base, Derived, Recurrent, TreeModel]
