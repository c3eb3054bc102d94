"""What guards notice: a table of reads and changes, random changes, and what they keep alive.

The table is text. Each block has code that makes objects, reads (`?`), and changes with what undoes
them, `-` where the guards must not hold after the change, `+` where they still have to. They hold
before, and after the change is undone, as often as one likes.
"""

import builtins
import gc
import types
import weakref
from typing import Any, NamedTuple

import fuzz_guards
import pytest

import weft
from weft import _C, nn
from weft.nn import module_hooks

Guards: Any = _C._Guards

PRELUDE = """
class C:
    k = 1
    def f(self): return self.k
class D(C): pass
o, e, l = C(), D(), nn.Linear(2, 3)
o.a = x
s = nn.Sequential(l, nn.ReLU())
p, q = l.weight, nn.Parameter(x)
class M(nn.Module):
    def forward(self, x): return x
m = M()
big = 10**9
def equal(): return int("1" + "0" * 9)
"""

TABLE = r"""
? g.attribute(o, 'a') == (x,)
- o.a = y | o.a = x
- del o.a | o.a = x
- o.__dict__['a'] = y | o.__dict__['a'] = x
- vars(o).update(a=y) | vars(o).update(a=x)
- vars(o).clear() | o.a = x
- vars(o).popitem() | o.a = x
- o.__dict__ = {'a': y} | o.__dict__ = {'a': x}
- del o.__dict__ | o.a = x
+ o.__dict__ = {'a': x} | pass
+ o.b = y | del o.b
+ for i in range(99): setattr(o, f'b{i}', i) | vars(o).clear(); o.a = x
- C.__getattribute__ = lambda s, n: 1 | del C.__getattribute__
+ C.__getattr__ = lambda s, n: 1 | del C.__getattr__
? g.attribute(o, 'k') == (1,)
- C.k = 2 | C.k = 1
- o.k = 2 | del o.k
- o.k = 1 | del o.k
+ C.z = 2 | del C.z
+ o.__class__ = D | o.__class__ = C
? g.in_class(D, 'k') == (1,)
- C.k = 2 | C.k = 1
- D.k = 2 | del D.k
+ C.z = 2 | del C.z
+ o.k = 2 | del o.k
+ C.__getattribute__ = lambda s, n: 1 | del C.__getattribute__
? g.in_class(D, 'none') is None
- C.none = 2 | del C.none
+ C.z = 2 | del C.z
? g.attribute(o, '__class__') == (C,)
- o.__class__ = D | o.__class__ = C
? g.attribute(o, 'f')[0]() == 1
- h = C.f; C.f = lambda self: 2 | C.f = h
- h = C.f; del C.f | C.f = h
- o.f = C.f | del o.f
? g.attribute(e, 'f')[0]() == 1
- h = C.f; C.f = 1 | C.f = h
- D.f = 1 | del D.f
? g.lacks(o, 'b')
- o.b = 1 | del o.b
- C.b = 1 | del C.b
- C.__getattr__ = lambda s, n: 1 | del C.__getattr__
? g.type_of(o)
- o.__class__ = D | o.__class__ = C

o.h = big
? g.attribute(o, 'h')
+ o.h = equal() | pass
- o.h = big + 1 | o.h = big
- o.h = float(big) | o.h = big

o.one, o.zero, o.tenth, o.nan, o.i = 1, 0.0, 0.1, float('nan'), 1j
? g.attribute(o, 'one')
- o.one = True | o.one = 1
? g.attribute(o, 'zero')
- o.zero = -0.0 | o.zero = 0.0
? g.attribute(o, 'tenth')
+ o.tenth = float('0.1') | pass
? g.attribute(o, 'nan')
+ o.nan = float('nan') | pass
? g.attribute(o, 'i')
+ o.i = complex('1j') | pass

class I(int): pass
o.s, o.b, o.t, o.l, o.i = 'ab', b'ab', (x,), [1], I(1)
? g.attribute(o, 's')
+ o.s = ''.join('ab') | pass
? g.attribute(o, 'b')
+ o.b = bytes([97, 98]) | pass
? g.attribute(o, 't')
- old, o.t = o.t, (x,) | o.t = old
? g.attribute(o, 'l')
- old, o.l = o.l, [1] | o.l = old
+ o.l.append(2) | o.l.pop()
? g.attribute(o, 'i')
- old, o.i = o.i, I(1) | o.i = old

class S:
    @staticmethod
    def s(): return 3
    @classmethod
    def c(cls): return cls
    @property
    def p(self): return 1
o = S()
? g.attribute(o, 's')[0]() == 3
- h = S.__dict__['s']; S.s = h.__func__ | S.s = h
? g.attribute(o, 'c')[0]() is S
- h = S.__dict__['c']; S.c = h.__func__ | S.c = h
? g.property_of(o, 'p')[0](o) == 1
- h = S.p; S.p = property(lambda self: 2) | S.p = h
+ o.__dict__['p'] = 2 | del o.__dict__['p']
? g.attribute(S, 's')[0]() == 3 and g.attribute(S, 'c')[0]() is S
- h = S.__dict__['s']; S.s = h.__func__ | S.s = h
- h = S.__dict__['c']; del S.c | S.c = h

class T:
    __slots__ = ('a', 'b', 'c')
o = T(); o.a = x; o.b = big
? g.attribute(o, 'a') == (x,)
- o.a = y | o.a = x
- del o.a | o.a = x
+ o.c = y | del o.c
- T.__getattribute__ = lambda s, n: 1 | del T.__getattribute__
? g.attribute(o, 'b') == (big,)
+ o.b = equal() | pass
? g.lacks(o, 'c')
- o.c = 1 | del o.c

class N(typing.NamedTuple):
    a: object
    b: object
o = N(x, y)
? g.attribute(o, 'b') == (y,)
- h, N.b = N.b, N.a | N.b = h

@dataclasses.dataclass
class P:
    a: int
    b: int = 2
o = P(1)
? g.attribute(o, 'a') == (1,) and g.attribute(o, 'b') == (2,)
- o.b = 3 | o.b = 2
+ P.b = 3 | P.b = 2

o = [3]
? g.attribute(o, 'count')[0](3) == 1
+ o.append(3) | o.pop()

class B:
    k = 2
class A(C): pass
class E(A): pass
o = E()
? g.attribute(o, 'k')
- A.__bases__ = (B,) | A.__bases__ = (C,)
+ A.__bases__ = (C, B) | A.__bases__ = (C,)

class F: pass
C.k = F(); C.j = F(); o.j = x
? g.attribute(o, 'k') == (C.k,)
- F.__get__ = lambda *a: 1 | del F.__get__
? g.attribute(o, 'j') == (x,)
- F.__get__ = lambda *a: 1; F.__set__ = lambda *a: 1 | del F.__get__, F.__set__
? g.attribute(C, 'k')
- F.__get__ = lambda *a: 1 | del F.__get__
- h, C.k.__class__ = C.k, type('G', (F,), {'__get__': lambda *a: 1}) | h.__class__ = F

class B(C):
    f = 1
class E(D, B): pass
? g.attribute(super(D, e), 'f')[0]() == 1
- h = C.f; C.f = lambda self: 3 | C.f = h
- e.__class__ = E | e.__class__ = D
+ e.f = 1 | del e.f

? g.attribute(C, 'k') == (1,)
- C.k = 2 | C.k = 1
+ C.z = 2 | del C.z
? g.attribute(C, 'f') == (C.f,)
- h = C.f; C.f = 1 | C.f = h
? g.attribute(D, 'k')
- C.k = 2 | C.k = 1
? g.lacks(C, 'b')
- C.b = 1 | del C.b

class K(type):
    k = 1
class C(metaclass=K): pass
? g.attribute(C, 'k') == (1,)
- K.k = 2 | K.k = 1
- C.k = 1 | del C.k
- K.__getattribute__ = lambda c, n: 1 | del K.__getattribute__
? g.lacks(C, 'z')
- K.z = 2 | del K.z

m = types.ModuleType('m'); m.a = x
? g.attribute(m, 'a') == (x,)
- m.a = y | m.a = x
- vars(m)['a'] = y | vars(m)['a'] = x
- del m.a | m.a = x
+ m.b = y | del m.b
? g.lacks(m, 'b')
- m.b = y | del m.b
- m.__getattr__ = lambda n: 1 | del m.__getattr__

d, b = {'a': x}, {'f': x}
exec('def f():\n global a\n a = 1', d)
? g.global_(d, b, 'a') == (x,)
- d['a'] = y | d['a'] = x
- del d['a'] | d['a'] = x
- d['f']() | d['a'] = x
+ d['b'] = y | del d['b']
+ b['a'] = y | del b['a']
? g.global_(d, vars(builtins), 'len') == (len,)
- d['len'] = 1 | del d['len']
- builtins.len = print | builtins.len = len_

def outer():
    a = x
    def f():
        nonlocal a
        a = y
        return a
    return f
f = outer(); c = f.__closure__[0]; i = types.CellType(big)
? g.cell(c)
- c.cell_contents = y | c.cell_contents = x
- f() | c.cell_contents = x
- del c.cell_contents | c.cell_contents = x
? g.cell(i)
+ i.cell_contents = equal() | pass
- i.cell_contents += 1 | i.cell_contents -= 1

def f(a=1, *, b=2): pass
def h(a=1, *, b=2): return 1
f.h = x
code, defaults, named = f.__code__, f.__defaults__, f.__kwdefaults__
? g.function(f)
- f.__code__ = h.__code__ | f.__code__ = code
- f.__defaults__ = (2,) | f.__defaults__ = defaults
- del f.__defaults__ | f.__defaults__ = defaults
- f.__kwdefaults__ = {'b': 2} | f.__kwdefaults__ = named
- f.__kwdefaults__['b'] = 3 | f.__kwdefaults__['b'] = 2
+ f.a = 1 | del f.a
? g.attribute(f, 'h') == (x,)
- f.h = y | f.h = x
? g.lacks(f, 'a')
- f.a = y | del f.a

i, j, k = [x, y], [], [big]
? g.items(i)
- i[1] = x | i[1] = y
- i.append(x) | i.pop()
- i.reverse() | i.reverse()
- i.clear() | i.extend([x, y])
+ i.extend(range(999)); del i[2:] | pass
? g.items(j)
- j.append(x) | j.pop()
? g.items(k)
+ k[0] = equal() | pass
? g.items((x, y))
+ pass | pass

i, j = {1: x, 2: y}, {1: big}
? g.items(i)
- i[1] = y | i[1] = x
- i[3] = 1 | del i[3]
- i[1] = i.pop(1) | i[2] = i.pop(2)
- i[3] = i.pop(2) | i[2] = i.pop(3)
+ i[3] = 1; del i[3] | pass
? g.items(j)
+ j[1] = equal() | pass

? g.attribute(l, 'weight') == (p,)
- l.weight = q | l.weight = p
- del l.weight | l.weight = p
- l._parameters['weight'] = q | l._parameters['weight'] = p
- l._parameters = {'weight': q} | l._parameters = {'weight': p}
- l.__dict__['weight'] = q | del l.__dict__['weight']
- nn.Linear.weight = q | del nn.Linear.weight
+ l.__dict__['weight'] = p | del l.__dict__['weight']
+ l.bias = None | pass
+ l.h = y | del l.h
+ l.load_state_dict(l.state_dict()) | pass
+ with weft.no_grad(): l.weight.add_(1) | pass
+ l.double(); l.float() | pass
? g.lacks(l, 'b')
- l.register_buffer('b', weft.ones(1)) | del l.b
- l.register_parameter('b', q) | del l.b
- l.add_module('b', nn.ReLU()) | del l.b
- l.b = 1 | del l.b
? g.attribute(l, 'training') == (True,)
- s.eval() | s.train()
+ s.train() | pass
? g.attribute(s, 'training') == (True,)
+ l.eval() | l.train()
? g.attribute(s, '0') == (l,)
- s[0] = nn.ReLU() | s[0] = l
- s._parameters['0'] = q | del s._parameters['0']
+ s[1] = nn.GELU() | pass
? g.items(s._modules)
- s.append(nn.ReLU()) | s._modules.pop('2')
- s[0] = nn.ReLU() | s[0] = l

b = nn.BatchNorm1d(2); i, j = b.running_mean, weft.ones(2)
? g.attribute(b, 'running_mean') == (i,)
- b.running_mean = j | b.running_mean = i
- b.register_buffer('running_mean', j) | b.running_mean = i

class L(nn.Linear): pass
l = L(1, 1)
? g.attribute(l, 'weight')
- L.__getattr__ = lambda s, n: 1 | del L.__getattr__
- L.__getattribute__ = lambda s, n: 1 | del L.__getattribute__

? g.module_call(m)
- h = M.forward; M.forward = lambda self, x: 1 | M.forward = h
- M.__call__ = lambda self, x: 1 | del M.__call__
? g.module_call(l)
- l.forward = lambda x: x | del l.forward
- l.__class__ = M | l.__class__ = nn.Linear
- h = l.register_forward_hook(print) | h.remove()
- h = l.register_forward_pre_hook(print) | h.remove()
- h = l.register_full_backward_hook(print) | h.remove()
- h = l.register_full_backward_pre_hook(print) | h.remove()
- h = hooks.register_module_forward_hook(print) | h.remove()
- h = hooks.register_module_forward_pre_hook(print) | h.remove()
- h = hooks.register_module_full_backward_hook(print) | h.remove()
+ l._forward_hooks | pass
+ l.eval() | l.train()
? g.module_call(s)
+ h = l.register_forward_hook(print) | h.remove()

class F(nn.Module):
    __slots__ = ('forward',)
m = F(); m.forward = p
? g.module_call(m)
- m.forward = q | m.forward = p
- h = m.register_forward_hook(print) | h.remove()

l.register_forward_hook(print).remove()
? g.module_call(l)
- h = l.register_forward_hook(print) | h.remove()
- l.forward = lambda x: x | del l.forward
"""


