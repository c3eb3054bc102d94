"""cat and stack of what waits: memory of their own, outside of the graph where none is recorded."""

import pytest

import weft

JOINS = {
    "cat of halves": lambda x: weft.cat([x[:1], x[1:]]),
    "cat of one": lambda x: weft.cat([x]),
    "cat of chunks": lambda x: weft.cat(x.chunk(2)),
    "stack of rows": lambda x: weft.stack(list(x)),
    "stack of one": lambda x: weft.stack([x])[0],
    "cat of columns": lambda x: weft.cat([x[:, :2], x[:, 2:]], 1),
    "cat with nothing": lambda x: weft.cat([x, x[:0]]),
}


@pytest.fixture(params=["autobatch", "deferred"])
def run(request):
    def batched(f, xs):
        if request.param == "autobatch":
            return weft.autobatch(f, adaptive=False)(xs)
        with weft.deferred():
            return [f(x) for x in xs]

    return batched


def leaves():
    return [weft.arange(8.0).reshape(2, 4).add(k).requires_grad_() for k in range(3)]


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS.keys())
@pytest.mark.parametrize("cut", ["no_grad", "detach"])
def test_no_gradient_goes_through_what_was_cut(run, join, cut) -> None:
    """Pieces that lie as they should were handed on with their graph."""
    weight = weft.ones(4, 4, requires_grad=True)

    def f(x):
        h = x * 1
        if cut == "detach":
            return (join(h.detach()) @ weight).sum()
        with weft.no_grad():
            joined = join(h)
        return (joined @ weight).sum()

    xs = leaves()
    sum(run(f, xs)).backward()
    assert [x.grad for x in xs] == [None] * 3
    assert weight.grad.sum() == sum(x.sum() for x in xs) * 4


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS.keys())
@pytest.mark.parametrize("recorded", [False, True])
def test_the_result_is_memory_of_its_own(run, join, recorded) -> None:
    """Of one tensor with memory it was that tensor's: a later write to either changed both."""
    xs = [x if recorded else x.detach() for x in leaves()]
    wanted = [x.tolist() for x in xs]
    joined = run(join, xs)
    for x in xs:
        x.detach().zero_()
    assert [y.tolist() for y in joined] == wanted
    for y in joined:
        y.detach().add_(1)
    assert all(x.sum() == 0 for x in xs)


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS.keys())
def test_a_write_to_the_result_is_none_to_what_was_joined(run, join) -> None:
    """It raised that the sigmoid's saved output had been overwritten."""

    def f(x):
        s = x.sigmoid()
        y = join(s)
        y.detach().sub_(1)
        return s.sum() + y.sum() * 0

    xs = leaves()
    sum(run(f, xs)).backward()
    for x in xs:
        s = x.detach().sigmoid()
        assert weft.allclose(x.grad, s * (1 - s))


def test_a_hook_of_a_view_is_called_for_views_of_it(run) -> None:
    """A later view of the view took its gradient past the hook."""

    def f(x):
        h = (x * 1)[1]
        h.register_hook(lambda g: -g)
        kept.append(h)
        h.retain_grad()
        return (h[None] * 2).sum()

    kept, xs = [], leaves()
    sum(run(f, xs)).backward()
    assert [x.grad.tolist() for x in xs] == [[[0.0] * 4, [-2.0] * 4]] * 3
    assert [h.grad.tolist() for h in kept] == [[-2.0] * 4] * 3
