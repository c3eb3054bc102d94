"""The source of a function is found where it is what the function runs, and only there."""

import functools
import gc
import linecache
import sys
import textwrap
import types
import weakref

import evaluate
import pytest

import weft
from weft.frontend import Lowered, Outside, lower, outside_of, source


@pytest.fixture
def load(tmp_path):
    """Makes a module of some text, in a file."""

    def make(text, name="module"):
        file = tmp_path / f"{name}.py"
        file.write_text(textwrap.dedent(text))
        module = types.ModuleType(name)
        exec(compile(file.read_text(), str(file), "exec"), vars(module))  # noqa: S102
        module.file = file
        return module

    return make


FINDS = '''
"""Text at the margin
def method(self): """
import contextlib, functools

def plain(x):
    return x + 1

a, b = (lambda x: x + 1), (lambda x: x + 2)
table = {
    "key": lambda x: (
        x + 3
    ),
    "same": [lambda x: x, lambda x: x],
}

def wrap(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)
    return wrapper

@wrap
@contextlib.contextmanager
def decorated(
    x,
):
    yield x

@functools.lru_cache(
    maxsize=None
)
@wrap

# a comment
@wrap
def cached(x,
           y=2,
):
    return x

class Outer:
    text = """
margin """
    member = lambda self, x: x + 4

    class __Inner:
        def method(self, x):
            def inner():
                return self.__x, __class__, x
            return inner

        @property
        def value(self): return super().__init__, self.__x

    if True:
        @staticmethod
        def nested(x):
            """A docstring
at the margin."""
            return [y for y in x if (lambda: y)()]

        def after(self):
            return 1

    inner = __Inner

if True:
    def conditional(x):
        # comment
# at the margin
        return x
else:
    def conditional(x):
        return -x

def factory(n):
    def make(k):
        return lambda x: x + n + k
    class Local:
        def method(self):
            return self.__x + n
    return make, Local
\tdef unreachable(): pass
'''.replace("\tdef unreachable(): pass\n", "")


def test_functions_are_found(load):
    m = load(FINDS)
    make, local = m.factory(1)
    inner = m.Outer.inner
    functions = [
        m.plain, m.a, m.b, m.table["key"], *m.table["same"], m.wrap, m.decorated,
        m.cached.__wrapped__, m.Outer.member, inner.method, inner().method(1),
        inner.value.fget, m.Outer.nested, m.Outer.after, m.Outer().after, m.conditional,
        make, make(2), local.method,
    ]  # fmt: skip
    for f in functions:
        lowered = lower(f)
        assert isinstance(lowered, Lowered) and lowered.code is f.__code__
        assert lower(f).body is lowered.body
    assert [evaluate.function(f)(10) for f in functions[:4]] == [11, 11, 12, 13]
    assert evaluate.function(make(2))(10) == 13
    assert lower(inner.method).inner[0].body[0].attr == "self"
    assert "_Inner__x" in str(lower(inner.method).inner[0].body)


def test_what_is_lowered_goes_with_its_code(load):
    """A process that makes modules anew, as a fuzzer or a notebook does, kept them all."""
    text = "import weft\ndef f(x):\n    return lambda y: (x * 2 + y).tanh()\n"
    codes = []
    for k in range(3):
        f = load(text, f"again_{k}").f
        compiled = weft.compile(f)
        for _ in range(4):
            compiled(weft.ones(3))(weft.ones(3))
        assert lower(f).inner[0].code in f.__code__.co_consts
        codes += [weakref.ref(f.__code__), weakref.ref(f(weft.ones(3)).__code__)]
        del f, compiled
    gc.collect()
    assert [code() for code in codes] == [None] * 6


@pytest.mark.parametrize("other", [[], ["import sys\n", "print(sys.argv)\n"]])
def test_where_there_is_no_source(other, monkeypatch):
    """linecache of Python 3.13 has the text of `python -c` under the name that exec gives too: the
    function was said to be edited."""
    held = (sum(map(len, other)), None, other, "<string>")
    monkeypatch.setitem(linecache.cache, "<string>", held)
    names = {}
    exec("def f(x):\n    return x", names)  # noqa: S102
    with pytest.raises(Outside, match="no source") as error:
        lower(names["f"])
    assert error.value.line == 1 and error.value.file == "<string>" and error.value.hint
    with pytest.raises(TypeError, match=r"\[lower\] expected a function of Python, got type"):
        lower(int)


