"""A short run of the autodiff fuzzer, and the faults it must find."""

import sys
import textwrap
from pathlib import Path

import pytest

import weft

sys.path.insert(0, str(Path(__file__).parent))

import autodiff_fuzz as fuzz  # noqa: E402
from autodiff_names import names_for  # noqa: E402
from autodiff_programs import draw  # noqa: E402

PROGRAMS = 200


@pytest.mark.parametrize("seed", [0, 1])
def test_programs_do_what_they_do_in_pytorch(torch, seed):
    report = fuzz.search(seed, PROGRAMS, torch)
    for kind, cases in report.differences.items():
        key, statements = cases[0]
        small = fuzz.minimal(statements, (torch, weft), kind)
        found = fuzz.check(small, (torch, weft))
        pytest.fail(f"program {key}: {kind}\n{fuzz.script(small)}\n{found}")
    assert report.statements > 8 * PROGRAMS


# Programs that the fuzzer found once, made smaller, by what was wrong.
FOUND = {
    "one of several views after a write into its base": """
        v0 = leaf(3, at=0) * 1
        v1, v2 = v0.chunk(2, 0)
        v0.index_fill_(0, t.tensor([1]), 0.2)
        loss(v1).backward()""",
    "backward to an input that is no leaf frees its node": """
        v0 = leaf(3, at=0)
        v1 = v0.abs().log1p()
        loss(v1).backward(inputs=[v1])
        loss(v1).backward(retain_graph=True)""",
    "backward to a custom Function's result runs it": """
        v0 = leaf(2, 2, 2, at=0)
        v1 = Part.apply(v0)
        loss(v1).backward(inputs=[v1])""",
    "the hooks of a root that leads to no input": """
        v0 = leaf(2, 2, at=0)
        v1 = leaf(2, 2, at=1)
        v2 = v1.sin()
        loss(v2).backward(inputs=[v2], retain_graph=True)
        t.autograd.grad(v2, [v0], t.ones_like(v2), materialize_grads=True)""",
    "a hook after accumulation of a leaf that wants no gradient any more": """
        v0 = leaf(3, 3, at=3)
        v0.register_post_accumulate_grad_hook(after('h'))
        v1 = v0.prod()
        v0.requires_grad_(False)
        loss(v1).backward()""",
    "a retained gradient is a copy": """
        v0 = leaf(3, 3, at=0)
        v1, v2 = t.max(v0, -2)
        v1.retain_grad()
        v1.sum().backward()""",
    "mark_dirty drops a gradient": """
        v0 = leaf(2, 3, at=0)
        v1 = v0.floor()
        v1.grad = v0
        v2 = Dirty.apply(v1)""",
    "a gradient of complex numbers may be written": """
        v0 = leaf(2, 1, 3, at=2, kind='complex128')
        v1, v2 = t.autograd.grad(loss(v0), [v0, v0])
        v2.sub_(v0, alpha=0.5)""",
    "a write through a slice of everything": """
        v0 = leaf(3, at=1) * 2
        v0[0:] += v0
        v0[..., :3] *= 2""",
    "real parts written through another view": """
        v0 = leaf(4, at=0)
        v1 = t.complex(v0, v0)
        v2 = t.view_as_real(v1)
        v2.mul_(3)""",
    "views in inference mode": """
        v0 = leaf(2, 2, at=3)
        v0.detach_()
        with t.inference_mode():
            v1 = v0[:, None]
            v2 = t.fft.rfft(v0)""",
    "places of trapezoid with more dimensions, and with fewer": """
        v0 = leaf(2, 3, at=0)
        v1 = leaf(2, 2, 2, at=2)
        v2 = t.trapezoid(v0, v1)
        loss(v2).backward()
        v3 = leaf(3, at=3, grad=False)
        v4 = leaf(3, 1, at=3, grad=False)
        v5 = t.trapezoid(v3, v4)
        v6 = t.cumulative_trapezoid(v4, v4, dim=0)""",
    "the sign of a determinant": """
        v0 = leaf(3, 3, at=2)
        v1, v2 = t.linalg.slogdet(v0)
        loss(v1).backward()""",
    "both extremes are results of one node": """
        v0 = leaf(4, at=0)
        v1, v2 = t.aminmax(v0)
        hook(v2, look('h'))
        loss(v1).backward(create_graph=True)""",
    "gradients of one element": """
        v0 = leaf(at=0)
        v1 = v0.prod(0)
        v1.sum().backward(create_graph=True)
        v2 = leaf(1, 1, at=0)
        v3 = t.linalg.det(v2)
        v3.sum().backward(create_graph=True)""",
    "an extreme that was overwritten": """
        v0 = leaf(3, 3, at=0)
        v1 = v0.min()
        v1.data.fill_(0.1)
        loss(v1).backward()""",
    "a NaN goes back through a norm of 0": """
        v0 = leaf(2, at=0)
        v1 = t.dist(v0, v0)
        v1.backward(v1.detach() / 0)""",
    "a view laid out anew without recording": """
        v5 = leaf(4, at=1)
        with t.no_grad():
            v6 = v5[..., :1]
            v6.transpose_(0, 0)
        v0 = leaf(4, at=0)
        v1, v2, v3, v4 = v0.unbind(0)
        with t.inference_mode():
            v2.t_()""",
    "what is detached in inference mode": """
        v0 = leaf(2, 2, at=1)
        with t.inference_mode():
            v1 = v0.detach()
        v1.mul_(2)
        v2 = v0 * v1""",
    "a layer of which one part is frozen": """
        v0 = leaf(2, 3, at=0)
        v1 = leaf(4, 3, at=1, grad=False)
        v2 = leaf(3, at=2)
        loss(t.nn.functional.linear(v0, v1)).backward()
        loss(t.nn.functional.linear(v0.detach(), v2)).backward()
        loss(t.nn.functional.linear(v0, v2.detach())).backward()
        v3 = leaf(4, at=3)
        loss(t.nn.functional.linear(v0.detach(), v1, v3)).backward()""",
    "hooks of what is detached, and a leaf again": """
        v0 = leaf(3, at=0)
        v1 = v0.sin()
        hook(v1, look('h'))
        v1.detach_()
        v1.requires_grad_()
        loss(v1).backward()""",
    "a view made under no_grad as a leaf of its own": """
        v0 = leaf(3, at=0)
        with t.no_grad():
            v1 = v0[..., :1]
        v1.requires_grad_()
        loss(v1).backward()
        v1.retain_grad()""",
    "a custom Function that writes what another argument shows": """
        v0 = leaf(3, at=0) * 1
        v1 = Part.apply(v0)
        v2 = DirtySaved.apply(v0, v1)""",
    "a second backward pass through what leads nowhere": """
        v0 = leaf(3, at=0)
        with t.no_grad():
            v1 = v0.unflatten(0, (-1, 1))
        v2 = v1 * v1
        loss(v2).backward()
        loss(v2).backward()""",
    "the product of a vector and a matrix is no view": """
        v0 = leaf(3, 3, at=0)
        v1 = leaf(3, at=1)
        v2 = t.matmul(v1, v0)
        v2.real[..., 0] = 0.5""",
    "graphs and transforms in inference mode": """
        v0 = leaf(2, 2, at=0)
        with t.inference_mode():
            v1, = t.func.vjp(body, v0)[1](v0)
            with t.enable_grad():
                v2 = v0 * 2
        v1.mul_(2)
        v3 = v2 * 2""",
    "every element of one number": """
        v0 = leaf(1, at=0, grad=False)
        v1 = v0.expand(3)
        v1.fill_(0.5)
        v1.zero_()""",
    "a gradient given of another dtype that wants one": """
        v0 = leaf(2, 2, at=0)
        v1 = leaf(2, 2, at=1).to(t.float32)
        v0.backward(v1.clone())""",
    "gradients that may be written": """
        v0 = leaf(1, 3, at=1)
        v1, v2 = t.var_mean(v0)
        v3, v4 = t.autograd.grad(loss(v2), [v2, v0])
        v4.view(-1)[0] = 1.5
        v5, = t.autograd.grad(v0.mean(), [v0])
        v5.mul_(2)""",
    "no rows, and no element": """
        v0 = leaf(0, 3, at=0)
        v1 = leaf(4, 3, at=1)
        v2 = t.nn.functional.linear(v0, v1)
        v3, = t.autograd.grad(v2.sum(), [v1], create_graph=True)
        v4 = leaf(1, at=0).cumprod(0)
        v4.sum().backward(create_graph=True)""",
    "a view after a write, in ops that a library computes": """
        v0 = leaf(2, 3, at=0)
        v1 = v0.sin()
        v2 = v1.unsqueeze(1)
        v2.mul_(2)
        v3 = t.fft.fft(v2)
        loss(v3).backward()
        v4 = v1.transpose(0, 1)
        v1.mul_(0.5)
        loss(t.special.i0(v4)).backward()""",
    "a write that is refused writes nothing": """
        v0 = leaf(2, 2, at=0)
        v1 = View.apply(v0)
        v2 = v0 * v0
        with t.no_grad():
            v1.tanh_()
        v2.addmm_(v1, v1)""",
    "a retained gradient is that of the value written last": """
        v0 = leaf(3, at=2) * 2
        v1 = v0[..., :1]
        v2 = v1.clone()
        loss(v2).backward(inputs=[v1], retain_graph=True)
        v1.fill_(1.5)
        loss(v2).backward()""",
    "a view that shows other memory": """
        v0 = leaf(2, 2, at=0, grad=False)
        v1 = leaf(at=2)
        v2 = v0.view(1, -1)
        v2.data = v0
        v2.index_put_((t.tensor([0]),), v1, accumulate=True)
        v3 = v2 * 2""",
    "a node of which nobody asks anything": """
        v0 = leaf(3, at=1)
        v1 = t.nn.functional.linear(v0, v0)
        loss(v1).backward(inputs=[v1])""",
    "refused": """
        v6 = leaf(2, 1, 3, at=0, grad=False)
        t.add(v6, v6.transpose(0, 1), out=v6)
        leaf(2, 2, at=0, grad=False).addmm(leaf(2, 2, kind='float32'), leaf(2, 2, kind='float32'))
        v7 = t.cross(leaf(1, 3, at=0), leaf(3, 3, at=1))
        v0 = leaf(2, 2, at=1, kind='complex128')
        v0.clamp(-0.5, 0.5)
        v1 = t.cdist(v0, v0)
        v2 = leaf(3, at=1)
        v3 = leaf(3, 3, at=1)
        v4 = t.cross(v2, v3)
        v5 = leaf(at=1)
        v5.backward(v5.detach() * (1 + 1j))
        t.meshgrid(v2, t.tensor([1, 2]), indexing='ij')""",
}