class Row(NamedTuple):
    setup: str
    read: str
    holds: bool
    change: str
    undo: str


def rows() -> list[Row]:
    found = []
    for block in TABLE.strip().split("\n\n"):
        setup, *reads = ("\n" + block).split("\n? ")
        for lines in reads:
            read, *changes = lines.split("\n")
            for line in changes:
                change, undo = line[2:].split(" | ")
                found.append(Row(setup, read, {"+": True, "-": False}[line[0]], change, undo))
    return found


def world() -> dict[str, Any]:
    import dataclasses
    import typing

    names = {
        **dict(builtins=builtins, dataclasses=dataclasses, types=types, typing=typing),
        **dict(weft=weft, nn=nn, hooks=module_hooks, x=weft.ones(2), y=weft.zeros(2)),
        **dict(len_=len, g=Guards()),
    }
    exec(PRELUDE, names)
    return names


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.read} after {row.change}")
def test_change(row):
    names = world()
    g = names["g"]
    exec(row.setup, names)
    assert eval(row.read, names)
    assert g.hold() and g.hold()
    size, words = g.reads, set()
    for turn in range(5):
        exec(row.change, names)
        assert [g.hold() for _ in range(3)] == [row.holds] * 3, turn
        exec(row.undo, names)
        assert [g.hold() for _ in range(3)] == [True] * 3, turn
        words.add(g.words)
    assert g.reads == size
    assert len(words) <= 2, "it grows"


