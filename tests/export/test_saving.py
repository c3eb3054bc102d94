"""Programs in files: what jit.save and export.save write runs without its source."""

import _thread
import copy
import io
import pickle
import random
import re
import subprocess
import sys
import threading
import traceback

import closing_programs as p
import pytest
from saved_models import CASES
from test_closing import NETS, NOT_YET, outcome, zoo

import weft
from weft import nn

R = weft.randn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout(0.5)
        self.register_buffer("shift", weft.ones(3))
        self.scale, self.calls = 3, 0

    def forward(self, x, times: int = 1):
        self.calls += 1
        for _ in range(times):
            for layer in self.layers:
                x = layer(x).relu()
        if x.sum() > 1:
            return self.drop(self.norm(x)) * self.scale, self.calls
        return x + self.shift, self.calls

    @weft.jit.export
    def encode(self, x):
        return self.layers[0](x)


def saved(module, **extra):
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(module), file, **extra)
    file.seek(0)
    return file


def loaded(module):
    return weft.jit.load(saved(module))


def test_a_saved_module_is_the_module():
    module = Net()
    program = loaded(copy.deepcopy(module))
    for mode in (True, False, True):
        module.train(mode)
        program.train(mode)
        for x in (R(4, 3), R(4, 3).abs() * 9, weft.zeros(0, 3)):
            assert outcome(program, (x, 2)) == outcome(module, (x, 2))
    assert outcome(program.encode, (x,)) == outcome(module.encode, (x,))
    assert {k: v.tolist() for k, v in program.state_dict().items()} == {
        k: v.tolist() for k, v in module.state_dict().items()
    }
    assert [type(m).__name__ for m in program.modules()][1:] == 5 * ["RecursiveScriptModule"] + []
    assert isinstance(program, weft.jit.ScriptModule) and program.original_name == "Net"
    assert "def forward" in program.code and "Linear.forward" in program.graph


def test_a_loaded_module_trains():
    module = Net()
    program = loaded(module)
    results = []
    for one in (module, program):
        optimizer = weft.optim.SGD(one.parameters(), lr=0.1)
        weft.manual_seed(0)
        for _ in range(3):
            optimizer.zero_grad()
            one(weft.ones(4, 3))[0].square().sum().backward()
            optimizer.step()
        results.append([q.tolist() for q in one.parameters()])
    assert results[0] == results[1]


def test_dtypes_states_and_copies_of_a_loaded_module():
    module = Net().eval()
    program = loaded(module).eval()
    x = R(4, 3)
    twin = copy.deepcopy(program).double()
    assert twin(x.double())[0].dtype == weft.float64 and program(x)[0].dtype == weft.float32
    other = Net().eval()
    program.load_state_dict(other.state_dict())
    other.calls = 1
    assert outcome(program, (x,)) == outcome(other, (x,))
    again = pickle.loads(pickle.dumps(program))
    assert again(x)[0].tolist() == program(x)[0].tolist()
    assert loaded_again(program)(x)[0].tolist() == program(x)[0].tolist()


def loaded_again(program):
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    return weft.jit.load(file)


def test_submodules_have_modes_of_their_own():
    module = Net()
    program = loaded(module)
    for one in (module, program):
        one.train()
        one.norm.eval()
    x = R(4, 3).abs() * 9
    assert outcome(program, (x,)) == outcome(module, (x,))


@pytest.mark.parametrize("name", NETS)
def test_layers_from_files(name):
    make, args = NETS[name]
    weft.manual_seed(0)
    layer = make()
    program = loaded(copy.deepcopy(layer))
    for mode in (True, False):
        program.train(mode)
        layer.train(mode)
        assert outcome(program, args) == outcome(layer, args)


@pytest.mark.parametrize("case", zoo.CASES[:26], ids=lambda case: case.name)
def test_models_from_files(case):
    if case.needs:
        pytest.importorskip(case.needs)
    if case.name in NOT_YET:
        pytest.skip(NOT_YET[case.name])
    made = case.make(8)
    file = io.BytesIO()
    weft.jit.save(made.loss, file)
    file.seek(0)
    program = weft.jit.load(file)
    for args in made.examples[:3]:
        assert outcome(program, args) == outcome(made.loss, args)


