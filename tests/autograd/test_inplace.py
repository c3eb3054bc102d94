"""In-place writes: versions, views, what the graph makes of them, and what it refuses."""

import pytest

import weft


def both(torch, program):
    """What `program(lib)` returns, as lists, from weft; asserts that torch gives the same."""

    def plain(value):
        if hasattr(value, "tolist"):
            return plain(value.tolist())
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        return float(f"{value:.5g}") if isinstance(value, float) else value

    ours, theirs = plain(program(weft)), plain(program(torch))
    assert ours == theirs
    return ours


# ---- version counters


def test_versions_count_writes_as_in_torch(torch):
    def program(lib):
        x = lib.zeros(4)
        seen = [x._version]
        for write in (
            lambda: x.add_(1),
            lambda: x[1:3].mul_(2),
            lambda: x.view(2, 2).zero_(),
            lambda: x.copy_(x),
            lambda: x.__setitem__(0, 5.0),
            lambda: x.detach().add_(1),
            lambda: x.data.add_(1),
            lambda: x + 1,
            lambda: x.fill_(3),
            lambda: x.t().sub_(1),
            lambda: x.clone().add_(1),
        ):
            write()
            seen.append(x._version)
        with lib.no_grad():
            x.add_(1)
        return [*seen, x._version, x[:2]._version, x.view(2, 2)._version]

    both(torch, program)


def test_views_share_the_counter():
    x = weft.zeros(4)
    a, b = x[:2], x[2:]
    a.add_(1)
    assert (x._version, a._version, b._version) == (1, 1, 1)
    assert x.clone()._version == 0


# ---- gradients through writes

