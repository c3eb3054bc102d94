"""Regressions: writes through views of other elements, and through views that Functions write."""

import pytest

import weft


def real_part(lib):
    """Its place was counted in complex numbers."""
    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    c = lib.complex(x, x)
    c.real[0] = 5.0
    (c.abs() ** 2).sum().backward()
    return x.grad


def view_of_pairs(lib):
    x = lib.ones(2, 2, dtype=lib.float64, requires_grad=True)
    c = lib.view_as_complex(x * 1)
    c.real.mul_(3)
    (c.abs() ** 2).sum().backward()
    return x.grad


def imaginary_part_of_a_spectrum(lib):
    x = lib.arange(4.0).requires_grad_()
    s = lib.fft.fft(x)
    s.imag.mul_(0.5)
    lib.fft.ifft(s).real.square().sum().backward()
    return x.grad


def second_order(lib):
    x = lib.tensor([1 + 2j, 3 - 1j], dtype=lib.complex128, requires_grad=True)
    y = x * x
    y.imag.mul_(y.real.detach().clone())
    (g,) = lib.autograd.grad((y.abs() ** 2).sum(), x, create_graph=True)
    g.abs().square().sum().backward()
    return x.grad


def a_spectrum_is_filtered(lib):
    """The result of a transform was saved, which no gradient reads."""
    x = lib.ones(4, requires_grad=True)
    s = lib.fft.rfft(x)
    s[0] = 0
    lib.fft.irfft(s).square().sum().backward()
    return x.grad


def function_writes_a_view(lib):
    """The Function's backward was left out where the view was used."""

    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    found = []
    for view in (lambda y: y[:2], lambda y: y.view(3), lambda y: y[None], lambda y: y[1:]):
        x = lib.ones(3, requires_grad=True)
        y = x * 1
        other = y[:2]
        w = Twice.apply(view(y))
        (w * w).sum().backward(retain_graph=True)
        found.append(x.grad.clone())
        (other * 3).sum().backward()
        found += [x.grad, type(w.grad_fn).__name__, type(y.grad_fn).__name__]
    return found


def layout_without_recording(lib):
    """The view kept the node of its old layout, which gave its gradient the old shape."""
    x = lib.arange(6.0).requires_grad_()
    v = (x * 1).view(3, 2)
    with lib.no_grad():
        v.t_()
    (v * lib.arange(6.0).view(2, 3)).sum().backward()
    return x.grad


def gradients_may_be_written(lib):
    """The first gradient of a pass with create_graph was the expanded one itself."""
    p = lib.nn.Parameter(lib.ones(2, 3).t())
    p.mean().backward(create_graph=True)
    found = [p.grad.stride(), p.grad.requires_grad]
    p.mean().backward()
    lib.nn.utils.clip_grad_norm_([p], 0.1)
    found.append(p.grad.clone())
    lib.optim.SGD([p], 0.1).zero_grad(set_to_none=False)
    return [*found, p.grad]


def penalty_on_gradients(lib):
    """The gradients of functions made of straight lines did not require grad."""
    x = lib.tensor([[-1.0, 2.0, 0.5, -3.0]], requires_grad=True)
    F, found = lib.nn.functional, []
    for f in (lib.relu, lib.abs, F.hardtanh, F.leaky_relu, F.softshrink,
              lambda x: F.threshold(x, 0, 1), lambda x: F.max_pool1d(x, 2)):  # fmt: skip
        x.grad = None
        (g,) = lib.autograd.grad(f(x).sum(), x, create_graph=True)
        ((g.norm(2) - 1) ** 2).backward()
        found.append(x.grad)
    return found


PROGRAMS = [
    real_part, view_of_pairs, imaginary_part_of_a_spectrum,
    second_order, a_spectrum_is_filtered, function_writes_a_view, layout_without_recording,
    gradients_may_be_written, penalty_on_gradients,
]  # fmt: skip


def plain(value):
    if hasattr(value, "tolist"):
        return pytest.approx(value.detach().clone().resolve_conj().reshape(-1).tolist(), 1e-6, 1e-6)
    return [plain(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_pytorchs(torch, program):
    found = program(weft)
    expected = program(torch)
    for a, b in zip(*[v if isinstance(v, list) else [v] for v in (found, expected)], strict=True):
        assert (a.detach().reshape(-1).tolist() if hasattr(a, "tolist") else a) == plain(b)


def test_a_view_that_its_base_left_behind_is_refused(torch):
    for lib in (torch, weft):
        x = lib.ones(3, requires_grad=True)
        y = x * 1
        with lib.no_grad():
            v = y[:2]
        y.mul_(2)
        assert v.requires_grad
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            v.sum().backward()


def test_a_checkpoint_notices_what_its_function_overwrites():
    """The recomputed value was read as the write left it, and the gradient was wrong."""

    def body(x):
        y = x.tanh()
        y.mul_(2)
        return y.sin()

    x = weft.tensor([0.3, 0.7], requires_grad=True)
    y = weft.utils.checkpoint.checkpoint(body, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_of_nodes_see_what_pytorchs_see(torch):
    def program(lib):
        notes = []
        x = lib.tensor([[2.0, 1.0], [3.0, 4.0]], requires_grad=True)

        def hook(given, came):
            notes.append([[None if g is None else tuple(g.shape) for g in gs]
                          for gs in (given, came)])  # fmt: skip

        outs = [
            x.sort(0)[0],
            x - lib.ones(3, 2, 2), x.max(1)[0], x.cummax(0)[0],
        ]  # fmt: skip
        for out in outs:
            out.grad_fn.register_hook(hook)
            out.sum().backward()
        return notes

    assert program(weft) == program(torch)


def test_a_target_on_the_way_to_another_is_found_before_its_hooks(torch):
    def program(lib):
        x = lib.ones(2, requires_grad=True)
        v = x * 2
        v.register_hook(lambda g: g * 10)
        loss = (v * 3).sum()
        grad = lib.autograd.grad
        found = [*grad(loss, [x, v], retain_graph=True), *grad(loss, [v])]
        return [g.tolist() for g in found]

    assert program(weft) == program(torch)


def test_results_without_a_derivative_want_one(torch):
    for lib in (torch, weft):
        x = lib.tensor([1.5, -2.0], requires_grad=True)
        for y in (lib.floor_divide(x, 2.0), lib.heaviside(x, x)):
            assert y.requires_grad and type(y.grad_fn).__name__ == "NotImplemented"
            with pytest.raises(RuntimeError, match="not implemented"):
                y.sum().backward()


def test_equal_shapes_broadcast_to_themselves():
    x, y = weft.ones(2), weft.zeros(2)
    assert weft.broadcast_tensors(x, y)[0] is x


def test_create_graph_in_backward_warns_once():
    import subprocess
    import sys

    program = (
        "import warnings, weft\n"
        "x = weft.ones(2, requires_grad=True)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(2): (x * x).sum().backward(create_graph=True)\n"
        "    weft.autograd.grad((x * x).sum(), x, create_graph=True)\n"
        "print(*['reference cycle' in str(w.message) for w in caught])"
    )
    told = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert told.split() == ["True"]