def name_of(program):
    return program.__name__ if hasattr(program, "__name__") else type(program).__name__


@pytest.mark.parametrize("program, calls", CASES, ids=[name_of(program) for program, _ in CASES])
def test_programs_as_people_write_them(program, calls):
    module = isinstance(program, nn.Module)
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(copy.deepcopy(program)) if module else program, file)
    file.seek(0)
    twin = weft.jit.load(file)
    if module:
        twin.train(program.training)
    for args in calls * 3:  # the second time plans are made
        assert str(outcome(twin, args)) == str(outcome(program, args)), args


SOURCE = """
import weft as torch

class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x, depth: int):
        if depth == 0:
            return x
        return self.forward(x * self.w, depth - 1) if x.sum() < 50 else x
"""


def test_no_source_is_needed(tmp_path):
    (tmp_path / "model_source.py").write_text(SOURCE)
    make = "import weft, model_source as m; weft.jit.script(m.Gate()).save('gate.weft')"
    subprocess.run([sys.executable, "-c", make], cwd=tmp_path, check=True)
    (tmp_path / "model_source.py").unlink()
    run = "import weft; print(weft.jit.load('gate.weft')(weft.ones(2), 3).tolist())"
    out = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, check=True, capture_output=True)
    assert out.stdout.split() == b"[8.0, 27.0]".split()


def test_a_program_of_a_path_trains_in_pages_of_its_own(tmp_path):
    path = tmp_path / "net.weft"
    path.write_bytes(saved(Net()).getvalue())
    before = path.read_bytes()
    program, other = weft.jit.load(path), weft.jit.load(path)
    x = R(4, 3)
    first = other(x)[0].tolist()
    with weft.no_grad():
        for q in program.parameters():
            q.add_(1)
    assert path.read_bytes() == before and other.eval()(x)[0].shape == (4, 3)
    assert first != program(x)[0].tolist()
    program.save(path)  # over the file that it was loaded from
    assert (
        weft.jit.load(path)
        .layers.get_submodule("0")
        .weight.equal(program.layers.get_submodule("0").weight)
    )
    assert not other.layers.get_submodule("0").weight.equal(
        program.layers.get_submodule("0").weight
    )


def test_extra_files():
    files = {"notes.txt": "", "none": ""}
    weft.jit.load(saved(Net(), _extra_files={"notes.txt": "hello", "b": b"\xff"}), None, files)
    assert files == {"notes.txt": b"hello", "none": b""}


def test_wrong_calls_of_loaded_programs():
    program = loaded(Net().eval())
    for args, kwargs, kind in [
        ((), {}, TypeError),
        ((R(4, 3), 1, 2), {}, TypeError),
        ((R(4, 3),), {"steps": 1}, TypeError),
        ((R(4, 4),), {}, RuntimeError),
        ((R(4, 3).long(),), {}, RuntimeError),
        (("x",), {}, TypeError),
        ((object(),), {}, TypeError),
    ]:
        with pytest.raises(kind):
            program(*args, **kwargs)
    assert program(R(4, 3))[0].shape == (4, 3)


class Endless(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x, n: int):
        while n > 0:
            x, n = self.lin(x), n - 1
        return x

    @weft.jit.export
    def deep(self, n: int):
        return 0 if n == 0 else 1 + self.deep(n - 1)

    @weft.jit.export
    def total(self, tree):
        return sum([self.total(one) for one in tree]) if isinstance(tree, list) else tree


def test_what_ends_a_call_leaves_the_program_as_it_was():
    program, x = loaded(Endless()), R(2)
    before = program(x, 3).tolist()
    cycle: list = []
    cycle.append(cycle)
    nested = 1
    for _ in range(100_000):
        nested = [nested]
    for call, kind in [
        (lambda: program.deep(10**6), RecursionError),
        (lambda: program.total(cycle), RecursionError),
        (lambda: program.total(nested), RecursionError),
        (lambda: program(x, 2**70), OverflowError),
        (lambda: program(x.double(), 1), RuntimeError),
        (lambda: program(x, "many"), TypeError),
    ]:
        with pytest.raises(kind):
            call()
        assert program(x, 3).tolist() == before
    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        program(x, 10**12)
    assert program(x, 3).tolist() == before and program.deep(100) == 100


