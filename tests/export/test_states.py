"""What a loaded program holds: modes, attributes it writes, buffers, names of shared tensors."""

import copy
import io
import pickle

import pytest

import weft
from weft import nn


def loaded(module):
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(module), file)
    file.seek(0)
    return weft.jit.load(file)


COPIES = {
    "saved": loaded,
    "saved twice": lambda g: loaded(loaded(g)),
    "deepcopy": copy.deepcopy,
    "pickle": lambda g: pickle.loads(pickle.dumps(g)),
    "converted": lambda g: g.double().float(),
}


class Counts(nn.Module):
    """Writes a number, a list, a buffer and a buffer that is None at first."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(2, 2), nn.Linear(2, 2)
        self.head.weight = self.body.weight
        self.again = self.body
        self.register_buffer("total", weft.zeros(2))
        self.register_buffer("last", None)
        self.register_buffer("scale", weft.ones(2), persistent=False)
        self.drop = nn.Dropout(0.5)
        self.calls, self.seen, self.hidden = 0, [], weft.zeros(2)

    def forward(self, x):
        self.calls += 1
        self.seen = [*self.seen, (self.calls, 0.5)]
        self.total = self.total + x
        self.last = self.total * 2
        self.hidden = self.hidden + 1
        y = self.drop(self.head(self.body(x * self.scale)))
        return y + self.last + self.hidden, self.calls, self.seen


def plain(value):
    return value.tolist() if isinstance(value, weft.Tensor) else value


def state(module):
    return {name: value.tolist() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_a_loaded_program_go_on_where_it_is(way):
    module = Counts().eval()
    program = loaded(module)
    for one in (module, program):
        one.body.weight.requires_grad_(False)
        for _ in range(2):
            one(weft.ones(2))
    copied = COPIES[way](program)
    assert [m.training for m in copied.modules()] == [False] * len([*module.modules()])
    assert not copied.body.weight.requires_grad and copied.body.bias.requires_grad
    assert copied.head.weight is copied.body.weight and copied.again is copied.body
    for _ in range(2):
        assert state(copied) == state(module)
        assert copied.calls == module.calls and copied.seen == module.seen
        found, expected = copied(weft.ones(2)), module(weft.ones(2))
        assert [*map(plain, found)] == [*map(plain, expected)]


def test_a_copy_has_a_state_of_its_own():
    program = loaded(Counts().eval())
    copied = copy.deepcopy(program)
    program(weft.ones(2))
    assert (program.calls, copied.calls) == (1, 0)
    assert program.total.tolist() == [1, 1] and copied.total.tolist() == [0, 0]
    assert copied.last is None and "last" not in copied.state_dict()


def test_states_go_both_ways():
    module = Counts().eval()
    program = loaded(module)
    program(weft.ones(2))
    module.last = weft.zeros(2)
    assert module.load_state_dict(program.state_dict()) == program.load_state_dict(
        module.state_dict()
    )
    assert "head.weight" in program.state_dict() and "scale" not in program.state_dict()
    program.total, program.calls = weft.full((2,), 7.0), 41
    assert program(weft.ones(2))[1] == 42 and program.total.tolist() == [8, 8]


def test_each_module_has_the_mode_that_it_was_saved_in():
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(), nn.ReLU())).eval()
    module[1].train()
    assert [m.training for m in loaded(module).modules()] == [m.training for m in module.modules()]


def test_the_mode_of_a_module_in_a_loaded_one_reaches_the_program():
    """`train` and `eval` did, `.training = ` did not."""
    program, x = loaded(nn.Sequential(nn.Dropout(1.0), nn.ReLU()).eval()), weft.ones(3)
    inner = program.get_submodule("0")
    for mode, left in ((True, 0), (False, 3)):
        inner.training = mode
        assert program(x).sum() == left and not program.training
    assert type(program).__name__ == "RecursiveScriptModule"


def test_an_exported_program_has_all_names_of_a_tensor():
    module = Counts().eval()
    exported = weft.export.export(module, (weft.ones(2),))
    assert sorted(exported.state_dict) == sorted(module.state_dict())
    file = io.BytesIO()
    weft.export.save(exported, file)
    file.seek(0)
    again = weft.export.load(file)
    assert sorted(again.module().state_dict()) == sorted(module.state_dict())
    module.load_state_dict(again.state_dict)


class Point:
    def __init__(self, x):
        self.x = x


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        self.kept = Point(x)
        return self.kept.x


def test_an_attribute_that_no_file_has_is_named():
    program = loaded(Keeps())
    program(weft.ones(1))
    with pytest.raises(weft.export.NotExportable, match=r"Keeps\.kept, which the program writes"):
        loaded(program)


class Lazy(nn.Module):
    def forward(self, x):
        if not hasattr(self, "cache"):
            self.cache = x.sum()
        return self.cache


class Default(nn.Module):
    def forward(self, x):
        self.cache = getattr(self, "cache", x * 10) + x.sum()
        return self.cache


class Late(nn.Module):
    def forward(self, x):
        if x.sum() > 1:
            self.cache = x.sum()
        return self.cache


@pytest.mark.parametrize("kind", [Lazy, Default])
def test_attributes_that_a_program_is_the_first_to_write(kind):
    module = kind()
    program = loaded(module)
    assert not hasattr(program, "cache")
    for x in (weft.ones(2), weft.zeros(2), weft.ones(2)):
        program = loaded(program)
        assert program(x).tolist() == module(x).tolist() == program.cache.tolist()


def test_an_attribute_that_is_read_before_it_is_written():
    program = loaded(Late())
    with pytest.raises(AttributeError, match="cache"):
        program(weft.zeros(2))
    assert program(weft.ones(2)).tolist() == program(weft.zeros(2)).tolist() == 2


def test_a_loaded_program_is_exported_as_it_is_now():
    program = loaded(Counts())
    program.eval()
    expected = copy.deepcopy(program)
    program(weft.ones(2)), expected(weft.ones(2))
    run = weft.export.export(program, (weft.ones(2),)).module()
    assert [*map(plain, run(weft.ones(2)))] == [*map(plain, expected(weft.ones(2)))]
    with pytest.raises(AssertionError, match="Guard failed"):
        run(weft.ones(3))


class Head(nn.Module):
    """Calls a program twice, in two ways, and counts too."""

    def __init__(self, body):
        super().__init__()
        self.body, self.head, self.calls = body, nn.Linear(2, 2), 0

    def forward(self, x):
        self.calls += 1
        return self.head(self.body(x)[0]), self.body(x=x), self.calls


def test_a_head_on_a_loaded_program_is_saved_with_it():
    """It was refused. The program's attributes, buffers and modes stay its own."""
    weft.manual_seed(0)
    head = Head(loaded(Counts())).eval()
    head(weft.ones(2))
    again = loaded(head)
    assert state(again.body) == state(head.body) and again.body.calls == 2
    assert sorted(again.state_dict()) == sorted(head.state_dict())
    for mode in (False, True):
        head.train(mode), again.train(mode)
        weft.manual_seed(3)
        expected = head(weft.ones(2))
        weft.manual_seed(3)
        found = again(weft.ones(2))
        assert weft.equal(found[0], expected[0]) and found[2] == expected[2]
        assert (again.body.calls, again.calls) == (head.body.calls, head.calls)
        assert again.body.total.tolist() == head.body.total.tolist()
    found[0].sum().backward()
    assert again.body.body.weight.grad is not None
    assert loaded(nn.Sequential(again)).get_submodule("0.body").calls == again.body.calls
    run = weft.export.export(head.eval(), (weft.ones(2),)).module()
    assert weft.equal(run(weft.ones(2))[0], head(weft.ones(2))[0])