@pytest.mark.parametrize("why", FOUND)
def test_what_was_wrong_once(torch, why):
    statements, text = [], textwrap.dedent(FOUND[why])
    for line in text.strip().split("\n"):
        if line.startswith(" "):
            statements[-1] += "\n" + line
        else:
            statements.append(line)
    outcome = fuzz.run(statements, torch)
    assert not any(isinstance(error, NameError | SyntaxError) for error in outcome.errors)
    assert fuzz.check(statements, (torch, weft)) == []


def test_programs_repeat_and_most_statements_run(torch):
    assert draw("a", torch) == draw("a", torch) != draw("b", torch)
    outcomes = [fuzz.run(draw(f"c{i}", torch), torch) for i in range(100)]
    errors = [error for out in outcomes for error in out.errors]
    assert sum(error is not None for error in errors) < 0.15 * len(errors)
    assert any(error is not None for error in errors)
    assert sum(what.startswith("grad value") for out in outcomes for what, _ in out.seen) > 100


PROGRAM = [
    "v0 = leaf(2, 3, at=0)",
    "v1 = v0 * 2",
    "v2 = v1.select(0, 1)",
    "hook(v1, look('h'))",
    "v2.mul_(3)",
    "loss(v1).backward()",
]


def quieter(names):
    names["hook"] = lambda x, f: None


