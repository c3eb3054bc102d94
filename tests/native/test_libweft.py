"""libweft through its C interface gives what Python gives; what it is given wrongly, it refuses."""

import ctypes
import dataclasses
import math
import threading
from typing import NamedTuple

import pytest
from libweft import (
    DICT,
    INT,
    LIST,
    STRING,
    TENSOR,
    Arguments,
    Context,
    DLTensor,
    Failed,
    Program,
    Value,
    back,
)  # fmt: skip

import weft
from weft import nn, safetensors
from weft.closing.program import package_of

R = weft.randn


def saved(path, entries, root=None):
    """A file with these functions."""
    made = package_of(entries, root)
    safetensors.save_file(made.tensors, path, {"weft": made.to_json()})
    return path


def same(a, b):
    """Equal in values and kinds, tensors to the bit."""
    if isinstance(a, weft.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and weft.equal(a, b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and (a == b or (a != a and b != b))


# ---- programs


def echo(*args, **named):
    return args, named


def loop(x, n=3):
    total = x * 0
    for k in range(n):
        total = total + x * k if total.sum() < 100 else total - 1
    return total


def tree(node):
    if isinstance(node, weft.Tensor):
        return node * 2
    left, right = tree(node[0]), tree(node[1])
    return weft.tanh(left + right) if left.sum() > 0 else left - right


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def endless(x):
    while x.sum() < 10:
        x = x * 1
    return x


def itself():
    values = [1]
    values.append(values)
    return values


def doubling(n):
    values = [1]
    for _ in range(n):
        values = [values, values]
    return values


def part(x):
    return x[:, 1]


def twice(x):
    y = x + 1
    return y, y, y[0]


def noise(n):
    return weft.randn(n)


def fails(x):
    y = x + 1
    return y @ y


def cell(x, h, w, n):
    for k in range(n):
        h = weft.tanh(x @ w + h * 0.5) * k
        x = weft.cat([h, x[:, :1]], dim=1)[:, 1:]
    return {"h": h, "parts": [x, (h + 1) * 2]}, n


class Named(NamedTuple):
    x: weft.Tensor
    n: int


@dataclasses.dataclass
class Kept:
    a: weft.Tensor
    b: list


def records(x):
    return Named(x, 2), Kept(x + 1, [x]), x.max(0)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.last = None
        self.weight = nn.Parameter(weft.ones(4))

    def step(self, x):
        self.count += 1
        before = self.last
        self.last = x
        return self.count, before

    def scale(self, by):
        with weft.no_grad():
            self.weight.mul_(by)
        return self.weight

    def get(self):
        return self.weight


@pytest.fixture(scope="module")
def program(lib, tmp_path_factory):
    path = tmp_path_factory.mktemp("libweft") / "programs.weft"
    functions = [
        echo, loop, tree, deep, endless, itself, doubling, part, twice, noise, fails,
        records, cell,
    ]  # fmt: skip
    return Program(lib, saved(path, {f.__name__: f for f in functions}))


@pytest.fixture
def context(program):
    return Context(program)


@pytest.fixture
def counter(lib, tmp_path):
    module = Counter()
    path = tmp_path / "counter.weft"
    entries = {"step": module.step, "scale": module.scale, "get": module.get}
    return Program(lib, saved(path, entries, module))


# ---- values


VALUES = [
    None, True, False, 0, -1, 2**62, 2**63 - 1, -(2**63), 0.5, math.inf, -0.0, math.nan, 1 - 2j,
    "", "a", "héß\U0001f600", "a\0b", b"", b"a\0\xff",
    [], (), {}, [1, [2.0, ["x", None]]], (1, (2,), []),
    {"a": 1, 2: [3], True: None}, R(3), R(2, 3), weft.tensor(1.5), weft.zeros(0, 4),
    weft.arange(24).reshape(2, 3, 4).transpose(0, 2), R(4, 6)[::2, 1:5:3], R(1).expand(3, 2),
    weft.tensor([True, False]), [R(2), {"h": (R(1), 3)}], R(2, 1, 1, 1, 1, 3),
    weft.tensor([1 + 2j]), *(weft.ones(3).to(t) for t in (
        weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64, weft.float16, weft.float64,
        weft.uint16, weft.uint32, weft.uint64, weft.complex128)),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:30])
def test_values_come_back_as_they_were(context, value):
    assert same(context.run("echo", value, 1, key=value), ((value, 1), {"key": value}))


def test_names_of_entries(program):
    assert program.entries()[:3] == ["echo", "loop", "tree"]
    assert program.lib.weft_version().decode() == weft.__version__


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (loop, (R(4),)), (loop, (R(4), 50)), (tree, (R(3),)), (tree, ([R(3), [R(3), R(3)]],)),
        (deep, (300,)), (part, (R(3, 4),)), (twice, (R(2, 2),)),
        (cell, (R(1, 3), R(1, 3), R(3, 3), 12)),
    ],
)  # fmt: skip
def test_programs_give_what_python_gives(context, function, args):
    for _ in range(4):  # the second time plans are made
        assert same(context.run(function.__name__, *args), function(*args))