def test_a_loaded_program_of_an_older_weft_is_no_part(monkeypatch):
    program = loaded(nn.Sequential(nn.Linear(2, 2)))
    monkeypatch.setattr("weft.closing.known.version_of", lambda name: 7)
    with pytest.raises(weft.export.NotExportable, match="as an older weft had it"):
        loaded(nn.Sequential(program))


def test_hooks_of_a_scripted_module_run_and_are_not_dropped_when_it_is_saved():
    """Those of the root were dropped, in calls and in files."""
    module = nn.Linear(2, 2)
    module.register_forward_hook(lambda module, args, out: out * 0 + 7)
    assert weft.jit.script(module)(weft.ones(2)).tolist() == [7, 7]
    for root in (module, nn.Sequential(module)):
        with pytest.raises(weft.export.NotExportable, match=r"a Module with hooks \(Linear\)"):
            loaded(root)


def test_vmap_is_refused_by_its_name():
    """The line was one of functools."""
    with pytest.raises(weft.export.NotExportable, match=r"vmap\(\), which maps"):
        loaded(Maps())


class Maps(nn.Module):
    def forward(self, x):
        return weft.vmap(weft.sin)(x)


def test_what_a_loaded_program_is_not():
    program = loaded(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    around = nn.Sequential(program, nn.Linear(2, 2))
    assert weft.jit.script(around)(weft.ones(2)).shape == (2,)
    for wrong in (lambda: program[0], lambda: [*program], lambda: program.get_submodule("0")(1)):
        with pytest.raises(NotImplementedError, match="Hint"):
            wrong()
    assert bool(program)


def test_onnx_has_a_loaded_program_as_it_is_now():
    pytest.importorskip("onnx")
    program = loaded(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    made = [str(weft.onnx.export(program.train(mode), (weft.ones(2),))) for mode in (True, False)]
    assert ["Dropout <" in text or "= Dropout (" in text for text in made] == [True, False]
