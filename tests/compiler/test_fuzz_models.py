"""A short run of the fuzzer of compiled programs, and the faults it must find."""

import fuzz_models
import pytest
from fuzz_models import Draw, Near, Step

import weft


@pytest.mark.filterwarnings("ignore")
def test_random_models_do_compiled_what_they_do_eagerly():
    found, fuzzer = fuzz_models.fuzz(60, 0)
    assert not found, fuzz_models.shown(found[0])
    assert fuzzer.calls == 60 * fuzz_models.CALLS and fuzzer.errors < fuzzer.calls / 2


WRITTEN = (  # what fuzzing found: values that backward makes again of what was written since
    """
h = x * 1
h.add_((h - h).abs() - weft.rand_like(h @ self.w))
return h.sum()
""",
    """
h = x * 1
for layer in self.layers:
    x = layer(h)
    h += weft.cat([self.lin(-h)[:, :2], y[:, 2:]], 1)
return h
""",
    """
h = x * 1
for layer in self.layers:
    x = layer(h)
    y = (h * 2).square()
    h.mul_(0.5)
return y
""",
    """
h = x
for layer in self.layers:
    y = layer(h)
    where = weft.where(weft.softmax(h, dim=1).unsqueeze(0)[0] > 0, h, self.lin(h + h))
    self.seen.copy_(where[0])
h.mul_(self.seen.exp().clamp(max=4.0).tanh())
return self.layers[self.k](weft.stack([x, x]).sum(0)).sum()
""",
    """
y = F.linear(x, self.w)
for layer in self.layers:
    y = layer(x * 1)
    x.mul_(0.5)
    x = y
return y
""",
    """
h = x @ self.w
for layer in self.layers:
    y = layer(h)
h.mul_(F.linear(h * SCALE, self.w))
return h.exp().clamp(max=4.0)
""",
    """
h = x @ self.w
y = (h - 1).square()
a = h @ self.w
h.data.mul_(2)
return y
""",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("body", WRITTEN)
def test_what_is_made_again_of_what_was_written(body, grad, tmp_path):
    text = "    def forward(self, x, y, n=1):" + body.rstrip().replace("\n", "\n        ") + "\n"
    steps = [Step("", 2, False, grad, False, False, 1)] * 4
    fuzzer = fuzz_models.Fuzzer(tmp_path)
    bad = fuzzer.check(text, steps)
    assert bad is None, fuzz_models.shown(bad)


def test_views_made_under_no_grad_are_leaves(tmp_path):
    """Such a view wants the gradient that its base wants; in a stretch it wanted none."""
    text = """    def forward(self, x, y, n=1):
        with weft.no_grad():
            x = y.expand(2, -1, -1)[0]
            h = (x[:1], y * 2, self.w[0])
        last = y.exp() if x.requires_grad else x
        return x, h[0] * 2, h[1] * 2, h[2].exp(), x.view(-1, 4).exp(), last
"""
    steps = [Step("", 2, False, grad, False, False, 1) for grad in (True, False) for _ in range(4)]
    bad = fuzz_models.Fuzzer(tmp_path).check(text, steps)
    assert bad is None, fuzz_models.shown(bad)


def test_sums_that_cancel_are_as_exact_as_what_they_sum():
    def run(*values):
        near = []
        return [Near(weft.tensor(v), near) for v in values]

    assert run([100.0, 1.0], [1e-5, 0.0]) == run([100.0, 1.0], [0.0, 1e-5])
    assert run([100.0, 1.0], [1e-5, 0.0]) != run([100.0, 1.0], [0.0, 2e-4])
    inf, nan = float("inf"), float("nan")
    assert run([1.0], [inf, 0.0]) != run([1.0], [inf, 1e-5])
    assert run([100.0, nan], [1e-5, nan]) == run([100.0, nan], [0.0, nan])  # fuzzing said no
    assert run([100.0, nan]) != run([nan, 100.0]) and run([100.0, nan]) != run([100.0, 1.0])
    assert run([100.0, inf]) != run([100.0, -inf]) and run([100.0, inf]) != run([100.0, 1.0])


def test_a_number_is_a_program():
    assert Draw("1").text == Draw("1").text != Draw("2").text
    assert Draw("1").steps == Draw("1").steps


def baked(model):
    """What a graph that took a number in once would do."""
    module, k = model, model.k

    def call(*args):
        module.k, found = k, module.k
        try:
            return module(*args)
        finally:
            module.k = found

    return call


def draws(model):
    def call(*args):
        result = model(*args)
        weft.rand(1)
        return result

    return call


def copies(model):
    def call(*args):
        result = model(*args)
        return result.clone() if isinstance(result, weft.Tensor) else result

    return call


def catches(model):
    def call(*args):
        try:
            return model(*args)
        except RuntimeError:
            return None

    return call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fault", [baked, draws, copies, catches])
def test_faults_are_found(fault):
    found, _ = fuzz_models.fuzz(200, 1, way=fault)
    assert len(found) == 1 and found[0].text.count("\n") < 12
    assert "expected" in fuzz_models.shown(found[0])
