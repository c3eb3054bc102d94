"""`torch.ops.aten`: each overload that there is has PyTorch's schema and gives its values.

tools/make_aten.py makes the table by a run over PyTorch's test database; here calls of a few ops
are replayed, as the tool does it, so that a change of weft's functions is noticed.
"""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import weft
from weft._library import aten

LINES = Path(aten._FILE).read_text().splitlines()

CALLS = """
x + 1, x - y, x * y, x / y, x ** 2, -x, x @ z, x == y, x < y
x.sum(), x.sum(0), x.mean(1, True), x.amax(0), x.std(0), x.argmax(1), x.max(0), x.var(1)
x.view(-1), x.t(), x.reshape(3, 2), x.permute(1, 0), x.unsqueeze(0), x.squeeze(), x.expand(2, 3)
x.relu(), x.softmax(1), x.log_softmax(0), x.tanh(), x.sigmoid(), x.exp(), x.clamp(0, 1)
t.cat([x, y]), t.stack([x, y], 1), t.split(x, 1), x.chunk(2), t.where(x > 0, x, y), t.tril(x)
t.zeros(2, 3), t.ones_like(x), t.arange(4), t.full((2,), 3.0), t.eye(3), t.linspace(0, 1, 4)
F.layer_norm(x, (3,)), F.gelu(x), F.linear(x, y), F.mse_loss(x, y), F.silu(x), F.dropout(x, 0.5)
F.conv2d(c, k), F.max_pool2d(c, 2), F.avg_pool2d(c, 2), F.embedding(i, x), F.pad(x, (1, 1))
F.interpolate(c, scale_factor=2), F.interpolate(c, size=3, mode="bilinear"), F.one_hot(i)
x[0], x[:, 1], x[:, 0:2], x[i], x.index_select(0, i), x.gather(1, i.view(2, 1))
x.to(t.float64), x.clone(), x.detach(), x.sort(1), x.topk(2), x.cumsum(0), x.flip(0), x.norm()
x.add_(y), x.mul_(2), x.zero_(), x.fill_(2), x.copy_(y), x.clamp_(0, 1), t.addmm(z, z, z)
t.manual_seed(0), t.rand(3), t.bernoulli(x.sigmoid()), x.normal_(), t.randperm(5)
""".strip().splitlines()


@pytest.fixture(scope="module")
def tool(torch):
    path = Path(__file__).parents[2] / "tools/make_aten.py"
    spec = importlib.util.spec_from_file_location("make_aten", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("line", CALLS)
def test_calls_give_pytorchs_values(torch, tool, line):
    torch.manual_seed(0)
    names = {"t": torch, "F": torch.nn.functional, "x": torch.randn(2, 3), "y": torch.randn(2, 3),
             "z": torch.randn(3, 3), "i": torch.tensor([1, 0]), "c": torch.randn(1, 2, 4, 4),
             "k": torch.randn(3, 2, 3, 3)}  # fmt: skip
    seen = tool.Seen()
    for scope in (torch.no_grad, torch.inference_mode):
        with seen, scope():
            eval(line, names)
    listed = {line.partition("(")[0] for line in LINES}
    asked = {f.name().removeprefix("aten::"): v for f, v in seen.agreed.items()}
    known = [name for name in asked if name in listed]
    assert known and not [name for name in known if not all(asked[name])]


def test_schemas_are_pytorchs(torch):
    wrong = []
    for line in LINES:
        name, _, overload = line.partition("(")[0].partition(".")
        theirs = getattr(getattr(torch.ops.aten, name), overload or "default")
        ours = getattr(getattr(weft.ops.aten, name), overload or "default")
        pairs = [
            (str(ours), str(theirs)), (repr(ours), repr(theirs)), (ours.name(), theirs.name()),
            (ours.__name__, theirs.__name__), (ours.namespace, theirs.namespace),
            (str(ours._schema), str(theirs._schema)), (ours.is_view, theirs.is_view),
            (ours._schema.is_mutable, theirs._schema.is_mutable),
            (len(ours._schema.returns), len(theirs._schema.returns)),
        ]  # fmt: skip
        wrong += [(a, b) for a, b in pairs if a != b]
    assert not wrong


def test_all_schemas_of_pytorchs_read_and_print(torch):
    from weft.base.schemas import parse_schema

    texts = [str(s) for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    tensors = [s for s in texts if s.partition("(")[2].startswith("Tensor") and " t" not in s]
    assert len(tensors) > 1000
    # Not in the language: any arguments, backslashes, and a single result that has a name.
    odd = re.compile(r"\.\.\.|\\|-> [^()]* \w+$|!\) out,.*-> Tensor \w+$")
    wrong = [s for s in tensors if not odd.search(s) and str(parse_schema(s)) != s]
    assert wrong == []


def test_what_the_table_lists_is_there():
    assert len(LINES) > 700 and sorted(LINES) == LINES
    for name in aten.names():
        packet = getattr(weft.ops.aten, name)
        assert packet is getattr(weft.ops.aten, name) and packet.overloads()
        for overload in packet:
            op = getattr(packet, overload)
            assert op is getattr(packet, overload) and op.overloadpacket is packet


def test_operators_have_gradients_and_run_compiled_and_batched():
    x = weft.randn(3, 4, requires_grad=True)

    def f(v):
        return weft.ops.aten.mul.Tensor(weft.ops.aten.tanh(v), 2).sum()

    def plain(v):
        return (v.tanh() * 2).sum()

    (expected,) = weft.autograd.grad(plain(x), x)
    for way in (f, weft.compile(f), lambda v: sum(weft.autobatch(f)(list(v)))):
        (found,) = weft.autograd.grad(way(x), x)
        weft.testing.assert_close(found, expected)
    weft.testing.assert_close(weft.func.vmap(f)(x), weft.stack([plain(r) for r in x]))


@pytest.mark.parametrize("name, said", [("addd", "add"), ("sofmax", "softmax"), ("qqqq", "it has")])
def test_a_name_that_is_not_there_has_a_hint(name, said):
    with pytest.raises(AttributeError, match=f"'_OpNamespace' 'aten' object has no .*{said}"):
        getattr(weft.ops.aten, name)
    assert not hasattr(weft.ops.prims, "add") and "weft._ops" in sys.modules