def test_errors_name_the_line_of_the_source():
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(p.raises), file)
    file.seek(0)
    with pytest.raises(ValueError, match="9 is large") as caught:
        weft.jit.load(file)(9)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    line = p.raises.__code__.co_firstlineno + 3
    assert (last.filename, last.lineno, last.name) == (p.__file__, line, "raises")


def test_files_that_are_no_programs(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        weft.jit.load(tmp_path / "none")
    whole = saved(Net()).getvalue()
    plain = weft.safetensors.save({"w": weft.ones(2)})
    for content in (
        b"",
        b"abc",
        whole[: len(whole) // 2],
        whole[:-1],
        plain,
        whole[:8] + b"x" * 99,
    ):
        with pytest.raises((RuntimeError, ValueError)):
            weft.jit.load(io.BytesIO(content))
    newer = [('"weft":1', '"weft":9'), ('"linear":1', '"linear":7')]
    for old, new in [*newer, ("Tensor.relu", "Tensor.rexu")]:  # within the header's own quotes
        changed = whole.replace(quoted(old), quoted(new))
        assert changed != whole
        with pytest.raises((RuntimeError, ValueError)):
            weft.jit.load(io.BytesIO(changed))


def quoted(text):
    return text.replace('"', '\\"').encode()


def test_what_cannot_be_saved():
    with pytest.raises(TypeError, match="expected a ScriptModule"):
        weft.jit.save(Net(), io.BytesIO())
    with pytest.raises(TypeError, match="got int"):
        weft.jit.save(3, io.BytesIO())
    with pytest.raises(weft.export.NotExportable, match="closing_programs.py"):
        weft.jit.save(weft.jit.script(p.with_numpy), io.BytesIO())


def test_a_folder_that_is_not_there_is_named_as_it_was_written(tmp_path):
    """The error named the hidden file that is renamed at the end."""
    path = tmp_path / "none" / "net.weft"
    program = weft.jit.script(Net())
    for write in (program.save, lambda f: weft.jit.save(program, f)):
        with pytest.raises(RuntimeError, match="Parent directory .*none does not exist") as caught:
            write(path)
        assert str(path) in str(caught.value)
    with pytest.raises(FileNotFoundError) as caught:
        weft.safetensors.save_file({"a": weft.ones(1)}, path)
    assert caught.value.filename == str(path)


def test_a_trace_can_be_saved():
    def f(x):
        return (x * 2).relu() + 1

    traced = weft.jit.trace(f, (R(3),))
    file = io.BytesIO()
    weft.jit.save(traced, file)
    file.seek(0)
    x = R(3)
    assert weft.jit.load(file)(x).tolist() == f(x).tolist()


# ---- torch.export's names


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x, other):
        return weft.cond(x.sum() > 0, lambda a, b: self.lin(a) + b, lambda a, b: a - b, (x, other))


def test_an_exported_program_takes_free_sizes_and_no_others():
    module = Steps()
    batch = weft.export.Dim("batch", max=8)
    example = R(2, 3), R(2, 3)
    made = weft.export.export(
        module, example, dynamic_shapes={"x": {0: batch}, "other": {0: batch}}
    )
    file = io.BytesIO()
    weft.export.save(made, file)
    file.seek(0)
    for program in (made, weft.export.load(file)):
        run = program.module()
        for n in (0, 1, 8):
            x = R(n, 3), R(n, 3)
            assert run(*x).tolist() == module(*x).tolist()
        for wrong in [(R(9, 3), R(9, 3)), (R(2, 3), R(3, 3)), (R(2, 4), R(2, 4)), (R(2, 3), 1)]:
            with pytest.raises(AssertionError, match="Guard failed"):
                run(*wrong)
        with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
            program(*x)
        with pytest.raises(NotImplementedError):
            run.eval()
        assert [n for n, _ in program.named_parameters()] == ["lin.weight", "lin.bias"]


def test_an_exported_loop():
    class Loop(nn.Module):
        def forward(self, x):
            def body(x, n):
                return x / 2, n + 1

            return weft.while_loop(lambda x, n: x.sum() > 1, body, (x, 0))

    run = weft.export.export(Loop(), (R(4),)).module()
    x = weft.ones(4)
    assert run(x)[1] == 2 and run(x)[0].tolist() == [0.25] * 4


def test_sizes_that_follow_from_others_and_bounds_without_a_name():
    class Halves(nn.Module):
        def forward(self, x, *rest, scale):
            return x + rest[0][1::2] * scale, rest[1]

    Dim = weft.export.Dim
    n = Dim("n", min=2, max=8)
    args, words = (R(3), R(7), R(2)), {"scale": R(3)}
    shapes = {"x": {0: n}, "rest": ((2 * n + 1,), {0: Dim.AUTO(max=4)}), "scale": (n,)}
    made = weft.export.export(Halves(), args, words, dynamic_shapes=shapes)
    file = io.BytesIO()
    weft.export.save(made, file)
    file.seek(0)
    for program in (made, weft.export.load(file)):
        assert program.range_constraints == {"n": (2, 8)}
        assert program.graph_signature.user_inputs[0] == "x"
        run = program.module()
        assert run(R(5), R(11), R(4), scale=R(5))[0].shape == (5,)
        for x, y, z, scale in [
            (5, 10, 2, 5),
            (5, 13, 2, 5),
            (9, 19, 2, 9),
            (5, 11, 5, 5),
            (5, 11, 2, 4),
        ]:
            with pytest.raises(AssertionError, match="Guard failed"):
                run(R(x), R(y), R(z), scale=R(scale))
    assert [repr(d) for d in (2 * n + 1, n - 3, (n + 1) * 2)] == ["2*n + 1", "n - 3", "2*n + 2"]


class Anything(weft.nn.Module):
    def forward(self, *a):
        return a[0]


def test_wrong_calls_of_export():
    Dim = weft.export.Dim
    with pytest.raises(NotImplementedError):
        Dim("a") * 0
    with pytest.raises(NotImplementedError):
        Dim("a") + Dim("b")
    example = R(2, 3), R(2, 3)
    for wrong in ({"z": None}, {"x": None}, (None,), (None, None, None)):
        with pytest.raises(RuntimeError, match="expected dynamic_shapes for each argument"):
            weft.export.export(Steps(), example, dynamic_shapes=wrong)
    for wrong in ((Dim.AUTO, None), ((), 3)):
        with pytest.raises(RuntimeError, match="mismatch between the structure of `inputs`"):
            weft.export.export(Steps(), example, dynamic_shapes=wrong)
    with pytest.raises(RuntimeError, match=r"of \*args, a tuple, as a tuple or a list, got {0:"):
        weft.export.export(Anything(), example, dynamic_shapes=({0: Dim.AUTO},))
    for wrong in (({0: 3}, None), ({0: 2 * Dim("a") + 1}, None)):
        with pytest.raises(ValueError, match="expected"):
            weft.export.export(Steps(), example, dynamic_shapes=wrong)
    with pytest.raises(ValueError, match="nn.Module"):
        weft.export.export(lambda x: x, (R(2),))
    with pytest.raises(weft._dynamo.exc.UserError, match="tuple of example"):
        weft.export.export(Steps(), R(2))
    with pytest.raises(ValueError, match="identifier"):
        Dim("a b")
    with pytest.raises(ValueError, match="max of at least min"):
        Dim("a", min=3, max=2)
    with pytest.raises(TypeError, match="expected a Dim"):
        weft.export.export(Steps(), (R(2, 3), R(2, 3)), dynamic_shapes=({0: "a"}, None))
    with pytest.raises(ValueError, match="below 2"):
        weft.export.export(Steps(), (R(2, 3), R(2, 3)), dynamic_shapes=({5: Dim("a")}, None))
    with pytest.raises(ValueError, match="expected a size in"):
        weft.export.export(Steps(), (R(2, 3), R(2, 3)), dynamic_shapes=({0: Dim("a", min=3)}, None))


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_file_is_a_runtime_error(seed):
    """What the file says of Modules that it has not was an AttributeError."""
    file = saved(Net()).getvalue()
    draw, end = random.Random(seed), 8 + int.from_bytes(file[:8], "little")
    tokens = [found.span() for found in re.finditer(rb"[A-Za-z0-9_.]+", file[:end])]
    same = dict[int, list[bytes]]()
    for a, b in tokens:
        same.setdefault(b - a, []).append(file[a:b])
    refused = 0
    for turn in range(250):
        changed = bytearray(file)
        if turn % 2:  # still JSON, mostly
            a, b = draw.choice(tokens)
            changed[a:b] = draw.choice(same[b - a])
        else:
            changed[draw.randrange(8, end)] = draw.randrange(256)
        try:
            weft.jit.load(io.BytesIO(bytes(changed)))
        except (RuntimeError, ValueError):
            refused += 1
    assert refused > 50


def test_parts_of_a_file_that_do_not_fit():
    file = saved(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).getvalue()
    changed = file.replace(b'\\"1\\": true', b'\\"7\\": true')
    assert changed != file
    with pytest.raises(RuntimeError, match="parts do not fit: .*has no attribute `7`"):
        weft.jit.load(io.BytesIO(changed))


def test_lists_that_a_program_is_called_with_are_copies():
    def f(xs, d):
        xs.append(1)
        d["k"] = 2
        return xs

    xs, d = [0], {}
    assert loaded(f)(xs, d) == [0, 1] and xs == [0] and d == {}


def test_an_item_of_what_was_there_is_refused_with_a_way_out():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = {}

        def forward(self, n: int):
            self.seen[n] = n
            return len(self.seen)

    with pytest.raises(weft.export.NotExportable, match="there before.*in a buffer"):
        saved(Cache())


class Several(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = weft.nn.Parameter(weft.tensor([2.0]))

    def forward(self, x):
        return x + self.weight

    def two(self, x):
        return x - self.weight

    def three(self, x):
        return x * self.weight


@pytest.mark.parametrize("names", [("forward", "two"), ("two", "three")])
def test_all_methods_that_were_traced_are_in_a_file(names):
    """Only `forward` was, traced or not."""
    module, x = Several(), weft.ones(1)
    program = weft.jit.trace_module(module, dict.fromkeys(names, x))
    for _ in range(2):
        file = io.BytesIO()
        weft.jit.save(program, file)
        file.seek(0)
        program = weft.jit.load(file)
        for name in names:
            assert weft.equal(getattr(program, name)(x), getattr(module, name)(x))
    assert not hasattr(program, ({"two", "three"} - {*names} or {"other"}).pop())
    if "forward" not in names:
        with pytest.raises(NotImplementedError):
            program(x)


class OwnCall(weft.nn.Module):
    def __call__(self, x):
        return super().__call__(x) * 10

    def forward(self, x):
        return x + 1


def test_the_call_of_a_root_is_what_is_exported_or_saved_of_a_trace():
    """It was `forward` alone."""
    x = weft.ones(2)
    file = io.BytesIO()
    weft.jit.save(weft.jit.trace(OwnCall(), x), file)
    file.seek(0)
    assert weft.jit.load(file)(x).tolist() == [20.0, 20.0]
    assert weft.export.export(OwnCall(), (x,)).module()(x).tolist() == [20.0, 20.0]


@pytest.mark.parametrize("compiled", [weft.compile, weft.jit.script, "in place"])
def test_a_compiled_module_is_what_it_was_made_of(compiled):
    """`weft.compile(module)` was no Module to jit.save, export and onnx.export."""
    net = Net().eval()
    x = R(4, 3)
    if compiled == "in place":
        net.compile()
        made = net
    else:
        made = compiled(net)
    for program in (loaded(made), weft.export.export(made, (x,)).module()):
        assert weft.equal(program(x)[0], net(x)[0])
        assert list(program.state_dict()) == list(net.state_dict())
    if compiled is weft.compile:
        made.register_forward_hook(lambda *_: None)
        with pytest.raises(weft.closing.errors.NotExportable, match="hooks"):
            weft.jit.script(made)
