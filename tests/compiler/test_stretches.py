"""Compiled is eager, call for call: values, gradients, errors, aliases, random numbers.

Every case is called several times, with inputs of other layouts between, so that it runs as it is,
is traced, and runs by plan.
"""

import copy
import gc
import os
import signal
import subprocess
import sys
import traceback
import warnings
import weakref

import pytest
import stretch_models as models

import weft
from weft import nn
from weft.nn import functional as F

SHAPES = [(3, 6), (3, 6), (3, 6), (4, 6), (4, 6), (3, 6), (1, 6), (3, 6)]


def flat(value):
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    if isinstance(value, dict):
        return [item for key in value for item in (key, *flat(value[key]))]
    return [value]


def shape_of(value):
    """The containers of a result."""
    if isinstance(value, (tuple, list)):
        return type(value), [shape_of(part) for part in value]
    if isinstance(value, dict):
        return dict, [(key, shape_of(part)) for key, part in value.items()]
    return type(value)


def bits(t):
    return t.detach().contiguous().view(-1).numpy().tobytes()


class Gradient:
    """Equal to the bit, or to 1e-6 of the norm where several uses are summed."""

    def __init__(self, t):
        self.value = None if t is None else t.detach().clone()

    def __eq__(self, other):
        a, b = self.value, other.value
        if a is None or b is None:
            return a is b
        return bits(a) == bits(b) or float((a - b).norm()) <= 1e-6 * float(b.norm())

    def __repr__(self):
        return repr(self.value)


def described(t, inputs):
    if not isinstance(t, weft.Tensor):
        return t
    aliased = [k for k, given in enumerate(inputs) if given.data_ptr() == t.data_ptr()]
    same = [k for k, given in enumerate(inputs) if given is t]
    return (bits(t), tuple(t.shape), t.dtype, t.stride(), t.requires_grad, t.is_leaf, t._is_view(),
            aliased, same, t._version)  # fmt: skip


def lines(error):
    found = traceback.extract_tb(error.__traceback__)
    return [(f.name, f.lineno) for f in found if f.filename == models.__file__]


def outcome(call, inputs, grad=True):
    """What a call shows, gradients of the inputs included."""
    weft.manual_seed(5)
    try:
        result = call(*inputs)
    except Exception as error:
        return type(error), str(error), lines(error)
    parts = flat(result)
    shown = shape_of(result), [described(t, inputs) for t in parts], weft.get_rng_state().tolist()
    tracked = [t for t in parts if isinstance(t, weft.Tensor) and t.requires_grad]
    tracked = [t for t in tracked if t.grad_fn is not None]
    if not grad or not tracked:
        return *shown, None
    weft.autograd.backward([t.double().square().sum() for t in tracked])
    return *shown, [Gradient(t.grad) for t in inputs]


def given(shape, grad, seed, strided=False):
    weft.manual_seed(seed)
    made = [weft.randn(*shape[::-1]).T if strided else weft.randn(*shape) for _ in range(2)]
    return [t.requires_grad_(grad) for t in made]


@pytest.mark.parametrize("function", models.FUNCTIONS)
@pytest.mark.parametrize("grad", [False, True])
def test_functions(function, grad):
    compiled = weft.compile(function)
    for k, shape in enumerate(SHAPES):
        expected = outcome(function, given(shape, grad, k, strided=k == 5))
        assert outcome(compiled, given(shape, grad, k, strided=k == 5)) == expected


def test_results_in_inference_mode():
    compiled = weft.compile(models.views)
    for k in range(4):
        x, y = given((3, 6), False, k)
        with weft.inference_mode():
            pairs = zip(flat(models.views(x, y)), flat(compiled(x, y)), strict=True)
        for expected, got in pairs:
            assert (bits(got), got.is_inference()) == (bits(expected), expected.is_inference())


def state(module):
    grads = {n: Gradient(p.grad) for n, p in module.named_parameters()}
    return {k: bits(v) for k, v in module.state_dict().items()}, grads, getattr(module, "calls", 0)