def test_plans_find_other_values_and_sizes(context):
    for n in (1, 2, 9, 2, 7):
        for size in (1, 1, 4, 1):
            args = R(size, 3), R(size, 3), R(3, 3), n
            assert same(context.run("cell", *args), cell(*args))
    with pytest.raises(Failed) as caught:
        context.run("cell", R(1, 3), R(1, 3), R(4, 3), 2)
    assert caught.value.kind == "RuntimeError" and "in cell" in caught.value.trace
    assert same(context.run("cell", *args), cell(*args))


def test_named_fields_come_as_dicts(context):
    x = R(3, 2)
    values, indices = x.max(0)
    named, kept, largest = context.run("records", x)
    assert same(named, {"x": x, "n": 2}) and same(kept, {"a": x + 1, "b": [x]})
    assert same(largest, {"values": values, "indices": indices})


def test_arguments_by_name(context):
    x = R(3)
    assert same(context.run("loop", x=x, n=5), loop(x, 5))
    assert same(context.run("loop", x, n=5), loop(x, 5))


def test_random_numbers_are_each_contexts_own(program):
    a, b = Context(program), Context(program)
    a.seed(7), b.seed(7)
    first = a.run("noise", 5)
    assert same(first, b.run("noise", 5)) and not same(first, a.run("noise", 5))
    weft.manual_seed(7)
    assert same(first, weft.randn(5))


# ---- memory


def test_results_are_nobody_elses(context, counter):
    """Whoever writes into a result changes neither arguments, nor weights, nor another result."""
    x = R(3, 4)
    for entry, args in (("echo", (x, [x])), ("part", (x,)), ("twice", (x,))):
        result = context.run_raw(entry, *args)
        seen = set()
        for value in leaves(result):
            d = value.held.tensor.data.contents
            assert not x.data_ptr() <= d.data < x.data_ptr() + 48
            assert d.data not in seen
            seen.add(d.data)
        context.lib.weft_value_clear(result)
    own = Context(counter)
    result = own.run_raw("get")
    ctypes.memset(result.held.tensor.data.contents.data, 0, 16)
    own.lib.weft_value_clear(result)
    assert same(own.run("get"), weft.ones(4))


def leaves(value):
    """Its tensors."""
    if value.kind == TENSOR:
        return [value]
    if value.kind < LIST:
        return []
    items = value.held.list.size * (2 if value.kind == DICT else 1)
    return [leaf for k in range(items) for leaf in leaves(value.held.list.items[k])]


def test_results_outlive_their_context_in_any_thread(program):
    own = Context(program)
    x = R(100)
    results = [own.run_raw("loop", x) for _ in range(20)]
    freed = threading.Thread(target=lambda: [own.lib.weft_value_clear(r) for r in results[::2]])
    freed.start()
    for _ in range(50):
        own.run("loop", x)
    freed.join()
    own.free()
    assert all(same(back(r), loop(x)) for r in results[1::2])
    for r in results[1::2]:
        program.lib.weft_value_clear(r)
        program.lib.weft_value_clear(r)  # it is None now


def test_state_is_a_contexts_own(counter):
    a, b = Context(counter), Context(counter)
    x = weft.ones(2)
    a.run("step", x)
    x.zero_()  # what the program keeps is not the caller's memory
    assert same(a.run("step", x), (2, weft.ones(2)))
    assert same(b.run("step", x), (1, None))
    assert same(a.run("scale", 3.0), weft.ones(4) * 3)
    assert same(a.run("get"), weft.ones(4) * 3)
    assert same(b.run("get"), weft.ones(4))


