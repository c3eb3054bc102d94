"""Tensors of the meta device beside PyTorch's: what they answer and what they refuse."""

import copy
import io
import pickle
import resource
from typing import Any

import pytest

import weft

torch = pytest.importorskip("torch")


def names_of(lib: Any) -> dict[str, Any]:
    return {
        "torch": lib, "m": lib.empty(2, 3, device="meta"), "c": lib.ones(2, 3),
        "s": lib.tensor(2.0), "v": lib.empty(3, device="meta"), "cv": lib.ones(3),
        "m0": lib.empty((), device="meta"), "ci": lib.tensor([0, 1]),
        "mi": lib.zeros(2, dtype=lib.int64, device="meta"),
        "mb": lib.empty(2, 3, device="meta", dtype=lib.bool), "copy": copy, "pickle": pickle,
    }  # fmt: skip


def answer(lib: Any, text: str) -> str:
    return repr(eval(text, names_of(lib)))  # noqa: S307


ANSWERS = """
m; m0; mi; mb; m.double(); repr(m + 1); m.requires_grad_() * 2; torch.nn.Parameter(m)
m.is_meta, m.is_cpu, m.device, m.get_device(), m.type(), m.nbytes, m.element_size(), m.data_ptr()
c.is_meta, c.is_cpu, c.device
m + s; s + m; m * 2; m @ v; torch.where(mb, s, m); m.fill_(s); m.add_(1); m.copy_(c); m.mul_(m)
m[ci]; m[mi]; m[0]; m[:, 1:]; m.t().is_contiguous(), m.t().stride(), m[1:].storage_offset()
m.max(); m.argmax(); m.sum(0); m.softmax(-1); torch.cat([m, m]); torch.stack([m, m]); m.sort()[1]
m.clone(); copy.deepcopy(m); copy.copy(m); pickle.loads(pickle.dumps(m)); m.expand(4, 2, 3).stride()
c.to("meta"); c.to(m); c.to("meta", torch.float64); m.to("meta") is m
m.to(device="meta", copy=True) is m
torch.tensor([1.0, 2], device="meta"); torch.as_tensor(c, device="meta"); torch.as_tensor(m)
torch.tensor([1], device="meta"); torch.zeros(2, requires_grad=True, device="meta")
torch.asarray(c, device="meta"); torch.tensor(m0); torch.full((2,), s, device="meta")
torch.empty_like(c, device="meta"); torch.zeros_like(m); torch.zeros_like(m, device="cpu")
torch.ones_like(m, device="cpu"); torch.rand_like(m); torch.full_like(m, 2, device="cpu")
m.new_zeros(2); c.new_zeros(2, device="meta"); m.new_tensor([1, 2.0]); m.new_zeros(2, device="cpu")
torch.randn(3, device="meta"); torch.randperm(5, device="meta"); torch.arange(5, device="meta")
torch.eye(3, device="meta"); torch.linspace(0, 1, 5, device="meta")
torch.randint(3, (2,), device="meta")
torch.empty_strided((2, 3), (1, 2), device="meta").stride(); torch.scalar_tensor(2, device="meta")
torch.nn.functional.dropout(m); torch.nn.functional.embedding(mi, m); torch.bernoulli(m)
torch.nn.functional.one_hot(mi, 5)
torch.nn.init.kaiming_uniform_(m) is m; torch.nn.init.orthogonal_(m) is m
torch.nn.init.trunc_normal_(m) is m; torch.nn.init.eye_(m) is m
torch.nn.init.xavier_normal_(m) is m
torch.nn.Linear(2, 3, device="meta")(m.t()).shape; torch.nn.Linear(2, 3).to("meta").weight
torch.nn.Linear(2, 3, device="meta").to_empty(device="cpu").weight.device
torch.nn.Linear(2, 3).to_empty(device="meta").weight; torch.nn.LSTM(3, 3, device="meta")(m)[0].shape
torch.nn.BatchNorm1d(3, device="meta")(m).shape; torch.nn.BatchNorm1d(3, device="meta").running_mean
torch.nn.TransformerEncoderLayer(4, 2, device="meta")(torch.empty(2, 3, 4, device="meta")).shape
torch.nn.utils.skip_init(torch.nn.Linear, 2, 3).weight.device; m.untyped_storage().nbytes()
m.untyped_storage().device; m.is_shared(); m.is_pinned(); len(m); [x.shape for x in m]
torch.func.vmap(lambda x: x * 2)(m); torch.func.grad(lambda x: (x * 2).sum())(m)
torch.device("meta").index, torch.device("meta:0"), torch.empty(2, device="meta:0").device
torch.add(m, m, out=torch.empty(0, device="meta")); m.view(torch.int32); m.as_strided((2,), (1,))
torch.result_type(m, 1); m.type_as(m); c.type_as(m); m.unbind(0)[0]; m.chunk(2, 1)[0].shape
torch.get_default_device()
torch.optim.SGD(torch.nn.Linear(2, 3, device="meta").parameters(), 0.1).step()
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [t.strip() for t in ANSWERS if t.strip()])
def test_answers_as_pytorch(text: str) -> None:
    assert answer(weft, text) == answer(torch, text)


REFUSALS = [
    ("m0.item()", "Tensor.item() cannot be called on meta tensors"),
    ("m.item()", "a Tensor with 6 elements cannot be converted to Scalar"),
    ("bool(m0)", "Tensor.item() cannot be called on meta tensors"),
    ("float(m0)", "Tensor.item() cannot be called on meta tensors"),
    ("int(m0)", "Tensor.item() cannot be called on meta tensors"),
    ("torch.arange(m0)", "Tensor.item() cannot be called on meta tensors"),
    ("torch.tensor([m0, m0])", "Tensor.item() cannot be called on meta tensors"),
    ("m.tolist()", "Cannot copy out of meta tensor; no data!"),
    ("m.cpu()", "Cannot copy out of meta tensor; no data!"),
    ("m.to('cpu')", "Cannot copy out of meta tensor; no data!"),
    ("m.to(c)", "Cannot copy out of meta tensor; no data!"),
    ("m.type_as(c)", "Cannot copy out of meta tensor; no data!"),
    ("c.copy_(m)", "Cannot copy out of meta tensor; no data!"),
    ("c.__setitem__(0, v)", "Cannot copy out of meta tensor; no data!"),
    ("torch.nn.Linear(2, 3, device='meta').cpu()", "Cannot copy out of meta tensor; no data!"),
    ("torch.nn.Linear(2, 3, device='meta').to('cpu')", "Please use torch.nn.Module.to_empty()"),
    ("m.numpy()", "can't convert meta device type tensor to numpy"),
    ("m.__array__()", "can't convert meta device type tensor to numpy"),
    ("m.__dlpack__()", "Cannot pack tensors on meta"),
    ("m.__dlpack_device__()", "Unknown device type meta for Dlpack"),
    ("m.share_memory_()", "only available on CPU"),
    ("m.cuda()", "Torch not compiled with CUDA enabled"),
    ("setattr(m, 'data', c)", "have incompatible tensor type"),
    ("setattr(c, 'data', m)", "have incompatible tensor type"),
    ("setattr(m, 'grad', c)", "attempting to assign a gradient with device type 'cpu'"),
    ("m.set_(c)", "the devices must match"),
    ("torch.add(c, c, out=m)", "Attempting to copy from device cpu to device meta"),
    ("torch.add(m, m, out=c)", "Attempting to copy from device meta to device cpu"),
]

# PyTorch says it in other words, or computes with memory that nobody wrote.
OURS = [
    ("m + c", RuntimeError, "at least two devices, meta and cpu!"),
    ("c + m", RuntimeError, "at least two devices, cpu and meta!"),
    ("c + m0", RuntimeError, "at least two devices, cpu and meta!"),
    ("torch.mm(c, m.t())", RuntimeError, "at least two devices, cpu and meta!"),
    ("torch.nn.functional.linear(c, m)", RuntimeError, "at least two devices"),
    ("c.add_(m)", RuntimeError, "at least two devices"),
    ("torch.nn.functional.embedding(ci, m)", RuntimeError, "at least two devices"),
    ("torch.cat([m, c])", RuntimeError, "at least two devices"),
    ("m.nonzero()", NotImplementedError, "aten::nonzero: attempted to run this operator"),
    ("m[mb]", NotImplementedError, "attempted to run this operator with Meta tensors"),
    ("torch.masked_select(m, mb)", NotImplementedError, "aten::masked_select"),
]


@pytest.mark.parametrize("text, says", REFUSALS, ids=[t for t, _ in REFUSALS])
def test_refusals_are_pytorchs(text: str, says: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        answer(torch, text)
    assert says in str(theirs.value)
    with pytest.raises(theirs.type) as found:
        answer(weft, text)
    assert says in str(found.value)


@pytest.mark.parametrize("text, kind, says", OURS, ids=[t for t, _, _ in OURS])
def test_refusals(text: str, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match="expected .*, got ") as found:
        answer(weft, text)
    assert says in str(found.value)


# ---- where new tensors lie


def test_scopes_nest_and_end():
    with weft.device("meta") as place:
        assert place == weft.device("meta") and weft.zeros(2).is_meta
        assert weft.get_default_device().type == "meta"
        with weft.device("cpu"):
            assert weft.zeros(2).is_cpu
            with place:
                assert weft.tensor([1.0]).is_meta
            assert weft.zeros(2).is_cpu
        assert weft.zeros(2).is_meta and weft.zeros(2, device="cpu").is_cpu
        assert weft.zeros_like(weft.zeros(2, device="cpu")).is_cpu
        assert weft.zeros(2, device="cpu").new_ones(3).is_cpu
    assert weft.zeros(2).is_cpu
    with pytest.raises(ZeroDivisionError), weft.device("meta"):
        raise ZeroDivisionError
    assert weft.zeros(2).is_cpu


def test_the_cpu_computes_as_always_under_meta():
    x, w = weft.randn(4, 3), weft.randn(5, 3).requires_grad_()
    loss = weft.nn.functional.linear(x, w).relu().var(0).sum()
    loss.backward()
    expected, w.grad = w.grad, None
    with weft.device("meta"):
        again = weft.nn.functional.linear(x, w).relu().var(0).sum()
        again.backward()
    assert again.item() == loss.item() and weft.equal(w.grad, expected)


def test_default_device():
    try:
        weft.set_default_device("meta")
        assert weft.nn.Linear(2, 3).weight.is_meta
    finally:
        weft.set_default_device(None)
    assert weft.zeros(2).is_cpu
    with pytest.raises(AssertionError):
        weft.set_default_device("cuda")


# ---- memory, graph, modules


class Block(weft.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = weft.nn.MultiheadAttention(width, heads, batch_first=True)
        self.norms = weft.nn.ModuleList([weft.nn.LayerNorm(width) for _ in range(2)])
        self.up, self.down = weft.nn.Linear(width, 4 * width), weft.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(weft.nn.functional.gelu(self.up(self.norms[1](x))))


def test_seven_billion_parameters_need_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with weft.device("meta"):
        table = weft.nn.Embedding(50000, 4096)
        blocks = weft.nn.Sequential(*(Block(4096, 32) for _ in range(32)))
        head = weft.nn.Linear(4096, 50000, bias=False)
        tokens = weft.zeros(2, 512, dtype=weft.int64)
    count = sum(p.numel() for m in (table, blocks, head) for p in m.parameters())
    assert 6.5e9 < count < 7.5e9
    scores = head(blocks(table(tokens)))
    assert scores.shape == (2, 512, 50000) and scores.is_meta
    weft.nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in blocks.parameters())
    optimizer = weft.optim.AdamW(blocks.parameters())
    optimizer.step()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 100 * 1024  # KiB


def test_to_empty_and_assign_make_the_model_of_the_file():
    original = weft.nn.Sequential(
        weft.nn.Linear(3, 4), weft.nn.BatchNorm1d(4), weft.nn.Linear(4, 2)
    )
    file, x = io.BytesIO(), weft.randn(5, 3)
    weft.save(original.state_dict(), file)
    for how in ("assign", "to_empty", "map_location"):
        with weft.device("meta"):
            model = weft.nn.Sequential(
                weft.nn.Linear(3, 4), weft.nn.BatchNorm1d(4), weft.nn.Linear(4, 2)
            )
        file.seek(0)
        if how == "map_location":
            state = weft.load(file, map_location="meta")
            assert all(t.is_meta for t in state.values())
            continue
        state = weft.load(file)
        if how == "to_empty":
            model.to_empty(device="cpu")
        model.load_state_dict(state, assign=how == "assign")
        assert all(isinstance(p, weft.nn.Parameter) and p.is_cpu for p in model.parameters())
        assert weft.equal(model.eval()(x), original.eval()(x))
    with pytest.warns(UserWarning, match="which is a no-op"):
        weft.nn.Linear(2, 3, device="meta").load_state_dict(weft.nn.Linear(2, 3).state_dict())


def test_files_keep_meta_tensors():
    for kind in (
        {"strided": weft.empty(2, 3, device="meta").t()},
        weft.nn.Linear(2, 3, device="meta"),
    ):
        file = io.BytesIO()
        weft.save(kind.state_dict() if isinstance(kind, weft.nn.Module) else kind, file)
        assert len(file.getvalue()) < 4000
        for lib in (weft, torch):
            file.seek(0)
            for t in lib.load(file).values():
                assert t.is_meta
    from weft import safetensors

    with pytest.raises(ValueError, match="expected tensors with values"):
        safetensors.save({"a": weft.zeros(2, device="meta")})


def test_a_gradient_does_not_come_back():
    x = weft.ones(2, requires_grad=True)
    y = x.to("meta")
    assert y.requires_grad and y.is_meta
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        y.sum().backward()


def test_second_order_and_hooks():
    x = weft.empty(3, device="meta", requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.shape))
    (grad,) = weft.autograd.grad((x**3).sum(), x, create_graph=True)
    grad.sum().backward()
    assert grad.is_meta and x.grad.is_meta and seen == [(3,), (3,)]
    view = weft.zeros(4, device="meta").requires_grad_().clone()
    view[1:].mul_(2)
    assert type(view.grad_fn).__name__ == "CopySlices" or "CopySlices" in view.grad_fn.name()
    assert view._version == 1


# ---- batches, programs


def test_in_a_batch_and_compiled():
    m, w = weft.empty(2, 3, device="meta"), weft.ones(3)

    def f(x: Any) -> Any:
        return (m * 2).sum(0), x * w + weft.zeros(3)

    for a, b in weft.autobatch(f)([weft.ones(3), weft.ones(3) * 2, weft.ones(3) * 3]):
        assert a.is_meta and a.shape == (3,) and b.is_cpu

    @weft.compile
    def g(x: Any) -> Any:
        y = x * 2 + 1
        return y.exp().sum(-1)

    for _ in range(20):
        assert g(m).is_meta and g(weft.ones(2, 3)).is_cpu
    for _ in range(20):
        assert g(weft.ones(2, 3)).is_cpu and g(m).shape == (2,)


def test_backward_from_an_edge_starts_on_its_graphs_device():
    """It started on the CPU, so that a meta leaf got a gradient with values."""
    w = weft.ones(3, device="meta", requires_grad=True)
    edge = weft.autograd.graph.get_gradient_edge((w * 2).sum())
    weft.autograd.backward(edge)
    assert w.grad.is_meta and w.grad.shape == (3,)


@pytest.mark.parametrize("lengths", [[5, 2], [2, 5], [3, 3]])
def test_packed_sequences(lengths: list[int]) -> None:
    """Lengths and orders are of the CPU, rows of meta: the two were put together."""
    rnn = weft.nn.utils.rnn

    def shapes(device: str) -> list[tuple[int, ...]]:
        padded = weft.empty(2, 5, 3, device=device)
        packed = rnn.pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        out, (h, c) = weft.nn.LSTM(3, 4, device=device)(packed)
        again, _ = rnn.pad_packed_sequence(out, batch_first=True)
        made = [packed.data, out.data, h, c, again]
        assert {t.device.type for t in made} == {device}
        return [tuple(t.shape) for t in made]

    assert shapes("meta") == shapes("cpu")


@pytest.mark.parametrize("of, given", [("meta", "cpu"), ("cpu", "meta")])
def test_a_gradient_of_another_device_is_refused(of: str, given: str) -> None:
    """It was taken, and the leaf had a gradient that lay elsewhere."""
    for lib in (weft, torch):
        x = lib.ones(2, device=of, requires_grad=True)
        with pytest.raises(RuntimeError, match=f"expected device {of} but got {given}"):
            (x * 2).backward(lib.ones(2, device=given))
        assert x.grad is None