CHANGES = {
    "nothing": lambda m, t: None,
    "mode": lambda m, t: m.train(t % 2 == 0),
    "weights in place": lambda m, t: [p.data.mul_(0.9) for p in m.parameters()],
    "a weight replaced": lambda m, t: replace(m, t),
    "frozen": lambda m, t: [p.requires_grad_(t % 3 != 0) for p in m.parameters()],
    "a number": lambda m, t: setattr(m, "factor", 0.5 + t // 4),
    "a flag": lambda m, t: setattr(m, "residual", t // 3 % 2 == 0),
    "a hook": lambda m, t: hook(m, t),
    "a method": lambda m, t: method(m, t),
}  # fmt: skip


def replace(module, t):
    name, parameter = next(iter(module.named_parameters()))
    *path, last = name.split(".")
    holder = module
    for part in path:
        holder = getattr(holder, part)
    if t % 3 == 2:
        setattr(holder, last, weft.nn.Parameter(parameter.detach() * 0.5 + 0.1))


def hook(module, t):
    inner = list(module.modules())[-1]
    if t == 3:
        module.kept_handle = inner.register_forward_hook(lambda m, a, out: out * 2)
    if t == 6:
        module.kept_handle.remove()


def method(module, t):
    if t == 3:
        whole = type(module).forward
        module.forward = lambda x: whole(module, x) * 3
    if t == 6:
        del module.forward


@pytest.mark.parametrize("make", models.MODULES)
@pytest.mark.parametrize("change", CHANGES)
def test_modules(make, change):
    weft.manual_seed(1)
    eager = make()
    other = copy.deepcopy(eager)
    compiled = weft.compile(other)
    for t, shape in enumerate([*SHAPES, *SHAPES]):
        for module in (eager, other):
            CHANGES[change](module, t)
        grad = t % 5 != 4
        with weft.set_grad_enabled(grad):
            expected = outcome(eager, given(shape, False, t)[:1])
            assert outcome(compiled, given(shape, False, t)[:1]) == expected, t
        assert state(other) == state(eager), t
        for module in (eager, other):
            module.zero_grad()


needs_programs = pytest.mark.skipif(
    os.environ.get("WEFT_COMPILE") == "0", reason="nothing is compiled with WEFT_COMPILE=0"
)


def runs(compiled):
    return sum(place.runs for f in compiled.explain().compiled for place in f.places)


@needs_programs
@pytest.mark.parametrize(
    "function",
    [models.pointwise, models.several_results, models.views, models.starred, models.random_numbers],
)
def test_plans_run(function):
    compiled = weft.compile(function)
    x, y = given((3, 6), False, 0)
    for _ in range(5):
        compiled(x, y)
    assert runs(compiled) >= 3
    assert "calls, up to" in str(compiled.explain())


@needs_programs
def test_a_model_goes_with_what_was_compiled_of_it():
    model = models.Perceptron()
    gone = weakref.ref(model)
    compiled = weft.compile(model)
    for _ in range(4):
        compiled(weft.ones(3, 6))
    assert runs(compiled) >= 2
    del model, compiled
    gc.collect()
    assert gone() is None


def test_a_model_compiled_in_place_goes_by_the_collector():
    # what it holds, its stretches hold: a cycle that nobody could see
    model = models.Perceptron()
    gone = weakref.ref(model)
    model.compile()
    for _ in range(4):
        model(weft.ones(3, 6))
    del model
    gc.collect()
    assert gone() is None


@needs_programs
def test_ctrl_c_while_a_stretch_is_traced():
    # an error that ends a trace comes again where the program itself runs on; a signal does not
    calls = 0

    def presses(x):
        nonlocal calls
        calls += 1
        if calls == 2:
            signal.raise_signal(signal.SIGINT)
        return x + 1

    presses.__module__ = "weft.nn.functional"  # a trace calls it
    compiled = weft.compile(lambda x: presses(x * 2) * 3)
    compiled(weft.ones(1))
    with pytest.raises(KeyboardInterrupt):
        compiled(weft.ones(1))
    assert compiled(weft.ones(1)).item() == 9


@needs_programs
def test_traces_that_do_not_pay_come_to_an_end():
    """A Module that each call makes anew: the layers of a slice of a ModuleList."""
    layers = weft.nn.ModuleList([weft.nn.Linear(6, 6) for _ in range(3)])

    def run(x):
        for layer in layers[:2]:
            x = layer(x).relu() + x
            if x.sum() > 1e9:
                break
        return x

    compiled, x = weft.compile(run), weft.ones(3, 6)
    most = 0
    for _ in range(300):
        assert bits(compiled(x)) == bits(run(x))
        places = [place for f in compiled.explain().compiled for place in f.places]
        most = max(most, *(len(place.steps) for place in places))
    assert most <= 9
    assert runs(compiled) > 300


def warns(x, y):
    z = F.mse_loss(x, y[:, :1]) * 2
    return z + F.l1_loss(x, y[:1]) + 1


def test_warnings_are_given_once_at_the_line():
    # a trace gave them once more, and plans never again
    def seen(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(*given((3, 6), False, 0))
        return [(w.filename, w.lineno, str(w.message)) for w in caught]

    compiled = weft.compile(warns)
    expected = seen(warns)
    assert len(expected) == 2
    for _ in range(4):
        assert seen(compiled) == expected


def test_results_print_as_eagers():
    def f(x, y):
        return x / y, (x * 2).tanh().sum(), x @ y.T, (x + 1).softmax(-1).T

    compiled = weft.compile(f)
    for k in range(4):
        x, y = given((3, 6), True, k)
        assert repr(compiled(x, y)) == repr(f(x, y))


def test_anomaly_mode_shows_the_frames_of_programs():
    def inner(x):
        return (x - 1e9).sqrt()

    def outer(x):
        return inner(x * 2).sum()

    def told(call):
        x = weft.ones(3, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught, weft.autograd.detect_anomaly():
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError, match="nan values"):
                call(x).backward()
        text = next(str(w.message) for w in caught if "Traceback" in str(w.message))
        return [line for line in text.splitlines() if "in inner" in line or "in outer" in line]

    compiled = weft.compile(outer)
    assert len(told(outer)) == 2
    for _ in range(3 if sys.version_info < (3, 12) else 0):
        assert told(compiled) == told(outer)


def counted(n):
    total = 0
    while n > 0:
        n, total = n - 1, total + n % 3
    return total


@needs_programs
def test_what_gains_nothing_is_left_to_python():
    def mixed(x, n):
        return ((x * counted(n)).tanh() + 1).sigmoid() * 2 - x

    compiled, alone = weft.compile(mixed), weft.compile(counted)
    for k in range(400):
        assert compiled(weft.ones(2), k % 7).tolist() == mixed(weft.ones(2), k % 7).tolist()
        assert alone(k) == counted(k)
    (place,) = [p for f in compiled.explain().compiled for p in f.places if p.runs]
    before = place.runs
    compiled(weft.ones(2), 3)
    assert sum(p.runs for f in compiled.explain().compiled for p in f.places) > before
    assert "left to Python, as it gained nothing" in str(alone.explain())
    assert alone.explain().compiled[0].calls > 100


def two_heads(x, y):
    return (x * 2).tanh(), (y.exp() + x.detach()).sin()


@pytest.mark.parametrize("used", [0, 1])
def test_hooks_run_where_a_pass_comes_to_tensors(used):
    # a stretch is one node: what is behind the other head got None for a gradient
    def log_of(call):
        x, y = given((3, 6), True, 0)
        heads, log = call(x, y), []
        for k, head in enumerate(heads):
            head.retain_grad()
            head.register_hook(lambda g, k=k: log.append((k, Gradient(g))))
        for name, t in (("x", x), ("y", y)):
            t.register_hook(lambda g, name=name: log.append((name, Gradient(g))))
            t.register_post_accumulate_grad_hook(lambda t, name=name: log.append(name))
        heads[used].sum().backward()
        return log, [Gradient(t.grad) for t in (x, y, *heads)]

    compiled = weft.compile(two_heads)
    expected = log_of(two_heads)
    assert len(expected[0]) == 3
    for _ in range(4):
        assert log_of(compiled) == expected


def test_a_second_pass_raises_where_numbers_were_saved():
    compiled = weft.compile(lambda x: (x * 2).unbind())
    for _ in range(4):
        out = compiled(weft.ones(2, 3, requires_grad=True))[0].sum()
        out.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            out.backward()


def test_a_training_run_is_eager_to_the_bit():
    losses = []
    for compile in (lambda m: m, weft.compile):
        weft.manual_seed(3)
        model = models.Deep()
        run = compile(model)
        optimizer = weft.optim.Adam(model.parameters(), lr=1e-2)
        x, y = weft.randn(8, 6), weft.randn(8, 6)
        losses.append([])
        for _ in range(20):
            optimizer.zero_grad()
            loss = (run(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1]


def test_results_of_one_run_do_not_change_with_the_next():
    compiled = weft.compile(models.several_results)
    x, y = given((3, 6), False, 0)
    for _ in range(3):
        first = compiled(x, y)
    kept = bits(first[0]), bits(first[3][0])
    second = compiled(x + 1, y)
    first[3].append(1)
    second[0].zero_()
    assert (bits(first[0]), bits(first[3][0])) == kept
    assert len(compiled(x, y)[3]) == 2


def test_hooks_and_retained_gradients_of_results():
    seen = {}
    for name, call in (("eager", models.result_used_further),
                       ("compiled", weft.compile(models.result_used_further))):  # fmt: skip
        for _ in range(4):
            x, y = given((3, 6), True, 0)
            z, s = call(x, y)
            z.retain_grad()
            got = []
            z.register_hook(got.append)
            (s + z.sum()).backward()
            seen[name] = [Gradient(t) for t in (z.grad, *got, x.grad, y.grad)]
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                s.backward()
    assert seen["eager"] == seen["compiled"]


def test_an_input_that_was_written_is_noticed_in_backward():
    compiled = weft.compile(models.several_results)
    for _ in range(4):
        x, y = given((3, 6), True, 0)
        w = x * 1
        out = compiled(w, y)[0].sum()
        with weft.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_gradients_of_gradients():
    values = []
    for call in (models.pointwise, weft.compile(models.pointwise)):
        for _ in range(4):
            x, y = given((3, 6), True, 0)
            (g,) = weft.autograd.grad(call(x, y).sum(), x, create_graph=True)
            g.square().sum().backward()
            last = Gradient(g), Gradient(x.grad), Gradient(y.grad)
        values.append(last)
    assert values[0] == values[1]


def places_that_ran(compiled):
    return [p for f in compiled.explain().compiled for p in f.places if p.runs]


@needs_programs
@pytest.mark.parametrize("grad", [True, False])
def test_what_scopes_of_grad_hold_is_part_of_a_stretch(grad):
    """A `with` ended a stretch: there were three of what is one."""
    f = weft.compile(models.no_grad_inside)
    for k in range(4):
        f(*given((3, 6), grad, k))
    assert [p.runs for p in places_that_ran(f)] == [3]


@needs_programs
@pytest.mark.parametrize("grad", [True, False])
def test_writes_over_its_own_values_are_part_of_a_stretch(grad):
    f = weft.compile(models.writes_over_its_own)
    for k in range(4):
        f(*given((3, 6), grad, k))
    assert [p.runs for p in places_that_ran(f)] == [3]


CELLS = """
import stretch_models as models, weft
for kind in "RNNCell", "GRUCell", "LSTMCell":
    for grad in True, False:
        cell, f = getattr(weft.nn, kind)(6, 6), weft.compile(models.twice)
        with weft.set_grad_enabled(grad):
            for _ in range(4):
                f(cell, weft.randn(3, 6))
        print([p.runs for g in f.explain().compiled for p in g.places if p.runs])
"""


@needs_programs
def test_a_cell_is_part_of_its_callers_stretch():
    """It asked for the name of its class, and unpacked a Size; both ended stretches.

    A process of its own: what other calls came to may have left a cell's functions to Python."""
    command = [sys.executable, "-c", CELLS]
    run = subprocess.run(command, capture_output=True, text=True, cwd=os.path.dirname(__file__))
    assert run.stdout == "[3]\n" * 6, run.stderr


def overwrites_what_backward_reads(x):
    z = (x * 2).exp()
    z.add_(1)
    return z * 2


def test_backward_raises_where_what_it_reads_was_overwritten():
    compiled = weft.compile(overwrites_what_backward_reads)
    for _ in range(4):
        for call in (overwrites_what_backward_reads, compiled):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                call(weft.ones(3, requires_grad=True)).sum().backward()


@needs_programs
def test_a_stretch_ends_in_the_mode_in_which_it_begins():
    """Before a scope that holds a value that is read, and before one that turns grad mode on."""
    f = weft.compile(models.scope_left_by_a_read)
    for k in range(6):
        x, y = given((3, 6), True, k)
        out = f(x, y)
        assert weft.is_grad_enabled() and out.requires_grad
    assert len(places_that_ran(f)) >= 2
    f = weft.compile(models.grad_off_and_on)
    for k in range(6):
        x, y = given((3, 6), True, k)
        with weft.no_grad():
            out = f(x, y)
            assert not weft.is_grad_enabled()
            assert bits(out) == bits(models.grad_off_and_on(x, y)) and not out.requires_grad


def test_a_call_of_a_new_shape_is_left_to_python():
    """What runs by plan as a whole met each new shape more slowly than without compile."""

    def f(x, *more, scale=2.0, **named):
        y = (x * scale + 1).tanh()
        for other in more:
            y = y + other
        return y + named["last"]

    compiled = weft.compile(f)
    for n in (2, 2, 2, 3, 4, 5, 3, 3):
        a, b = weft.randn(n), weft.randn(n)
        for given in ((a, b), (a,)):
            expected = f(*given, scale=3.0, last=a)
            assert bits(compiled(*given, scale=3.0, last=a)) == bits(expected)
    with pytest.raises(KeyError) as raised:
        compiled(weft.randn(9))
    assert [e.name for e in traceback.extract_tb(raised.value.__traceback__)][1:] == ["f"]


def test_settings_are_no_part_of_a_stretch():
    """A stretch went over `set_default_dtype`, which then was called while it was traced alone."""

    def f(x):
        weft.set_default_dtype(weft.float64)
        y = (x * 2 + 1).sum()
        positive = float(y) > 0
        made = weft.ones(2) if positive else None
        weft.set_default_dtype(weft.float32)
        return made.dtype, weft.ones(1).dtype

    compiled = weft.compile(f)
    for _ in range(4):
        assert compiled(weft.ones(3)) == (weft.float64, weft.float32)


def asks_for_no_gradient(x):
    h = (x * 3).sin()
    h.requires_grad_(False)
    return h


def test_an_error_about_a_result_names_the_call_that_made_it():
    compiled = weft.compile(asks_for_no_gradient)
    for _ in range(4):
        with pytest.raises(RuntimeError, match="got one made by SinBackward0"):
            compiled(weft.ones(3, requires_grad=True))


def part_is_written(x, w):
    h = x * 1
    h[:].mul_(w)
    return h


@pytest.mark.parametrize("way", [lambda f: f, weft.compile])
def test_versions_of_gradients_do_not_tell_how_they_were_summed(way):
    """Eager's counted what was added on the way, a stretch's did not."""
    layer = weft.nn.Linear(3, 3)
    functions = [
        lambda x, w: (x * w).tanh() + x,
        lambda x, w: (x.exp() + x.sin() + x.cos()) * w,
        lambda x, w: x[0] + x[1] + w,
        lambda x, w: layer(layer(x).tanh()) * w,
        part_is_written,
    ]
    for f in map(way, functions):
        for _ in range(4):
            x, w = (weft.randn(3, 3, requires_grad=True) for _ in range(2))
            layer.zero_grad()
            for passes in range(2):
                f(x, w).sum().backward()
                found = [p.grad for p in (x, w, *layer.parameters())]
                assert {g._version for g in found if g is not None} == {passes}


def asks_which_are_one(a, b, c, d, e, f, g, h):
    kept = [a]
    kept.append(b)
    kept.extend([c, d, e, f])
    kept += [g, h]
    total = kept[0] * 2
    for k in kept:
        total = total + k.tanh()
    return total, a is b, a is h, g is h, len({a, b, c, d, e, f, g, h})


def test_which_of_many_tensors_are_one_may_change_between_calls():
    compiled = weft.compile(asks_which_are_one)
    ones = [(), (0, 1), (0, 7), (), (6, 7), (2, 5), (0, 1)]
    for same in [pair for pair in ones for _ in range(3)]:
        ts = [weft.randn(3) for _ in range(8)]
        if same:
            ts[same[1]] = ts[same[0]]
        ours, theirs = compiled(*ts), asks_which_are_one(*ts)
        assert ours[1:] == theirs[1:] and bits(ours[0]) == bits(theirs[0])


def looks_up(x, y):
    d = {x: 1}
    return (x * 2 + y).tanh() + d.get(y, 5)


def makes_keys(x, y):
    a, d = (x * 2 + y).tanh(), {}
    d[x] = 1
    d[y] = 2
    return a * len(d) + len({x, y})


def finds_among_keys(x, y):
    a, d = (x * 2 + y).tanh(), {x: 3}
    return a * (7 if y in d else 2) + (1 if y in {x} else 0)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("f", [looks_up, makes_keys, finds_among_keys])
def test_keys_may_be_one_tensor_or_two(f, first):
    """What was traced for two tensors as keys ran for one that was given twice, and the reverse."""
    compiled = weft.compile(f)
    for same in [first] * 4 + [not first] * 4 + [first] * 4:
        x = weft.randn(3)
        y = x if same else weft.randn(3)
        assert bits(compiled(x, y)) == bits(f(x, y))


def test_an_argument_that_was_unbound_before_an_error():
    """Telling of a failed Module's arguments crashed where `del` had unbound one but the last."""

    class Frees(nn.Module):
        def forward(self, x, mask=None):
            h = x * 2
            del x
            raise ValueError(f"no {h.shape}")

    compiled = weft.compile(Frees())
    for _ in range(4):
        with pytest.raises(ValueError, match="no weft.Size|no torch.Size"):
            compiled(weft.ones(3))


DEEP = """
import sys, threading
import weft
sys.setrecursionlimit(40000)
def to(x, k):
    return [x] if k == 0 else [*to(x * 0.5, k - 1), x]
to = weft.compile(to)
def go():
    for _ in range(3):
        try:
            print(len(to(weft.ones(2), 200)), len(to(weft.ones(2), 30000)))
        except RecursionError as error:
            print(error)
go()
threading.stack_size(1 << 20)
thread = threading.Thread(target=go)
thread.start()
thread.join()
"""


def test_the_end_of_the_stack_is_a_recursion_error():
    """Calls of a compiled function by Python, which take C stack, crashed at a raised limit."""
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 6, done.stderr
    assert all("recursion depth exceeded" in line for line in lines[3:])


class Called(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x)


def notes_of(call, *args):
    with pytest.raises((TypeError, RuntimeError)) as caught:
        call(*args)
    return [note.partition(" at ")[0] for note in getattr(caught.value, "__notes__", ())]


@pytest.mark.parametrize("args", [(), (1, 2), ("a",), (weft.ones(5),)], ids=repr)
def test_what_errors_tell_of_modules_is_eagers(args):
    """What compile() made was told too, as a layer of the package and as part of the path."""
    model = Called()
    compiled = weft.compile(model)
    for _ in range(3):
        assert notes_of(compiled, *args) == notes_of(model, *args)


def test_a_forward_of_ones_own_on_a_layer_is_not_the_packages():
    layer = nn.Linear(3, 2)
    layer.forward = lambda x: x + 1
    assert notes_of(layer) == []