def test_asserts_that_pytest_rewrote():
    with pytest.raises(Outside, match="rewritten"):
        lower(rewritten)


def rewritten(x):
    assert x == 1


EDITS = {
    "x + 1": "x + 2", "x - 1": "x - 1.0", "'a'": "'b'", "x.y": "x.z", "(x, k=1)": "(x, k=1, *y)",
    "g(x)": "h(x)", "k=1": "j=1", "return x": "return y", "(x, y)": "(y, x)",
    "def f": "\ndef f", "lambda: 0.0": "lambda: -0.0", "if x": "while x",
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), EDITS.items())
def test_a_file_edited_since(load, old, new):
    text = (
        "def f(x, y):\n    z = x + 1, x - 1, 'a', x.y, f(x, k=1), g(x), lambda: 0.0\n"
        "    if x:\n        pass\n    return x\n"
    )
    module = load(text)
    assert isinstance(lower(module.f), Lowered)
    edited = text.replace(old, new)
    assert edited != text
    module = load(text)
    module.file.write_text(edited)
    linecache.checkcache()
    with pytest.raises(Outside, match="edited since"):
        lower(module.f)


def test_an_edit_elsewhere_is_none(load):
    module = load("def f(x):\n    return x\n\ndef g(x):\n    return x + 1\n")
    module.file.write_text("def f(x):\n    return x\n\ndef g(x):\n    return x + 22\n")
    assert isinstance(lower(module.f), Lowered)
    with pytest.raises(Outside, match="edited since"):
        lower(module.g)


def test_a_module_imported_anew(load):
    first = load("def f(x):\n    return x + 1\n").f
    assert evaluate.function(first)(1) == 2
    second = load("def f(x):\n    return x + 22\n").f
    assert evaluate.function(second)(1) == 23
    assert evaluate.function(first)(1) == 2


def test_code_objects_that_are_equal_are_told_apart(load):
    text = "def f(x):\n    return x\n"
    one, two = load(text, "one").f, load(text, "two").f
    assert one.__code__ == two.__code__
    assert lower(one).code is one.__code__ and lower(two).code is two.__code__
    assert lower(two).code.co_filename.endswith("two.py")


def test_postponed_annotations(load):
    text = """
    from __future__ import annotations
    def f():
        def g(x: missing, y: "str") -> list[missing]: return x
        return g.__annotations__
    """
    f = load(text).f
    assert evaluate.function(f)() == f()


def test_a_replaced_code_object(load):
    module = load("def f(x):\n    return x + 1\n\ndef g(x):\n    return x\n")
    module.f.__code__ = module.g.__code__
    assert evaluate.function(module.f)(1) == 1
    module.g.__code__ = module.g.__code__.replace(co_consts=(None, 7), co_firstlineno=1)
    with pytest.raises(Outside, match="not what the function runs"):
        lower(module.g)


def test_wrappers_are_functions_of_their_own(load):
    text = """
    import functools
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args):
            return f(*args), f(*args)
        return wrapper
    @twice
    def f(x):
        return x
    """
    f = load(text).f
    assert lower(f).name == "twice.<locals>.wrapper" and lower(f.__wrapped__).name == "f"
    assert evaluate.function(f)(1) == (1, 1)
    assert lower(functools.partial(f).func).name == "twice.<locals>.wrapper"


def test_one_function_of_a_large_file_does_not_compile_it(load, monkeypatch):
    text = "class A:\n    def f(self, x):\n        return x\n" + "def g(x):\n    return -x\n" * 2000
    module = load(text)
    sizes = []

    def spy(code, lines, text, first):
        sizes.append(len(text.strip()))
        return compiled(code, lines, text, first)

    compiled = source.compiled
    monkeypatch.setattr(source, "compiled", spy)
    lower(module.A.f)
    lower(module.g)
    assert len(sizes) == 2 and max(sizes) < 80


REASONS = {
    "yield x": "a generator function",
    "global answer; answer = x": "a global variable is set (answer)",
    "class A: pass": "a class definition",
    "return locals()": "locals() looks at the frame of its caller",
    "return vars()": "vars() looks at the frame of its caller",
    "exec('x')": "exec() looks at the frame of its caller",
    "import sys; return sys._getframe()": "_getframe looks at a frame",
    "f = lambda: x\n    del x": "del of x, which is no local here",
    "match x:\n        case [1, *_]: pass": "a match statement with more than values",
    "return super()": "super() outside of a method",
    "try: pass\n    except* ValueError: pass": "except*",
}