NOT_PLAIN = [
    "g.attribute(o, 'missing')",
    "g.attribute(m, 'missing')",
    "g.attribute(nn, 'missing')",
    "g.attribute(C, 'missing')",
    "g.attribute(type('P', (), {'p': property(lambda self: 1)})(), 'p')",
    "g.attribute(type('P', (), {'p': functools.cached_property(lambda self: 1)})(), 'p')",
    "g.attribute(type('P', (), {'p': functools.partialmethod(print)})(), 'p')",
    "g.attribute(type('G', (), {'__getattr__': lambda s, n: 1})(), 'p')",
    "g.attribute(type('G', (), {'__getattribute__': lambda s, n: 1})(), 'p')",
    "g.attribute(type('G', (nn.Module,), {'__getattr__': lambda s, n: 1})(), 'p')",
    "g.attribute(type('G', (), {'c': classmethod(property(lambda s: 1))})(), 'c')",
    "g.attribute(x, 'shape')",
    "g.attribute(m, '_forward_hooks')",
    "g.attribute(super(D, e), 'missing')",
    "g.attribute(super(D, e), '__class__')",
    "g.attribute(o, '__dict__')",
    "g.attribute(len, '__name__')",
    "g.property_of(o, 'a')",
    "g.property_of(type('P', (), {'p': property()})(), 'p')",
    "g.lacks(o, 'a')",
    "g.lacks(nn, 'missing')",
    "g.lacks(type('G', (), {'__getattr__': lambda s, n: 1})(), 'p')",
    "g.global_({}, {}, 'a')",
    "g.global_(collections.OrderedDict(a=1), {}, 'a')",
    "g.cell(types.CellType())",
    "g.cell(1)",
    "g.items('abc')",
    "g.items(collections.OrderedDict())",
    "g.items(type('L', (list,), {})())",
    "g.function(len)",
    "g.module_call(o)",
    "g.module_call(C)",
    "g.module_call(type('H', (M,), {'__call__': lambda s: 1})())",
    "[m.register_forward_hook(print), g.module_call(m)][1]",
]


