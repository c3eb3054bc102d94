"""What the source of a program can say, and what no package can have: see test_closing.py."""

import dataclasses
import functools
import itertools
import operator
from typing import NamedTuple

import weft
import weft.nn.functional as F
from weft import nn

LAYERS = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
TABLE = nn.ModuleDict({"a": nn.Tanh(), "b": nn.ReLU()})
SIZES = [1, 2, 3]


class Tree(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass
class Found:
    score: object
    words: list


class Node:
    """A tree as users write one."""

    def __init__(self, value, *children):
        self.value, self.children = value, children

    @property
    def is_leaf(self):
        return not self.children

    def total(self, scale=1):
        if self.is_leaf:
            return self.value * scale
        return self.value + sum(child.total(scale=scale + 1) for child in self.children)


def branches(x):
    if x.sum() > 0:
        y, k = x * 2, 1
    elif x.sum() < -5:
        y, k = x - 1, None
    else:
        return "neither"
    return y if k is None else y + k


def loops(x, n):
    total, k = x * 0, 0
    for i in range(n):
        if i == 3:
            continue
        if i > 6:
            break
        total = total + x * i
    else:
        k = 7
    while total.sum() > 1:
        total, k = total / 2, k + 1
        if k > 50:
            break
    return total, k


def over_layers(x, n):
    seen = []
    for i, layer in enumerate(LAYERS):
        if x.sum() > 4 * i:
            continue
        if len(seen) > n:
            break
        x = layer(x).relu()
        seen.append(x)
    else:
        seen.append(n)
    return x, seen


def chosen(x, n, name):
    x = LAYERS[n](x)
    return TABLE[name](x) + LAYERS[n - 1].bias


def turns_of_a_range(x):
    for i in range(3):
        x = LAYERS[i](x)
    return x


def zipped(x, rows):
    out = []
    for layer, row in zip(LAYERS, rows):
        x = layer(x) + row
        out.append(x)
    return out


def comprehensions(xs, n):
    ys = [x * i for i, x in enumerate(xs) if x.sum() > n]
    names = {f"k{i}": y + n for i, y in enumerate(ys)}
    return sum(y.sum() for y in ys), names, any(y.sum() > 1 for y in ys), [f(xs[0]) for f in LAYERS]


def recursive(tree, n=0):
    if isinstance(tree, tuple):
        return LAYERS[0](recursive(tree[0], n + 1) + recursive(tree[1], n + 1)).tanh() * n
    return tree


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def counts_down():
    return factorial(10)


def records(x):
    tree = Tree(x, Tree(x + 1, None))
    found = Found(tree.right.left, [1])
    found.words.append(2)
    return isinstance(tree, Tree), found.score, found.words, tree.left


def objects(x):
    tree = Node(x, Node(x + 1), Node(x + 2, Node(x + 3)))
    tree.children[0].value += 1
    tree.name = "root"
    return tree.total(), tree.is_leaf, tree.name, isinstance(tree, Node)


def given_a_tree(tree: Node, n):
    return tree.total(n), tree.children[0].is_leaf, len(tree.children)


def inner_functions(x, n):
    def twice(f, y):
        return f(f(y))

    def walk(k):
        return x * k if k < 2 else walk(k - 1) + n

    add = lambda y: y + n  # noqa: E731
    return twice(add, x), twice(lambda y: y * 2, x), walk(n), list(map(add, [x, x]))


def arguments(x, *rest, scale=2, **words):
    def shown(a, *b, c=3, **d):
        return a, b, c, sorted(d)

    return x * scale, shown(*(x, 1), c=4, e=5), shown(c=1, a=2), len(rest), sorted(words)


def tried(x, n):
    y = x
    try:
        y = x.view(n, 2)
        found = [1, 2][n]
    except (RuntimeError, IndexError) as error:
        return type(error).__name__, y
    finally:
        y = y + 1
    return y, found


def raises(n):
    assert n > 0, f"{n} is not positive"
    if n > 5:
        raise ValueError(f"{n:>4} is large")
    return [10, 20][n]


def texts(x, n):
    return f"{n:03d} {n!r} {tuple(x.shape)}", "-".join([str(n), "b"]), "a {} c".format(n)  # noqa: UP032


def items(xs, d):
    a, *b, c = xs
    d["new"], xs[0] = a, c
    xs += b
    return xs[::-1], d, xs[1:-1], d.get("no"), "new" in d, sorted(d), xs.pop(), len(xs)


def tensors(x):
    y = x[..., None].expand(-1, -1, 2)
    y = y.to(weft.float64).to(x.dtype)
    z = weft.zeros(x.shape[0], 2, dtype=y.dtype, device=x.device)
    z[0] = x[0, 0]
    z += 1
    return y, z, x.size(-1), x.T.shape, weft.cat([y[:, 0], z]), x.new_ones(2), x.max(dim=1).values


def modes(x):
    with weft.no_grad():
        y = LAYERS[0](x)
    return y, y.requires_grad, LAYERS[0](x).requires_grad


def by_key(xs):
    best = max(xs, key=lambda p: p[1])
    return sorted(xs, key=lambda p: -p[1]), best, min(xs, key=lambda p: p[1])


@weft.no_grad()
def unrecorded(x, n=1):
    return LAYERS[0](x) * n, also_unrecorded(x)


@weft.inference_mode()
def also_unrecorded(x):
    return LAYERS[1](x).requires_grad


def tables_of_functions(x, name):
    found = {"relu": F.relu, "tanh": weft.tanh}
    if name not in found:
        raise KeyError(name)
    return found[name](x), [f(x) for f in [lambda t: t + 1, lambda t: t * 2]]


def sorted_in_place(pairs):
    pairs.sort(key=lambda p: p[1], reverse=True)
    return pairs, [p for p, _ in pairs]


def beams(start, width):
    found = [(0.0, [start])]
    for _ in range(3):
        new = []
        for score, path in found:
            scores = LAYERS[0](weft.ones(3) * path[-1]).log_softmax(0)
            best, places = scores.topk(width)
            new += [(score + b.item(), [*path, int(p)]) for b, p in zip(best, places)]
        new.sort(key=lambda beam: beam[0], reverse=True)
        found = new[:width]
    return found


def swapped(x, n):
    a, b = x, x + 1
    for _ in range(n):
        a, b = b, a + b
    pair = a, b
    a = a * 2
    return pair, a


def einsums(x, y):
    z = weft.einsum("ij,jk->ik", x, y)
    wide = weft.einsum("bhid,bhjd->bhij", x[None, None], x[None, None])
    chain = weft.einsum("ij,jk,kl->il", x, y, z.T)
    return (
        z,
        wide,
        chain,
        weft.einsum("ij->j", x),
        weft.einsum("ij,ij->", x, x),
        weft.einsum("ii->i", y),
    )


def broadcast_einsum(x, y):
    return weft.einsum("ij,jk->ik", x, y)


def einsums_over_rest(x, y):
    summed = weft.einsum("...i,...i->i", [x, y])
    found = weft.einsum("...ij,...kj->...ik", x, y), weft.einsum("...ij,...ij", x, y), summed
    return [t.round(decimals=4) for t in found]  # sums are in another order


def by_numpy(x):
    """What a library computes, and its error caught."""
    u, s, v = weft.linalg.svd(x)
    names = weft.linalg.eigh(x @ x.mT)
    try:
        inverse = weft.linalg.inv(x - x)
    except RuntimeError as error:
        inverse = str(error)
    found = weft.fft.rfft(x).abs() + names.eigenvalues.sum()
    return weft.linalg.slogdet(x), (u * s) @ v, inverse, found, weft.special.i0(x)


def narrow_products(x, y):
    with weft.autocast("cpu", weft.bfloat16):
        return weft.addbmm(x[0], x, y), weft.baddbmm(x, x, y), weft.einsum("bi,bi->b", x[0], y[0])


def channels_last(x):
    y = x.contiguous(memory_format=weft.channels_last)
    return y, y.stride(), x.clone(memory_format=weft.contiguous_format).stride()


def passed_on(x, *args, **words):
    return added(x, *args, **words), LAYERS[0](*[x], **{}), OUTER(x, *args, **words)


def added(x, y=1, *rest, scale=2, **more):
    return x * scale + y, len(rest), sorted(more.items())


class Inner(nn.Module):
    def forward(self, x, y=0, *, scale=1, **more):
        return x * scale + y


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


OUTER = Outer()


def star(x, words, others):
    return F.relu(x, **words), weft.add(x, 1, **others)


def spread(x, sizes, rows):
    doubled = lambda a, b=1: a * b  # noqa: E731
    return x.split(*sizes), x.reshape(*sizes, -1), [doubled(*row) for row in rows]


def from_itertools(xs, ys, n):
    pairs = [a * b for a, b in itertools.product(xs, ys)]
    grid = list(itertools.product(range(2), repeat=2))
    longest = list(itertools.zip_longest(xs, ys[:1], fillvalue=0))
    sums = (
        list(itertools.accumulate(xs)),
        list(itertools.accumulate(ys, lambda a, b: a * b, initial=1)),
    )
    chosen = list(itertools.combinations(ys, 2)), list(itertools.permutations(ys, n))
    again = list(itertools.combinations_with_replacement(ys, n)), list(itertools.islice(xs, 1, n))
    both = list(itertools.chain(xs, ys)), list(itertools.chain.from_iterable([xs, ys]))
    others = (
        list(itertools.pairwise(ys)),
        list(itertools.repeat(n, n)),
        list(itertools.compress(ys, [n, 0])),
    )
    return pairs, grid, longest, sums, chosen, again, both, others


def through_itertools(x, n):
    for layer, k in itertools.product(LAYERS, (1, 2)):
        x = layer(x) * k
    for a, b in itertools.zip_longest(LAYERS, [1.0], fillvalue=n):
        x = a(x) + b
    for a, b in itertools.pairwise(itertools.chain.from_iterable([LAYERS, LAYERS])):
        x = a(x) - b(x)
    for layer in itertools.chain(LAYERS, TABLE.values()):
        x = layer(x)
    return x


def with_functions(xs, pairs, n):
    kept = list(filter(lambda x: x > n, xs)), list(filter(None, xs))
    out = itertools.takewhile(lambda x: x < n, xs), itertools.dropwhile(lambda x: x < n, xs)
    rest = list(itertools.filterfalse(lambda x: x > n, xs))
    total = functools.reduce(lambda a, b: a * 2 + b, xs), functools.reduce(max, xs, n)
    rows = (
        list(map(lambda a, b: a * b + n, xs, xs)),
        list(itertools.starmap(lambda a, b: a - b, pairs)),
    )
    return kept, list(out[0]), list(out[1]), rest, total, rows


def consumed_at_once(xs, n):
    table = dict((x, x * 2) for x in xs)
    listed = list(x + n for x in xs), tuple(x for x in xs if x > n), set(x % 2 for x in xs)
    held = (
        any(x > n for x in xs),
        all(x > n for x in xs),
        max(x * n for x in xs),
        sum(x for x in xs),
    )
    return table, listed[0], listed[1], sorted(listed[2]), held, ",".join(str(x) for x in xs)


def unlike_ways(x):
    layer = LAYERS[0] if x.sum() > 0 else TABLE["a"]
    double = lambda t: t * 2  # noqa: E731
    if x.sum() < -5:
        layer, double = LAYERS[1], weft.tanh
    return layer(x), double(x)


def unlike_turns(xs):
    act = LAYERS[0]
    for x in xs:
        y = act(x)
        act = LAYERS[1] if x.sum() > 0 else TABLE["b"]
    return y


def a_function_of_two_turns(xs, x):
    """A loop that may be left made it in each of its turns."""
    for k in [1, 2]:
        if xs is None:
            break

        def scaled():
            return x * k

    return scaled()


def tables_of_lambdas(x, name, n):
    table = {"twice": lambda t: t * n, "neg": lambda t: -t, "relu": F.relu}
    if name not in table:
        raise KeyError(name)
    return table[name](x), [lambda t: t + 1, lambda t: t - n][n](x)


def keys_and_operators(pairs, xs):
    best = (
        max(pairs, key=lambda p: p[1], default=None),
        min(pairs, key=operator.itemgetter(1), default=0),
    )
    found = sorted(pairs, key=operator.itemgetter(1, 0)), max(xs[0], xs[-1], 3, key=lambda x: -x)
    folded = functools.reduce(operator.mul, xs, 1), list(map(operator.neg, xs))
    placed = sorted(enumerate(xs), key=lambda p: -p[1])
    return best, found, folded, placed, sorted(set(xs) | {9}), operator.add(xs[0], 1) in {3, 4}


def partials(x, n):
    add = functools.partial(weft.add, alpha=2)
    scaled = functools.partial(added, scale=3)
    return add(x, x), scaled(x, n), list(map(functools.partial(max, 2), [1, n]))


def encoded(word):
    return list(word.encode()), len(word.encode("utf-8")), [b for b in word.encode()][0]


def known_iterators(x):
    pairs = enumerate("ab")
    for k, _ in pairs:
        x = x + k
    return x, list(reversed((1, 2))), list(reversed("abc")), list(zip((1,), (2,))), [*zip("ab", x)]


def long_ranges(x, n):
    total = 0
    for k in range(10**12):
        total += k
        if k == n:
            return x + total, sum(range(300)), [i for i in range(257)][-1]
    return x


def with_complex(x):
    return x * 1j, complex(2, float("-inf")), x + (0.5 - 2j)


def limits(x, n):
    low, high = weft.finfo(x.dtype).min, weft.iinfo(n.dtype).max
    known = weft.finfo(weft.float16), weft.iinfo(weft.uint8).max
    return x.masked_fill(x > 0, low), n.clamp(max=high), low, high, known[0].eps, known[1]


def resized(x):
    steps = [None] * 2
    steps += [1]
    sizes = [2] + [3]
    sizes.append(4)
    return F.interpolate(x, size=(5, 7)), F.interpolate(x, 4, mode="bilinear"), steps, sizes


def lacks_a_method(x):
    try:
        y = (1, 2).foo()
    except AttributeError:
        y = 3
    return x + y


class Unlike(ValueError):
    """No exception that programs have."""


# ---- what needs Python


def raises_its_own(x):
    if x.sum() > 0:
        raise Unlike("too large")
    return x


def catches_its_own(x):
    try:
        return x.reshape(7)
    except Unlike:
        return x


def with_numpy(x):
    return x.numpy()


def changes_a_table(x):
    SIZES.append(4)
    return x


def a_generator(xs):
    def one_by_one():
        yield from xs

    return list(one_by_one())