def off(names):
    plain = names["loss"]
    names["loss"] = lambda *tensors: plain(*tensors) * (1 + 1e-7)


def elsewhere(names):
    plain = names["leaf"]
    names["leaf"] = lambda *sizes, **how: plain(*sizes, order=(1, 0), **how)


def raising(names):
    def hook(x, f):
        raise ValueError

    names["hook"] = hook


@pytest.mark.parametrize(
    ("change", "kind"),
    [(quieter, "order"), (off, "grad value"), (elsewhere, "grad layout"), (raising, "error")],
)
def test_the_fuzzer_finds(torch, monkeypatch, change, kind):
    names, log = names_for(weft)
    assert fuzz.check(PROGRAM, (torch, weft)) == []
    changed = dict(names)
    change(changed)
    plain = fuzz.names_for
    monkeypatch.setattr(
        fuzz, "names_for", lambda lib: (changed, log) if lib is weft else plain(lib)
    )
    found = [each[0] for each in fuzz.check(PROGRAM, (torch, weft))]
    assert any(each.startswith(kind) for each in found), found


def test_a_difference_is_made_smaller(torch, monkeypatch):
    names, log = names_for(weft)
    changed = names | {"Scale": names["Save"]}
    plain = fuzz.names_for
    monkeypatch.setattr(
        fuzz, "names_for", lambda lib: (changed, log) if lib is weft else plain(lib)
    )
    program = [
        "v0 = leaf(2, at=0)",
        "v1 = leaf(2, at=1)",
        "v2 = v0.sin()",
        "with t.enable_grad():\n    v3 = v1 * 2\n    v4 = Scale.apply(v0)",
        "v5 = v4 + v2",
    ]
    libs = (torch, weft)
    assert fuzz.minimal(program, libs, "value") == ["v0 = leaf(2, at=0)", "v4 = Scale.apply(v0)"]