@pytest.mark.parametrize("read", NOT_PLAIN)
def test_what_is_not_plain_is_not_noted(read):
    import collections
    import functools

    names = world() | {"collections": collections, "functools": functools}
    assert not eval(read, names)
    assert names["g"].reads == names["g"].words == 0
    assert names["g"].hold()


def mlp(layers: int) -> tuple[Any, Any]:
    """A Sequential, and the guards of what calling it reads."""
    net = nn.Sequential(*(nn.Linear(2, 2) for _ in range(layers)))
    g = Guards()
    assert g.module_call(net) and g.items(net._modules)
    for layer in net:
        assert g.module_call(layer) and g.function(nn.Linear.forward)
        assert g.attribute(layer, "weight") and g.attribute(layer, "bias")
    return net, g


def test_each_read_and_each_word_is_noted_once():
    net, g = mlp(3)
    size, words = g.reads, g.words
    for layer in net:
        assert g.module_call(layer) and g.attribute(layer, "weight") and g.attribute(layer, "bias")
    assert (g.reads, g.words) == (size, words)
    # Of a layer: its type, the place and the state of its dictionary, its parameters' state.
    shared = words - 4 * 3
    net, g = mlp(6)
    assert g.words == shared + 4 * 6


def test_a_read_that_was_told_otherwise_is_refused():
    names = world()
    g, o = names["g"], names["o"]
    assert g.attribute(o, "a")
    o.a = names["y"]
    assert g.attribute(o, "a") is None and g.attribute(o, "k") is None
    o.a = names["x"]
    assert g.attribute(o, "k") and g.hold()