def test_contexts_run_beside_each_other(program):
    inputs = [R(64, 64) for _ in range(4)]
    wanted = [loop(x, 30) for x in inputs]
    wrong = []

    def work(k):
        own = Context(program)
        for _ in range(20):
            if not same(own.run("loop", inputs[k], 30), wanted[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- errors


def test_an_error_says_where(context):
    with pytest.raises(Failed) as e:
        context.run("fails", R(2, 3))
    assert e.value.kind == "RuntimeError" and "shapes cannot be multiplied" in e.value.message
    assert "test_libweft.py" in e.value.trace and "in fails" in e.value.trace
    assert same(context.run("part", weft.ones(2, 2)), weft.ones(2))


def bessel(x):
    return weft.special.bessel_j0(x)


def test_ops_of_libraries_are_refused_by_name(lib, tmp_path):
    """NumPy's and SciPy's, which a program in Python may call (Note [Libraries])."""
    path = saved(tmp_path / "bessel.weft", {"forward": bessel})
    with pytest.raises(Failed, match=r"got 'special_bessel_j0'. Hint: weft.jit.load runs such"):
        Program(lib, path)


def inverse(x):
    solved = weft.linalg.solve(x, x[0])
    return weft.linalg.inv(x), weft.linalg.det(x), solved, weft.linalg.matrix_exp(x)


def test_matrices_are_factored_without_python(lib, tmp_path):
    path = saved(tmp_path / "inverse.weft", {"forward": inverse})
    x = weft.tensor([[2.0, 1.0], [0.0, 4.0]])
    run = Context(Program(lib, path))
    for found, expected in zip(run.run("forward", x), inverse(x), strict=True):
        assert same(found, expected)
    with pytest.raises(Failed, match="the input matrix is singular") as e:
        run.run("forward", x * 0)
    assert e.value.kind == "LinAlgError"


KEPT = Arguments()


def as_text(raw):
    """A string that has these bytes."""
    value = KEPT.value(raw)
    value.kind = STRING
    return value


BAD_CALLS = {
    "no such entry": ("nothing", ()),
    "too few arguments": ("part", ()),
    "too many": ("part", (R(2, 2), 1)),
    "of another type": ("part", (3,)),
    "a wrong shape": ("part", (R(2),)),
    "not UTF-8": ("echo", (as_text(b"\xff\xfe"),)),
    "half a surrogate pair": ("echo", (as_text(b"\xed\xa0\x80"),)),
    "a result in itself": ("itself", ()),
    "a result of 2^40 values": ("doubling", (40,)),
    "too deep a recursion": ("deep", (100_000,)),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls(context, name):
    entry, args = BAD_CALLS[name]
    with pytest.raises(Failed) as e:
        context.run(entry, *args)
    assert e.value.kind.endswith("Error") and e.value.message
    assert context.run("deep", 3) == 3


def test_names_twice_and_names_that_there_are_not(context):
    for args, named in (((R(2),), {"x": R(2)}), ((R(2),), {"y": 1})):
        with pytest.raises(Failed) as e:
            context.run("loop", *args, **named)
        assert e.value.kind == "TypeError"


def broken(**fields):
    """A tensor [2, 3] of float32 with other fields."""
    sizes = fields.pop("sizes", (2, 3))
    d = DLTensor(0, 1, 0, len(sizes), 2, 32, 1, (ctypes.c_int64 * 8)(*sizes), None, 0)
    memory = (ctypes.c_float * 6)()
    d.data = ctypes.addressof(memory)
    steps = fields.pop("steps", None)
    if steps:
        d.strides = (ctypes.c_int64 * 8)(*steps)
    for name, value in fields.items():
        setattr(d, name, value)
    d.kept = memory
    return d


BAD_TENSORS = {
    "no data": {"data": None},
    "on a device": {"device_type": 2},
    "dimensions below 0": {"ndim": -1},
    "too many dimensions": {"ndim": 65},
    "no shape": {"shape": None},
    "a type that weft has not": {"bits": 7},
    "vectors as elements": {"lanes": 4},
    "a size below 0": {"sizes": (-1, 3)},
    "2^64 elements": {"sizes": (2**32, 2**32)},
    "strides below 0": {"steps": (-3, 1)},
    "strides beyond memory": {"steps": (2**62, 2**62)},
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_bad_tensors(context, name):
    with pytest.raises(Failed):
        context.run("echo", broken(**BAD_TENSORS[name]))


def test_a_tensor_that_lies_unaligned(context):
    raw = (ctypes.c_char * 33)()
    t = broken(sizes=(2, 2))
    t.data = ctypes.addressof(raw) + 1
    assert same(context.run("echo", t), ((weft.zeros(2, 2),), {}))


def test_kinds_that_there_are_not(context):
    for kind in (-1, 11, 99):
        with pytest.raises(Failed):
            context.run("echo", Value(kind))
    with pytest.raises(Failed):  # a key has to be a number or a string
        value = Arguments().value({"a": 1})
        value.held.list.items[0].kind = LIST
        context.run("echo", value)
    no_items = Value(LIST)
    no_items.held.list.size = 3
    with pytest.raises(Failed):
        context.run("echo", no_items)


def test_values_in_each_other(context):
    def nested(depth):
        return 1 if depth == 0 else [nested(depth - 1)]

    assert context.run("echo", nested(250)) == ((nested(250),), {})
    chain = [Value(INT)]  # one deeper than Python makes lists
    for _ in range(100_000):
        v = Value(LIST)
        v.held.list.items, v.held.list.size = ctypes.pointer(chain[-1]), 1
        chain.append(v)
    with pytest.raises(Failed) as e:
        context.run("echo", chain[-1])
    assert "1000 deep" in e.value.message


def test_an_interrupt_ends_a_loop(program):
    own = Context(program)
    timer = threading.Timer(0.2, own.interrupt)
    timer.start()
    with pytest.raises(Failed) as e:
        own.run("endless", weft.ones(2))
    assert e.value.kind == "KeyboardInterrupt" and "in endless" in e.value.trace
    assert own.run("deep", 3) == 3
    own.interrupt()
    with pytest.raises(Failed):
        own.run("endless", weft.ones(2))


def test_a_context_is_one_threads(program):
    own = Context(program)

    def work():
        kind = None
        while kind != "KeyboardInterrupt":  # the main thread may have come first
            with pytest.raises(Failed) as e:
                own.run("endless", weft.ones(2))
            kind = e.value.kind

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(Failed) as e:
        while True:
            own.run("deep", 200)
    assert e.value.kind == "RuntimeError" and "another thread" in e.value.message
    while thread.is_alive():
        own.interrupt()
        thread.join(0.05)
    own.lib.weft_context_free(own.handle)
    own.handle = None
