"""`MaskedTensor` beside PyTorch's: data under the mask, masks, gradients, text and errors."""

import copy
import io
import pickle
import warnings

import pytest

import weft
from weft.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

DATA = [[0.5, 1.0, 2.0, -3.0], [4.0, 5.0, -6.0, 7.0]]
MASK = [[True, False, True, True], [False, False, True, False]]


def given(lib):
    """What the calls below are about."""
    data, mask = lib.tensor(DATA), lib.tensor(MASK)
    make = lib.masked.masked_tensor
    return {
        "torch": lib, "data": data, "mask": mask, "masked_tensor": make,
        "m": make(data, mask, requires_grad=True), "n": make(data * 2 + 0.25, mask),
        "other": make(data, ~mask), "cond": data > 1, "row": lib.tensor([1.0, 2.0, 3.0, 4.0]),
        "i": make((data * 4).int(), mask), "t": make(data > 1, mask),
        "coo": make(data * 2 + 0.25, mask).to_sparse(), "pair": [[0, 1, 1], [2, 0, 2]],
        "csr": make(data * 2 + 0.25, mask).to_sparse_csr(), "sparse": lib.sparse_coo_tensor,
    }  # fmt: skip


def found(lib, call):
    """The text, dtype, shape and mask of what a call gives; an error's type and text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's are a prototype
        try:
            out = eval(call, given(lib))  # noqa: S307
        except Exception as error:  # noqa: BLE001
            return type(error), str(error)
    return described(out)


def described(out):
    if isinstance(out, (tuple, list)):
        return [described(x) for x in out]
    if not hasattr(out, "_masked_mask"):
        return str(out)
    mask = out._masked_mask
    kind, mask = str(mask.layout), mask.to_dense() if out.is_sparse else mask
    return str(out), str(out.dtype), kind, tuple(out.shape), mask.tolist(), out.requires_grad


ELEMENTWISE = """m+n; m-n; m*n; m/n; m*2; 2*m; m+1; m-1; m/2; 2/m; data*m; m*data; m*row;
m[0]+data; m**2; m**2.0; -m; +m; abs(m); m//2; m%2; n.floor_divide(2); torch.fmod(m, 2); m.exp();
torch.exp(m); m.log(); m.sqrt(); m.abs(); m.absolute(); m.sin(); m.cos(); m.tan(); m.tanh();
m.sigmoid(); m.erf(); m.expm1(); m.log1p(); m.log2(); m.floor(); m.ceil(); m.round(); m.trunc();
m.frac(); m.sign(); m.square(); m.reciprocal(); m.rsqrt(); m.neg(); m.isnan(); m.clamp(0, 1);
m.clamp(min=0); m.sinc(); m.clip(-1, 1); m.nan_to_num(); m.signbit(); m.logit(); m.rad2deg();
m.lgamma(); m.digamma(); torch.atan2(m, n); torch.logaddexp(m, n); torch.maximum(m, n);
torch.minimum(m, data); torch.fmax(m, n); torch.fmin(n, data); torch.add(n, data);
torch.mul(data, n); torch.true_divide(m, n); m<3; m<=n; m>n; m>=0; m==n; m!=3; 3<m; m.eq(n);
torch.lt(m, n); torch.ne(m, 1); i&i; i|i; i^3; ~i; ~t; t&t; t|t; i+1; i*i; i/2; i//3;
m.float_power(2); m.remainder(2)"""
MOVING = """m[0]; m[:, 1]; m[:, 1:3]; m[None]; m[..., None]; m[0, 2]; m[0, 1]; m[-1, ::2];
m[mask]; m[torch.tensor([0, 0])]; m[[1, 0]]; m.view(8); m.view(-1); m.view(4, 2); m.reshape(4, 2);
m.t(); m.mT; m.transpose(0, 1); m.swapaxes(0, 1); m.unsqueeze(0); m.expand(3, 2, 4);
m.expand(3, -1, -1); m.flatten(); m.ravel(); m.unflatten(1, (2, 2)); m.narrow(1, 1, 2);
m.select(1, 2); m.split(1); m.chunk(2, 1); torch.cat([m, n]); torch.cat([m, n], 1);
torch.stack([m, n]); m.unfold(1, 2, 1); m.view_as(data); m.expand_as(data[None]);
m.broadcast_to(3, 2, 4); m.clone(); m.detach(); m.contiguous(); m.t().contiguous();
m.to(torch.float64); m.double(); m.int(); m.bool(); m.half(); torch.ones_like(m); m.data;
m.to_dense(); m.cpu()"""
REDUCTIONS = """m.sum(); m.sum(1); m.sum(-1); m.sum(0, keepdim=True); m.sum(dim=(0, 1));
m.sum((0,)); m.sum(0, True); m.sum(0, dtype=torch.float64); torch.sum(m); torch.sum(m, dim=0);
m.mean(); m.mean(0); torch.mean(m, 1, keepdim=True); m.prod(); m.prod(0); torch.prod(m, 1);
m.amax(); m.amax(1); m.amin(0); torch.amin(m, 0, True); m.amin(); m.argmax(); m.argmax(0);
m.argmin(1, keepdim=True); m.argmin(); torch.argmin(m, 0); m.std(); m.std(0); m.var(); m.var(1);
m.all(); t.all(0); t.all(1, True); t.all(); m.softmax(-1); torch.softmax(m, 0);
torch.nn.functional.softmax(m, 1); i.sum(); i.amax(0); i.prod(1); m.view(2, 2, 2).sum((0, 2));
m.view(2, 2, 2).amax((0, 2)); m.view(2, 2, 2).mean((1, 2), keepdim=True)"""
OTHERS = """torch.where(cond, m, n); torch.where(cond, m, other); torch.where(cond, m, data);
torch.where(cond, data, m); torch.where(cond, m, 0.0); torch.where(mask, m, other); m.get_mask();
n.get_data(); m.to_tensor(7.0).detach(); n.to_tensor(-1); i.to_tensor(5); n.add_(1); n.mul_(n);
n.exp_().abs() * 0; n.sqrt_(); n.neg_(); n.copy_(n); n.sub_(data); m[0, 0].item(); float(m[0, 2]);
int(i[1, 2]); bool(t[0, 2]); len(m); m.shape; m.dtype; m.layout; m.is_leaf; m.numel(); m.dim();
m.device; m.stride(); m.is_sparse; m.is_sparse_coo(); m.is_sparse_csr(); m.is_contiguous();
m.t().is_contiguous(); torch.is_tensor(m); torch.masked.is_masked_tensor(m); f"{n}";
torch.masked.is_masked_tensor(data); torch.masked.is_masked_tensor(3); type(m).__name__;
masked_tensor(torch.tensor(3.0), torch.tensor(True)); masked_tensor(torch.tensor(3), mask[0, 1]);
masked_tensor(data.double() * 1e5, mask); masked_tensor((data * 1e9).long(), mask);
masked_tensor(torch.tensor([1.5, float("nan"), float("inf"), 2.0]), mask[0]);
masked_tensor(torch.arange(24).view(2, 3, 4), torch.arange(24).view(2, 3, 4) % 5 > 1);
masked_tensor(torch.zeros(0, 2), torch.zeros(0, 2).bool()); torch.masked.sum(n, 1, mask=mask);
torch.masked.amax(n, mask=mask); torch.masked.mean(n, 0, mask=mask);
torch.masked.var(n, 1, mask=mask); torch.masked.softmax(n, 1, mask=mask);
torch.masked.argmin(n, 1, mask=mask)"""
REFUSED = """m+other; m*other; torch.maximum(m, other); n.add_(other); n+n[0]; m.max(); m.max(1);
m.min(); m.cumsum(0); m.logsumexp(0); m.median(); m.sort(); m @ n.t(); torch.mm(m, data.t());
m.nonzero(); m.count_nonzero(); m.masked_select(mask); n.zero_(); n.fill_(1); torch.equal(n, n);
torch.allclose(n, n); torch.cat([m, data]); m.item(); m[0, 1].item(); m.tolist(); m.numpy();
torch.full_like(m, 2.0); torch.empty_like(m); torch.nn.functional.linear(m, data);
torch.nn.functional.dropout(m); torch.nn.MSELoss()(m, n); m.sum(5); m.sum((0, 0)); m.bfloat16();
masked_tensor(m, mask); masked_tensor(data, m); masked_tensor([1.0], mask);
masked_tensor(data, [True]); masked_tensor(data, mask.int()); masked_tensor(data, mask[0]);
masked_tensor(data, mask[:, :2]); masked_tensor(data.bfloat16(), mask);
masked_tensor(data.to(torch.complex64), mask); masked_tensor(data.to(torch.uint8), mask);
i.mean(); torch.where(m>0, m, n); ~n"""


def calls(text):
    return [c.strip() for c in text.replace("\n", " ").split(";")]


@pytest.mark.parametrize(
    "call", calls(ELEMENTWISE + ";" + MOVING + ";" + REDUCTIONS + ";" + OTHERS)
)
def test_calls_give_what_pytorchs_do(torch, call):
    expected = found(torch, call)
    assert not isinstance(expected[0], type), expected
    assert found(weft, call) == expected


@pytest.mark.parametrize("call", calls(REFUSED))
def test_calls_raise_what_pytorchs_do(torch, call):
    mine, theirs = found(weft, call), found(torch, call)
    assert isinstance(mine[0], type) and isinstance(theirs[0], type), (mine, theirs)
    assert issubclass(mine[0], theirs[0]) or issubclass(theirs[0], mine[0]), (mine, theirs)


def test_errors_say_what_pytorchs_do(torch):
    for call in calls(REFUSED):
        text = found(torch, call)[1]
        if text.startswith(("data", "mask must", "torch.")):
            assert text in found(weft, call)[1], call


GRADIENTS = """m.sum(); m.mean(); m.prod(); m.amax(); m.amin(); m.std(); m.sum(0).sum();
m.mean(0).sum(); m.amax(1).sum(); m.prod(0).sum(); m.var(0).amax(); (m * m).sum(); (m * n).sum();
(m / n).sum(); (m / 2).mean(); (2 / m).sum(); (m * data).sum(); (m * row).sum(); (m + n).prod();
(m - n).exp().sum(); m.exp().sum(); m.log().sum(); m.sqrt().sum(); m.abs().sum(); m.sin().sum();
(m**2).sum(); m[0].sum(); m[:, 1:].sum(); m[0, 2]; m.view(8).sum(); m.reshape(4, 2).sum(0).prod();
m.t().sum(); m.clone().sum(); m.transpose(0, 1).sum(1).mean(); m.expand(3, 2, 4).sum();
torch.cat([m, n]).sum(); m.double().sum(); torch.stack([m, n]).mean();
torch.where(cond, m, n).sum(); torch.where(cond, n, m * 3).sum();
torch.where(mask, m.exp(), other).sum(); torch.where(cond, m, data).sum(); m.softmax(-1).sum();
m.get_data().sum(); m.to_tensor(0.0).sum(); (m.to_tensor(2.0) * data).sum(); m.mean(1).amin();
m.contiguous().sum(); torch.cat(m.split(2, 1)).sum(); (m.softmax(1) * data).sum()"""


@pytest.mark.parametrize("call", calls(GRADIENTS))
def test_gradients_are_pytorchs(torch, call):
    grads = []
    for lib in (weft, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            words = given(lib)
            eval(call, words).backward()  # noqa: S307
            grads.append(words["m"].grad)
    mine, theirs = grads
    assert type(mine) is MaskedTensor
    assert mine.get_mask().tolist() == theirs.get_mask().tolist()
    torch.testing.assert_close(
        torch.tensor(mine.to_tensor(0.0).tolist()), theirs.to_tensor(0.0).to(torch.float32),
        equal_nan=True,
    )  # fmt: skip


MORE = {
    "m.permute(1, 0)": ("data.t()", "mask.t()"),
    "m.T": ("data.t()", "mask.t()"),
    "m.unsqueeze(0).squeeze(0)": ("data", "mask"),
    "m.flip(0)": ("data.flip(0)", "mask.flip(0)"),
    "m.roll(1, 1)": ("data.roll(1, 1)", "mask.roll(1, 1)"),
    "m.repeat(2, 1)": ("data.repeat(2, 1)", "mask.repeat(2, 1)"),
    "m.index_select(1, torch.tensor([2, 0]))": ("data[:, [2, 0]]", "mask[:, [2, 0]]"),
    "m.unbind(1)[2]": ("data[:, 2]", "mask[:, 2]"),
    "list(m)[0]": ("data[0]", "mask[0]"),
    "m.relu()": ("data.relu()", "mask"),
    "2 - m": ("2 - data", "mask"),
    "2 ** m": ("2 ** data", "mask"),
    "torch.nn.functional.gelu(m)": ("torch.nn.functional.gelu(data)", "mask"),
    "torch.lerp(m, n, 0.5)": ("data * 1.5 + 0.125", "mask"),
    "torch.zeros_like(m)": ("torch.zeros(2, 4)", "mask"),
    "m.masked_fill(cond, 9)": ("data.masked_fill(cond, 9)", "mask"),
    "t.any()": ("torch.tensor(True)", "torch.tensor(True)"),
    "m.norm(1)": ("torch.tensor(11.5)", "torch.tensor(True)"),
    "m.sum(dtype=torch.float64)": ("torch.tensor(-6.5).double()", "torch.tensor(True)"),
    "m.where(cond, n)": ("torch.where(cond, data, data * 2 + 0.25)", "mask"),
    "m.log_softmax(1)": ("torch.masked.log_softmax(data, 1, mask=mask)", "mask"),
}


@pytest.mark.parametrize("call", MORE)
def test_calls_that_pytorch_refuses_run_on_data_and_mask(call):
    words = given(weft)
    out = eval(call, words)  # noqa: S307
    data, mask = (eval(c, words) for c in MORE[call])  # noqa: S307
    assert weft.equal(out.get_mask(), mask) and out.dtype == data.dtype
    weft.testing.assert_close(out.to_tensor(0), data.masked_fill(~mask, 0))


@pytest.mark.parametrize(
    "name", ["tanh", "sigmoid", "relu", "flip", "roll", "permute", "index", "log_softmax", "clamp"]
)
def test_gradients_that_pytorch_refuses_are_those_of_the_data(name):
    run = {
        "flip": lambda x: x.flip(1) * 2, "roll": lambda x: x.roll(1, 1) * 2,
        "permute": lambda x: x.permute(1, 0) * 2, "index": lambda x: x[weft.tensor([0, 1, 0])],
        "log_softmax": lambda x: x.log_softmax(1), "clamp": lambda x: x.clamp(0, 1),
    }.get(name, lambda x: getattr(x, name)())  # fmt: skip
    words = given(weft)
    m, mask = words["m"], words["mask"]
    x = words["data"].masked_fill(~mask, -float("inf") if name == "log_softmax" else 0)
    x.requires_grad_()
    run(m).sum().backward()
    out = run(x)
    out[out.isfinite()].sum().backward()
    assert weft.equal(m.grad.get_mask(), mask)
    weft.testing.assert_close(m.grad.to_tensor(0), x.grad.masked_fill(~mask, 0))


def test_a_hidden_gradient_is_no_gradient():
    """PyTorch takes the data under it."""
    words = given(weft)
    m, n, mask = words["m"], words["n"], words["mask"]
    shown = weft.tensor([True, False, False, False])
    weft.where(shown, m.sum(0), n.sum(0)).sum().backward()
    assert m.grad.to_tensor(0).tolist() == [[1.0, 0.0, 0.0, 0.0], [0.0] * 4]
    assert weft.equal(m.grad.get_mask(), mask)


def test_as_masked_tensor_is_in_the_graph_of_its_data():
    x = weft.tensor(DATA, requires_grad=True)
    mask = weft.tensor(MASK)
    as_masked_tensor(x * 3, mask).sum().backward()
    assert is_masked_tensor(x.grad) and weft.equal(x.grad.to_tensor(0), mask * 3.0)
    with pytest.raises(ValueError, match=r"data\.size\(\) must equal mask\.size\(\)"):
        as_masked_tensor(x, mask[:, :2])


def test_masked_tensor_copies_and_warns_of_data_with_a_gradient():
    x, mask = weft.tensor(DATA, requires_grad=True), weft.tensor(MASK)
    with pytest.warns(UserWarning, match="It is not recommended to create a MaskedTensor"):
        m = masked_tensor(x, mask)
    assert not m.requires_grad and m.get_data().data_ptr() != x.data_ptr()
    mask[0, 0] = False
    assert m.get_mask()[0, 0]


def test_gradients_add_up_and_a_second_backward_too():
    m = given(weft)["m"]
    for _ in range(2):
        (m.sum() + m.exp().mean()).backward()
    once = given(weft)["m"]
    (once.sum() + once.exp().mean()).backward()
    weft.testing.assert_close(m.grad.to_tensor(0), 2 * once.grad.to_tensor(0))


def test_copies_and_files():
    n = given(weft)["n"]
    file = io.BytesIO()
    weft.save(n, file)
    file.seek(0)
    twins = copy.deepcopy(n), pickle.loads(pickle.dumps(n)), weft.load(file, weights_only=False)
    for twin in twins:
        assert type(twin) is MaskedTensor and str(twin) == str(n)
        twin.add_(1)
    assert str(n) == str(given(weft)["n"])


@pytest.mark.parametrize("call", ["n.copy_(other)", "m < other"])
def test_masks_have_to_match_where_pytorch_forgets_to_look(call):
    kind, text = found(weft, call)
    assert kind is ValueError and "same mask" in text


SPARSE = """coo; csr; coo.get_data(); csr.get_data(); coo.get_mask(); csr.get_mask(); coo.layout;
csr.layout; coo.is_sparse; csr.is_sparse; coo.is_sparse_coo(); coo.is_sparse_csr();
csr.is_sparse_csr(); csr.is_sparse_coo(); coo.shape; coo.numel(); len(csr); n.to_sparse_coo();
m.to_sparse().requires_grad; coo.to_dense(); csr.to_dense(); coo.to_sparse_csr();
masked_tensor((data > 1).float(), data > 1).to_sparse(); m.to_sparse().to_dense(); coo.sin();
csr.sin(); coo.abs(); coo.sqrt(); csr.floor(); coo + coo; coo * coo; csr * csr; csr - csr;
coo * 2; csr + 1; coo == coo; coo.clone(); csr.clone(); coo.detach(); csr.detach(); coo.double();
csr.double(); torch.ones_like(csr); coo.sum(); csr.sum(); coo.mean(); csr.mean(); coo.prod();
csr.prod(); coo.amax(); csr.amax(); coo.amin(); csr.amin(); coo.argmax(); coo.argmin(); coo.std();
torch.sum(coo); masked_tensor(data.to_sparse(), mask.to_sparse());
masked_tensor(data.to_sparse_csr(), mask.to_sparse_csr());
masked_tensor(sparse(pair, [3.0, 4.0, 5.0], (2, 3)), sparse(pair, [True, False, True], (2, 3)));
masked_tensor(sparse(pair, [3.0, 4.0, 5.0], (2, 3)), sparse(pair, [True, False, True], (2,
3))).sum();
masked_tensor(sparse([[0, 0], [1, 1]], [3.0, 4.0], (2, 2)), sparse([[0], [1]], [True], (2, 2)))"""
SPARSE_REFUSED = """masked_tensor(data.to_sparse(), mask); masked_tensor(data, mask.to_sparse());
masked_tensor(data.to_sparse(), mask.to_sparse_csr());
masked_tensor(data.to_sparse_csc(), mask.to_sparse_csc());
masked_tensor(sparse(pair, [3.0, 4.0, 5.0], (2, 3)), sparse([[0, 1, 1], [2, 0, 1]], [True] * 3,
(2, 3))); masked_tensor(sparse(pair, [3.0, 4.0, 5.0], (2, 3)), sparse(pair, [True] * 3, (2, 4)));
masked_tensor(sparse(pair, [3.0, 4.0, 5.0], (2, 3)), sparse(pair, [1] * 3, (2, 3))); coo + n;
n + coo; coo + csr; coo + other.to_sparse(); csr + other.to_sparse_csr(); coo + data; data + coo;
coo.sum(0); csr.sum(1); csr.amax(1); n.view(2, 2, 2).to_sparse_csr(); coo.item(); coo.max();
coo.cumsum(0); torch.where(cond, coo, coo)"""


@pytest.mark.parametrize("call", calls(SPARSE))
def test_sparse_ones_give_what_pytorchs_do(torch, call):
    expected = found(torch, call)
    assert not isinstance(expected[0], type), expected
    assert found(weft, call) == expected


@pytest.mark.parametrize("call", calls(SPARSE_REFUSED))
def test_sparse_ones_raise_what_pytorchs_do(torch, call):
    (kind, text), (theirs, words) = found(weft, call), found(torch, call)
    assert issubclass(kind, theirs) or issubclass(theirs, kind), (text, words)
    if words.startswith(("data", "mask must", "`a` and", "Only 2D")):
        assert words in text


@pytest.mark.parametrize("to", ["to_sparse", "to_sparse_csr"])
@pytest.mark.parametrize("name", ["sum", "sin().sum", "exp().mean", "to_dense().sum", "amax"])
def test_gradients_through_sparse_ones_are_those_of_dense_ones(to, name):
    grads = []
    for start in (f"m.{to}()", "m"):
        words = given(weft)
        eval(f"{start}.{name}()", words).backward()  # noqa: S307
        grads.append(words["m"].grad)
    assert weft.equal(grads[0].get_mask(), grads[1].get_mask())
    weft.testing.assert_close(grads[0].to_tensor(0), grads[1].to_tensor(0))


def test_the_gradient_of_a_sparse_leaf_is_one_of_its_places():
    values, shown = [3.0, 4.0, 5.0], [True, False, True]
    pair = [[0, 1, 1], [2, 0, 2]]
    both = (weft.sparse_coo_tensor(pair, v, (2, 3)) for v in (values, shown))
    x = masked_tensor(*both, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.is_sparse_coo() and x.grad.get_mask().values().tolist() == shown
    assert x.grad.to_tensor(0).tolist() == [[0.0, 0.0, 6.0], [0.0, 0.0, 10.0]]


def test_what_a_sparse_mask_hides_does_not_count_where_pytorch_counts_it():
    """Its mean of hidden values at kept places, and argmax of CSR."""
    words = given(weft)
    pair = words["pair"]
    shown = weft.sparse_coo_tensor(pair, [True, False, True], (2, 3))
    x = masked_tensor(weft.sparse_coo_tensor(pair, [3.0, 4.0, 5.0], (2, 3)), shown)
    assert x.mean().item() == 4.0
    assert words["csr"].argmax().item() == words["coo"].argmax().item() == 2.0


def test_sparse_ones_are_copied_and_kept():
    for name in ("coo", "csr"):
        x = given(weft)[name]
        for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert str(twin) == str(x) and twin.layout is x.layout
            twin.mul_(2)
        assert str(x) == str(given(weft)[name])