def test_shrink_forgets_what_was_noted_after():
    net, g = mlp(2)
    size, words = g.reads, g.words
    items, other = [1], nn.Linear(2, 2)
    for seal in (False, True):
        assert g.items(items) and g.attribute(other, "weight") and g.attribute(net, "training")
        if seal:
            g.seal()
        net.eval()
        items.append(2)
        assert not g.hold()
        g.shrink(size)
        assert (g.reads, g.words) == (size, words)
        assert g.hold()
        items.pop()
        net.train()
    net[0].weight = nn.Parameter(weft.ones(2, 2))
    assert not g.hold()
    g.shrink(0)
    assert g.hold() and g.reads == g.words == 0


def test_what_is_kept_alive_goes_with_the_guards():
    net, g = mlp(2)
    net[0].weight = net[0].weight
    alive = [weakref.ref(net), weakref.ref(net[0]), weakref.ref(net[0].weight)]
    del net
    gc.collect()
    assert all(r() is not None for r in alive) and g.hold()
    g.shrink(0)
    gc.collect()
    assert not any(r() for r in alive)


def test_the_collector_looks_through_guards():
    net, g = mlp(2)
    net.guards = g
    alive = weakref.ref(net)
    assert g.hold()
    del net, g
    gc.collect()
    assert alive() is None


def test_guards_of_one_dictionary_are_independent():
    names = world()
    o, first, second = names["o"], Guards(), Guards()
    assert first.attribute(o, "a") and second.attribute(o, "a") and second.lacks(o, "b")
    o.b = 1
    assert first.hold() and not second.hold()
    del second
    assert first.hold()
    o.a = 2
    assert not first.hold()


def test_what_a_destructor_changes_meanwhile_is_noticed():
    names = world()
    g, o = names["g"], names["o"]

    class Last:
        def __del__(self) -> None:
            o.a = names["y"]

    o.last = Last()
    assert g.attribute(o, "a")
    o.__dict__ = {"a": names["x"]}  # the guards alone have the old one
    assert g.hold() and o.a is names["x"]
    o.b = 1
    assert not g.hold() and o.a is names["y"]
    o.a = names["x"]
    assert g.hold()


def test_equal_values_that_took_over_stay_alive():
    """Or another object would come to lie where one was."""
    cell, g = types.CellType(10**9), Guards()
    assert g.cell(cell)
    for _ in range(20):
        cell.cell_contents = int("1" + "0" * 9)
        assert g.hold()
        cell.cell_contents = None
        cell.cell_contents = int("2" + "0" * 9)
        assert not g.hold()


def test_many_changes_of_a_class():
    """CPython 3.13 gives a class a thousand states, and no more."""
    names = world()
    g, o, cls = names["g"], names["o"], names["C"]
    assert g.attribute(o, "k")
    for i in range(3000):
        cls.z = i
        assert g.hold()
    cls.k = 2
    assert not g.hold()
    cls.k = 1
    assert g.hold()


def test_a_read_between_changes_of_a_class_that_has_no_more_states():
    names = world()
    g, o, cls = names["g"], names["o"], names["C"]
    for i in range(2000):
        cls.z = i
        assert o.z == i  # which asks for a state
    assert g.attribute(o, "k")
    cls.k = 2
    assert g.lacks(o, "b") is False  # it would be noted beside what is not so any more
    cls.k = 1
    assert g.hold() and g.lacks(o, "b")
    cls.b = 1
    assert not g.hold()


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_random_changes(first):
    for seed in range(first, first + 100):
        fuzz_guards.run(seed)