PROGRAMS = {
    "unary": lambda x, y: (x * 1).exp_(),
    "binary": lambda x, y: (x * 1).mul_(y),
    "self": lambda x, y: (lambda a: a.mul_(a.clone()))(x * 1),
    "chain": lambda x, y: (x * 2).add_(y).mul_(3).tanh_(),
    "copy": lambda x, y: (x * 2).copy_(y),
    "broadcast": lambda x, y: (x * 2).add_(y[0]),
    "zero": lambda x, y: (x * 2).zero_() + x,
    "masked_fill": lambda x, y: (x * 2).masked_fill_(x > 2, 0.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_agree_with_torch(torch, name):
    def program(lib):
        x = lib.tensor([[1.0, 2.0, 0.5], [3.0, 4.0, -1.0]], requires_grad=True)
        y = lib.tensor([[5.0, 0.1, 1.5], [0.7, 0.8, 2.5]], requires_grad=True)
        out = PROGRAMS[name](x, y)
        (out * out).sum().backward()
        return [out.detach(), x.grad, y.grad]

    both(torch, program)


def on_row(a, x, y):
    a[0] = y[1]


def on_element(a, x, y):
    a[1, 2] = 7.0


def on_row_view(a, x, y):
    a[0].mul_(y[0])


def on_view_of_view(a, x, y):
    a.view(6)[1:5][::2].mul_(3).add_(y[0, 0])


def on_transposed(a, x, y):
    a.t()[1].exp_()


def on_base_after_view(a, x, y):
    v = a[0]
    a.mul_(2)
    v.mul_(y[0])


def on_two_views(a, x, y):
    v, w = a[0], a.view(6)
    v.mul_(2)
    w.mul_(3)
    v.add_(w[:3].clone() * y[1])


def on_a_slice_of_itself(a, x, y):
    a[:, 1:].add_(a[:, :2].clone() * y[:, :2])


def on_index(a, x, y):
    a[:, 0] = a[:, 1].clone() * a[:, 2].clone()


def on_expanded_source(a, x, y):
    a[:] = y[0]


WRITES = [
    on_row,
    on_element,
    on_row_view,
    on_view_of_view,
    on_transposed,
    on_base_after_view,
    on_two_views,
    on_a_slice_of_itself,
    on_index,
    on_expanded_source,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
def test_writes_through_views_agree_with_torch(torch, write):
    def program(lib):
        x = lib.tensor([[1.0, 2.0, 0.5], [3.0, 4.0, -1.0]], requires_grad=True)
        y = lib.tensor([[5.0, 0.1, 1.5], [0.7, 0.8, 2.5]], requires_grad=True)
        a = x * x
        early = a[1]
        write(a, x, y)
        loss = (a * a).sum() + early.sum() * 3
        loss.backward()
        return [a.detach(), early.detach(), x.grad, 0.0 if y.grad is None else y.grad]

    both(torch, program)


def test_node_names_after_writes(torch):
    def program(lib):
        a = lib.ones(2, 2, requires_grad=True) * 1
        v = a[0]
        names = [v.grad_fn.name()]
        v.mul_(2)
        names += [a.grad_fn.name(), v.grad_fn.name()]
        a.add_(1)
        names += [a.grad_fn.name(), v.grad_fn.name(), a[1].grad_fn.name()]
        return names

    assert both(torch, program)[1].endswith("CopySlices")


def test_write_of_a_tracked_value_into_plain_memory(torch):
    def program(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        out = lib.zeros(3, 2)
        view = out[2]
        before = [out.requires_grad, view.requires_grad]
        out[1] = x * x
        (out * 3).sum().backward()
        return [before, out.requires_grad, view.requires_grad, out.detach(), x.grad]

    both(torch, program)


def test_second_derivatives_through_writes():
    x = weft.tensor([0.5, 1.5, 2.5], dtype=weft.float64, requires_grad=True)

    def function(x):
        a = x * x
        a[1:].mul_(x[:2].sin())
        a.exp_()
        return a[::2] * a[0]

    assert weft.autograd.gradcheck(function, (x,))
    assert weft.autograd.gradgradcheck(function, (x,))


# ---- a saved value that was overwritten


def test_overwritten_value_names_both_lines():
    x = weft.ones(3, requires_grad=True)
    a = x * 2
    b = a.sin()  # the line that saves
    a.add_(1)  # the line that writes
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        b.sum().backward()
    text = str(caught.value)
    assert "b = a.sin()  # the line that saves" in text
    assert "a.add_(1)  # the line that writes" in text
    assert text.index("saves") < text.index("writes")
    assert "version 1" in text and "version 0" in text and "[3]" in text


def test_overwriting_its_own_operand_is_right():
    """PyTorch refuses this one; here the operand is kept as it was."""
    x = weft.tensor([2.0, 3.0], requires_grad=True)
    a = x * 1
    a.mul_(a).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


@pytest.mark.parametrize("write", [
    lambda a: a.view(3).mul_(2), lambda a: a[:1].zero_(), lambda a: a.__setitem__(0, 1.0),
    lambda a: a.detach().add_(1),
], ids=["view", "slice", "setitem", "detach"])  # fmt: skip
def test_every_way_to_write_is_noticed(torch, write):
    for lib in (weft, torch):
        a = lib.ones(3, requires_grad=True) * 2
        b = a.sin()
        write(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            b.sum().backward()


def test_writes_that_do_no_harm_are_allowed(torch):
    def program(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        a = x * 3
        b = a + 1  # saves nothing
        a.mul_(5)
        c = a.exp()  # saves its output
        a.zero_()
        (b + c).sum().backward()
        return [a.detach(), x.grad]

    both(torch, program)


def test_overwritten_output_is_noticed():
    x = weft.ones(2, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*output 0 of Exp"):
        y.sum().backward()


def test_data_is_silent(torch):
    def program(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        a = x * 2
        b = a * a
        a.data.zero_()
        b.sum().backward()
        return [a._version, x.grad]

    assert both(torch, program)[0] == 0


# ---- leaves


def refused(torch, program, text):
    for lib in (weft, torch):
        with pytest.raises(RuntimeError, match=text):
            program(lib)


def test_leaves_are_not_written(torch):
    def leaf(lib):
        return lib.ones(3, requires_grad=True)

    text = "leaf Variable that requires grad"
    for write in (
        lambda x: x.add_(1),
        lambda x: x.zero_(),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.exp_(),
        lambda x: x.copy_(x * 2),
    ):
        refused(torch, lambda lib, w=write: w(leaf(lib)), text)
    for write in (lambda x: x[:2].mul_(2), lambda x: x.view(3)[1:].zero_()):
        refused(
            torch, lambda lib, w=write: w(leaf(lib)), "view of a leaf Variable that requires grad"
        )
    x = leaf(weft)
    with pytest.raises(RuntimeError):
        x.add_(1)
    assert x.tolist() == [1.0, 1.0, 1.0] and x._version == 0


def test_out_is_not_for_the_graph(torch):
    def program(lib):
        x = lib.ones(3, requires_grad=True)
        lib.add(x, x, out=lib.empty(3))

    refused(torch, program, "out=... arguments don't support automatic differentiation")


def test_leaves_are_written_without_recording(torch):
    def program(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        with lib.no_grad():
            x.sub_(0.5)
            x[1] = 7.0
            x.view(2)[:1].mul_(4)
        (x * x).sum().backward()
        return [x.detach(), x.grad, x._version, x.is_leaf, x.requires_grad]

    both(torch, program)


def test_one_of_several_views_is_refused(torch):
    def program(lib):
        a = lib.ones(4, requires_grad=True) * 1
        a.unbind(0)[0].mul_(2)

    refused(torch, program, "(?s)view.*modified.*in.?place")


def test_failed_write_leaves_everything(torch):
    a = weft.ones(2, 2, requires_grad=True) * 2
    fn = a.grad_fn
    with pytest.raises(RuntimeError):
        a.add_(weft.ones(3))
    with pytest.raises(RuntimeError):
        a.copy_(weft.ones(5, 2))
    assert a.grad_fn is fn and a._version == 0 and a.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_requires_grad_and_detach_in_place(torch):
    def program(lib):
        x = lib.ones(2, requires_grad=True)
        a = x * 2
        a.detach_()
        first = [a.requires_grad, a.is_leaf, a.grad_fn is None]
        a.requires_grad_()
        (a * 3).sum().backward()
        return [*first, a.grad, x.grad is None]

    both(torch, program)


def test_memory_of_written_views_comes_back(balance):
    def run():
        x = weft.ones(1000, requires_grad=True)
        a = x * 2
        for i in range(20):
            a[i:].mul_(a[i].detach().clone())
            v = a.view(10, 100)
            v[3] = 1.0
        a.sum().backward()

    run()
    before = balance()
    run()
    assert balance() == before