@pytest.mark.parametrize(("text", "reason"), REASONS.items())
def test_what_is_outside_says_why_and_where(load, text, reason):
    module = load(f"def f(x):\n    pass\n    {text}\n")
    with pytest.raises(Outside) as error:
        lower(module.f)
    assert error.value.reason == reason
    assert error.value.file == str(module.file)
    assert error.value.line in (3, 4)
    assert str(error.value).startswith(f"{module.file}:{error.value.line}: {reason}")


def test_inner_functions_outside_stay_pythons(load):
    text = """
    def f(x):
        def inner(y):
            global z
            z = y
            return x + y
        return inner(1), [k async for k in x] if False else None
    """.replace(", [k async for k in x] if False else None", "")
    f = load(text).f
    (inner,) = lower(f).inner
    assert inner.reason.reason == "a global variable is set (z)" and inner.free == ("x",)
    assert evaluate.function(f)(1) == 2


def test_all_that_is_outside(load):
    text = """
    def f(x, y):
        global a, b
        a = locals()
        for b in range(3):
            class Local:
                pass
            if x or eval("x"):
                pass
        match x:
            case [1, _]:
                a = 2
            case _:
                b = 3
        z = [1, vars(), locals(),
             dir()]
        g = lambda: [exec("1") for w in x]
        def inner(k):
            def most(m):
                nonlocal k
                k = m
            yield k
            return most
        async def later():
            pass
        del y
        return sum(t for t in x), lambda: y
    """
    f = load(text).f
    found = [(why.line, why.reason, why.function) for why in outside_of(f)]
    assert found == [
        (4, "locals() looks at the frame of its caller", "f"),
        (4, "a global variable is set (a)", "f"),
        (5, "a global variable is set (b)", "f"),
        (6, "a class definition", "f"),
        (8, "eval() looks at the frame of its caller", "f"),
        (11, "a match statement with more than values", "f"),
        (12, "a global variable is set (a)", "f"),
        (14, "a global variable is set (b)", "f"),
        (15, "vars() looks at the frame of its caller", "f"),
        (15, "locals() looks at the frame of its caller", "f"),
        (16, "dir() looks at the frame of its caller", "f"),
        (17, "exec() looks at the frame of its caller", "f.<locals>.<lambda>"),
        (22, "a generator function", "f.<locals>.inner"),
        (24, "an async function", "f"),
        (26, "del of y, which is no local here", "f"),
        (27, "a generator expression", "f.<locals>.<genexpr>"),
    ]
    assert all(why.file == f.__code__.co_filename for why in outside_of(f))
    assert "return the value" in str(outside_of(f)[1])
    with pytest.raises(Outside) as first:
        lower(f)
    assert first.value.line == 4


def test_where_nothing_is_outside(load):
    f = load("def f(x):\n    return (lambda y: [z for z in y])(x)\n").f
    assert outside_of(f) == [] and outside_of(f.__code__) == []
    names = {}
    exec("def g(x):\n    return x", names)  # noqa: S102
    (why,) = outside_of(names["g"])
    assert why.reason == "there is no source" and why.function == "g"
    with pytest.raises(TypeError, match=r"\[outside_of\] expected a function of Python, got type"):
        outside_of(int)


def test_vars_of_something_is_inside(load):
    f = load("def f(x):\n    return vars(x), dir(x)\n").f
    box = types.SimpleNamespace(a=1)
    assert evaluate.function(f)(box) == f(box)


def test_weft_itself_is_inside():
    functions = {
        v.__code__: v
        for kind in vars(weft.nn).values() if isinstance(kind, type)
        for v in vars(kind).values() if isinstance(v, types.FunctionType)
    }  # fmt: skip
    outside = []
    for f in functions.values():
        try:
            lower(f)
        except Outside as why:
            outside.append(str(why))
    assert len(functions) > 200 and outside == []


def test_the_front_end_is_loaded_when_it_is_used():
    import subprocess

    text = "import sys, weft; print([m for m in sys.modules if 'weft.frontend' in m])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
