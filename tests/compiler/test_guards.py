"""What guards notice: one table of changes, and random changes to random objects.

A row of the table makes objects, has something read, changes something and undoes that. Guards hold
before; after the change as the row says; and again after it is undone, as often as one likes.
"""

import builtins
import gc
import textwrap
import weakref
from typing import Any, NamedTuple

import pytest

import weft
from weft import _C, nn

Guards: Any = _C._Guards


class Row(NamedTuple):
    """Code, run in one namespace; `g` are the guards, what `read` gives has to be true."""

    title: str
    setup: str
    read: str
    change: str
    undo: str
    holds: bool = False


PLAIN = "class C:\n  k = 1\n  def f(self): return self.k\no = C(); o.a = x"
MODULE = "m = nn.Linear(2, 3); n = nn.Sequential(m, nn.ReLU()); p, q = m.weight, nn.Parameter(x)"

ROWS = [
    # attributes of plain objects
    Row("setattr", PLAIN, "g.attribute(o, 'a') == (x,)", "o.a = y", "o.a = x"),
    Row("delattr", PLAIN, "g.attribute(o, 'a')", "del o.a", "o.a = x"),
    Row("write to __dict__", PLAIN, "g.attribute(o, 'a')", "o.__dict__['a'] = y", "o.__dict__['a'] = x"),
    Row("__dict__ updated", PLAIN, "g.attribute(o, 'a')", "vars(o).update(a=y)", "vars(o).update(a=x)"),
    Row("__dict__ cleared", PLAIN, "g.attribute(o, 'a')", "vars(o).clear()", "o.a = x"),
    Row("another __dict__", PLAIN, "g.attribute(o, 'a')", "o.__dict__ = {'a': y}", "o.__dict__ = {'a': x}"),
    Row("an equal __dict__", PLAIN, "g.attribute(o, 'a')", "o.__dict__ = {'a': x}", "pass", True),
    Row("another attribute", PLAIN, "g.attribute(o, 'a')", "o.b = y", "del o.b", True),
    Row("many attributes", PLAIN, "g.attribute(o, 'a')",
        "for i in range(99): setattr(o, f'b{i}', i)", "vars(o).clear(); o.a = x", True),
    Row("equal int", PLAIN + "; o.h = 10**9", "g.attribute(o, 'h')", "o.h = int('1' + '0' * 9)", "pass", True),
    Row("other int", PLAIN + "; o.h = 10**9", "g.attribute(o, 'h')", "o.h = 10**9 + 1", "o.h = 10**9"),
    Row("int or bool", PLAIN + "; o.h = 1", "g.attribute(o, 'h')", "o.h = True", "o.h = 1"),
    Row("int or float", PLAIN + "; o.h = 1", "g.attribute(o, 'h')", "o.h = 1.0", "o.h = 1"),
    Row("equal float", PLAIN + "; o.h = 0.1", "g.attribute(o, 'h')", "o.h = float('0.1')", "pass", True),
    Row("minus zero", PLAIN + "; o.h = 0.0", "g.attribute(o, 'h')", "o.h = -0.0", "o.h = 0.0"),
    Row("equal nan", PLAIN + "; o.h = float('nan')", "g.attribute(o, 'h')", "o.h = float('nan')", "pass", True),
    Row("equal complex", PLAIN + "; o.h = 1j", "g.attribute(o, 'h')", "o.h = complex('1j')", "pass", True),
    Row("equal str", PLAIN + "; o.h = 'ab'", "g.attribute(o, 'h')", "o.h = ''.join(['a', 'b'])", "pass", True),
    Row("equal tuple", PLAIN + "; o.h = (x,)", "g.attribute(o, 'h')", "old, o.h = o.h, (x,)", "o.h = old"),
    Row("equal list", PLAIN + "; o.h = [1]", "g.attribute(o, 'h')", "old, o.h = o.h, [1]", "o.h = old"),
    Row("int subclass", PLAIN + "\nclass I(int): pass\no.h = I(1)", "g.attribute(o, 'h')", "old, o.h = o.h, I(1)", "o.h = old"),
    Row("class attribute", PLAIN, "g.attribute(o, 'k') == (1,)", "C.k = 2", "C.k = 1"),
    Row("class attribute shadowed", PLAIN, "g.attribute(o, 'k')", "o.k = 2", "del o.k"),
    Row("class attribute shadowed by itself", PLAIN + "\nC.k = x", "g.attribute(o, 'k')", "o.k = x", "del o.k"),
    Row("other class attribute", PLAIN, "g.attribute(o, 'k')", "C.z = 2", "del C.z", True),
    Row("method", PLAIN, "g.attribute(o, 'f')[0]() == 1", "f = C.f; C.f = lambda self: 2", "C.f = f"),
    Row("method shadowed", PLAIN, "g.attribute(o, 'f')", "o.f = C.f", "del o.f"),
    Row("method deleted", PLAIN, "g.attribute(o, 'f')", "f = C.f; del C.f", "C.f = f"),
    Row("method of a base", PLAIN + "\nclass D(C): pass\no = D()", "g.attribute(o, 'f')", "f = C.f; C.f = 1", "C.f = f"),
    Row("method overridden", PLAIN + "\nclass D(C): pass\no = D()", "g.attribute(o, 'f')", "D.f = 1", "del D.f"),
    Row("staticmethod", "class C:\n  @staticmethod\n  def f(): return 3\no = C()",
        "g.attribute(o, 'f')[0]() == 3", "f = C.__dict__['f']; C.f = f.__func__", "C.f = f"),
    Row("classmethod", "class C:\n  @classmethod\n  def f(cls): return cls\no = C()",
        "g.attribute(o, 'f')[0]() is C", "f = C.__dict__['f']; C.f = f.__func__", "C.f = f"),
    Row("method of a built-in", "o = [3]", "g.attribute(o, 'count')[0](3) == 1", "o.append(3)", "o.pop()", True),
    Row("__class__ assigned", PLAIN + "\nclass D(C):\n  k = 2", "g.attribute(o, 'k')", "o.__class__ = D", "o.__class__ = C"),
    Row("__class__ assigned, same answer", PLAIN + "\nclass D(C): pass", "g.attribute(o, 'k')", "o.__class__ = D", "o.__class__ = C", True),
    Row("__class__", PLAIN + "\nclass D(C): pass", "g.attribute(o, '__class__') == (C,)", "o.__class__ = D", "o.__class__ = C"),
    Row("bases", PLAIN + "\nclass B:\n  k = 2\nclass A(C): pass\nclass E(A): pass\no = E()",
        "g.attribute(o, 'k')", "A.__bases__ = (B,)", "A.__bases__ = (C,)"),
    Row("becomes a descriptor", PLAIN + "\nclass D: pass\nC.k = D()", "g.attribute(o, 'k')", "D.__get__ = lambda *a: 1", "del D.__get__"),
    Row("becomes a data descriptor", PLAIN + "\nclass D: pass\nC.k = D(); o.k = x", "g.attribute(o, 'k') == (x,)",
        "D.__get__ = lambda *a: 1; D.__set__ = lambda *a: 1", "del D.__get__, D.__set__"),
    Row("__getattribute__ added", PLAIN, "g.attribute(o, 'a')", "C.__getattribute__ = lambda s, n: 1", "del C.__getattribute__"),
    Row("__getattr__ added", PLAIN, "g.attribute(o, 'a')", "C.__getattr__ = lambda s, n: 1", "del C.__getattr__", True),
    Row("__slots__", "class C: __slots__ = ('a',)\no = C(); o.a = x", "g.attribute(o, 'a') == (x,)", "o.a = y", "o.a = x"),
    Row("__slots__ deleted", "class C: __slots__ = ('a',)\no = C(); o.a = x", "g.attribute(o, 'a')", "del o.a", "o.a = x"),
    Row("__slots__ equal", "class C: __slots__ = ('a',)\no = C(); o.a = 10**9", "g.attribute(o, 'a')", "o.a = int('1' + '0' * 9)", "pass", True),
    Row("named tuple", "from collections import namedtuple\nT = namedtuple('T', 'a b'); o = T(x, y)", "g.attribute(o, 'b') == (y,)",
        "a, T.b = T.b, T.a", "T.b = a"),
    Row("property", "class C:\n  @property\n  def a(self): return 1\no = C()", "g.property_of(o, 'a')[0](o) == 1",
        "a = C.a; C.a = property(lambda self: 2)", "C.a = a"),
    Row("property, __dict__ written", "class C:\n  @property\n  def a(self): return 1\no = C()", "g.property_of(o, 'a')",
        "o.__dict__['a'] = 2", "del o.__dict__['a']", True),
    Row("lacks", PLAIN, "g.lacks(o, 'b')", "o.b = 1", "del o.b"),
    Row("lacks, in class", PLAIN, "g.lacks(o, 'b')", "C.b = 1", "del C.b"),
    Row("lacks, __getattr__", PLAIN, "g.lacks(o, 'b')", "C.__getattr__ = lambda s, n: 1", "del C.__getattr__"),
    Row("lacks, slot", "class C: __slots__ = ('a',)\no = C()", "g.lacks(o, 'a')", "o.a = 1", "del o.a"),
    Row("super()", PLAIN + "\nclass D(C):\n  def f(self): return 2\no = D()", "g.attribute(super(D, o), 'f')[0]() == 1",
        "f = C.f; C.f = lambda self: 3", "C.f = f"),
    Row("super(), class assigned", PLAIN + "\nclass D(C): pass\nclass B(C):\n  f = 1\nclass E(D, B): pass\no = D()",
        "g.attribute(super(D, o), 'f')", "o.__class__ = E", "o.__class__ = D"),
    # classes, modules of Python, globals
    Row("attribute of a class", PLAIN, "g.attribute(C, 'k') == (1,)", "C.k = 2", "C.k = 1"),
    Row("function of a class", PLAIN, "g.attribute(C, 'f') == (C.f,)", "f = C.f; C.f = 1", "C.f = f"),
    Row("attribute of a base of a class", PLAIN + "\nclass D(C): pass", "g.attribute(D, 'k')", "C.k = 2", "C.k = 1"),
    Row("metaclass", "class M(type): k = 1\nclass C(metaclass=M): pass", "g.attribute(C, 'k')", "M.k = 2", "M.k = 1"),
    Row("metaclass shadowed", "class M(type): k = 1\nclass C(metaclass=M): pass", "g.attribute(C, 'k')", "C.k = 1", "del C.k"),
    Row("class lacks", PLAIN, "g.lacks(C, 'b')", "C.b = 1", "del C.b"),
    Row("module", "import types; m = types.ModuleType('m'); m.a = x", "g.attribute(m, 'a') == (x,)", "m.a = y", "m.a = x"),
    Row("module's dict", "import types; m = types.ModuleType('m'); m.a = x", "g.attribute(m, 'a')", "vars(m)['a'] = y", "vars(m)['a'] = x"),
    Row("global", "d = {'a': x}", "g.global_(d, vars(builtins), 'a') == (x,)", "d['a'] = y", "d['a'] = x"),
    Row("global by a function", "d = {'a': x}; exec('def f():\\n  global a\\n  a = 1', d)", "g.global_(d, vars(builtins), 'a')", "d['f']()", "d['a'] = x"),
    Row("global deleted", "d = {'a': x}", "g.global_(d, vars(builtins), 'a')", "del d['a']", "d['a'] = x"),
    Row("other global", "d = {'a': x}", "g.global_(d, vars(builtins), 'a')", "d['b'] = y", "del d['b']", True),
    Row("builtin", "d = {}", "g.global_(d, vars(builtins), 'len') == (len,)", "d['len'] = 1", "del d['len']"),
    Row("builtin replaced", "d = {}; b = {'f': x}", "g.global_(d, b, 'f')", "b['f'] = y", "b['f'] = x"),
    # cells, functions, types, containers
    Row("cell", "def outer():\n  a = x\n  def f():\n    nonlocal a\n    return a\n  return f\nc = outer().__closure__[0]", "g.cell(c)",
        "c.cell_contents = y", "c.cell_contents = x"),
    Row("cell emptied", "c = types.CellType(x)", "g.cell(c)", "del c.cell_contents", "c.cell_contents = x"),
    Row("equal int in a cell", "c = types.CellType(10**9)", "g.cell(c)", "c.cell_contents = int('1' + '0' * 9)", "pass", True),
    Row("__code__", "def f(): pass\ndef h(): return 1\nold = f.__code__", "g.function(f)", "f.__code__ = h.__code__", "f.__code__ = old"),
    Row("__defaults__", "def f(a=1): pass\nold = f.__defaults__", "g.function(f)", "f.__defaults__ = (2,)", "f.__defaults__ = old"),
    Row("__defaults__ deleted", "def f(a=1): pass\nold = f.__defaults__", "g.function(f)", "del f.__defaults__", "f.__defaults__ = old"),
    Row("__kwdefaults__", "def f(*, a=1): pass\nold = f.__kwdefaults__", "g.function(f)", "f.__kwdefaults__ = {'a': 2}", "f.__kwdefaults__ = old"),
    Row("in __kwdefaults__", "def f(*, a=1): pass", "g.function(f)", "f.__kwdefaults__['a'] = 2", "f.__kwdefaults__['a'] = 1"),
    Row("__dict__ of a function", "def f(): pass", "g.function(f)", "f.a = 1", "del f.a", True),
    Row("attribute of a function", "def f(): pass\nf.a = x", "g.attribute(f, 'a')", "f.a = y", "f.a = x"),
    Row("function lacks", "def f(): pass", "g.lacks(f, 'a')", "f.a = y", "del f.a"),
    Row("type", PLAIN + "\nclass D(C): pass", "g.type_of(o)", "o.__class__ = D", "o.__class__ = C"),
    Row("list append", "l = [x]", "g.items(l)", "l.append(x)", "l.pop()"),
    Row("list replace", "l = [x, y]", "g.items(l)", "l[1] = x", "l[1] = y"),
    Row("list order", "l = [x, y]", "g.items(l)", "l.reverse()", "l.reverse()"),
    Row("list cleared", "l = [x, y]", "g.items(l)", "l.clear()", "l.extend([x, y])"),
    Row("list filled", "l = []", "g.items(l)", "l.append(x)", "l.pop()"),
    Row("list grown and shrunk", "l = [x]", "g.items(l)", "l.extend(range(999)); del l[1:]", "pass", True),
    Row("list of equal ints", "l = [10**9]", "g.items(l)", "l[0] = int('1' + '0' * 9)", "pass", True),
    Row("tuple", "t = (x, y)", "g.items(t)", "pass", "pass", True),
    Row("dict item", "d = {1: x, 2: y}", "g.items(d)", "d[1] = y", "d[1] = x"),
    Row("dict order", "d = {1: x, 2: y}", "g.items(d)", "d[1] = d.pop(1)", "d[2] = d.pop(2)"),
    Row("dict key", "d = {1: x, 2: y}", "g.items(d)", "d[3] = d.pop(2)", "d[2] = d.pop(3)"),
    Row("dict grown and shrunk", "d = {1: x}", "g.items(d)", "d[2] = 1; del d[2]", "pass", True),
    Row("dict of equal ints", "d = {1: 10**9}", "g.items(d)", "d[1] = int('1' + '0' * 9)", "pass", True),
    # Modules
    Row("parameter", MODULE, "g.attribute(m, 'weight') == (p,)", "m.weight = q", "m.weight = p"),
    Row("parameter deleted", MODULE, "g.attribute(m, 'weight')", "del m.weight", "m.weight = p"),
    Row("parameter by its table", MODULE, "g.attribute(m, 'weight')", "m._parameters['weight'] = q", "m._parameters['weight'] = p"),
    Row("another parameter", MODULE, "g.attribute(m, 'weight')", "m.bias = None", "pass", True),
    Row("another table", MODULE, "g.attribute(m, 'weight')", "m._parameters = {'weight': q}", "m._parameters = {'weight': p}"),
    Row("parameter in the dictionary", MODULE, "g.attribute(m, 'weight')", "m.__dict__['weight'] = q", "del m.__dict__['weight']"),
    Row("buffer", "m = nn.BatchNorm1d(2); p, q = m.running_mean, weft.ones(2)", "g.attribute(m, 'running_mean') == (p,)",
        "m.running_mean = q", "m.running_mean = p"),
    Row("register_buffer", MODULE, "g.lacks(m, 'b')", "m.register_buffer('b', weft.ones(1))", "del m.b"),
    Row("register_parameter", MODULE, "g.lacks(m, 'b')", "m.register_parameter('b', q)", "del m.b"),
    Row("a parameter goes before a child", "m = nn.Module(); m.a = nn.ReLU()", "g.attribute(m, 'a')",
        "m._parameters['a'] = nn.Parameter(weft.ones(1))", "del m._parameters['a']"),
    Row("child", MODULE, "g.attribute(n, '0') == (m,)", "n[0] = nn.ReLU()", "n[0] = m"),
    Row("children", MODULE, "g.items(n._modules)", "n.append(nn.ReLU())", "n._modules.pop('2')"),
    Row("train and eval", MODULE, "g.attribute(m, 'training') == (True,)", "n.eval()", "n.train()"),
    Row("train of a child", MODULE, "g.attribute(n, 'training')", "m.eval()", "m.train()", True),
    Row("same mode again", MODULE, "g.attribute(m, 'training')", "n.train()", "pass", True),
    Row("state", MODULE + "; m.h = x", "g.attribute(m, 'weight')", "m.h = y", "m.h = x", True),
    Row("in place", MODULE, "g.attribute(m, 'weight')", "with weft.no_grad(): m.weight.add_(1)", "pass", True),
    Row("load_state_dict", MODULE, "g.attribute(m, 'weight')", "m.load_state_dict(m.state_dict())", "pass", True),
    Row("Module's __getattr__", MODULE + "\nclass D(nn.Linear): pass\nm = D(1, 1)", "g.attribute(m, 'weight')",
        "D.__getattr__ = lambda s, n: 1", "del D.__getattr__"),
    Row("forward of the class", "class M(nn.Module):\n  def forward(self, x): return x\nm = M()", "g.module_call(m)",
        "f = M.forward; M.forward = lambda self, x: 1", "M.forward = f"),
    Row("forward of the instance", MODULE, "g.module_call(m)", "m.forward = lambda x: x", "del m.forward"),
    Row("__call__", "class M(nn.Module):\n  def forward(self, x): return x\nm = M()", "g.module_call(m)",
        "M.__call__ = lambda self, x: 1", "del M.__call__"),
    Row("forward hook", MODULE, "g.module_call(m)", "h = m.register_forward_hook(print)", "h.remove()"),
    Row("forward pre-hook", MODULE, "g.module_call(m)", "h = m.register_forward_pre_hook(print)", "h.remove()"),
    Row("backward hook", MODULE, "g.module_call(m)", "h = m.register_full_backward_hook(print)", "h.remove()"),
    Row("backward pre-hook", MODULE, "g.module_call(m)", "h = m.register_full_backward_pre_hook(print)", "h.remove()"),
    Row("hook of another", MODULE, "g.module_call(n)", "h = m.register_forward_hook(print)", "h.remove()", True),
    Row("hook of all", MODULE, "g.module_call(m)", "h = hooks.register_module_forward_hook(print)", "h.remove()"),
    Row("backward hook of all", MODULE, "g.module_call(m)", "h = hooks.register_module_full_backward_hook(print)", "h.remove()"),
    Row("tables of hooks looked at", MODULE, "g.module_call(m)", "m._forward_hooks", "pass", True),
    Row("a hook again", MODULE + "; m.register_forward_hook(print).remove()", "g.module_call(m)", "h = m.register_forward_hook(print)", "h.remove()"),
    Row("call, in training mode or not", MODULE, "g.module_call(m)", "m.eval()", "m.train()", True),
    Row("class of a Module", MODULE + "\nclass D(nn.Linear):\n  def forward(self, x): return x", "g.module_call(m)", "m.__class__ = D", "m.__class__ = nn.Linear"),
]  # fmt: skip


def namespace() -> dict[str, Any]:
    import types

    return {
        "builtins": builtins,
        "types": types,
        "nn": nn,
        "weft": weft,
        "hooks": nn.module_hooks,
        "x": weft.ones(2),
        "y": weft.zeros(2),
        "g": Guards(),
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_table(row):
    names = namespace()
    g = names["g"]
    exec(textwrap.dedent(row.setup), names)
    assert eval(row.read, names)
    assert g.hold() and g.hold()
    size, words = g.size, set()
    for turn in range(5):
        exec(row.change, names)
        assert [g.hold() for _ in range(3)] == [row.holds] * 3, turn
        exec(row.undo, names)
        assert [g.hold() for _ in range(3)] == [True] * 3, turn
        words.add(g.words)
    assert g.size == size
    assert len(words) <= 2, "it grows"


def test_titles_are_unique():
    assert len({row.title for row in ROWS}) == len(ROWS)
