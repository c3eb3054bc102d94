"""Wrong calls, one a line in wrong_calls.txt: each raises what PyTorch raises.

The list is what users get wrong: sizes, dtypes, dims, indices, names of modes, arguments left out.
"""

import copy
import pathlib
import warnings

import pytest

import weft

torch = pytest.importorskip("torch")
CALLS = (pathlib.Path(__file__).parent / "wrong_calls.txt").read_text().splitlines()


def raised(t, call):
    names = {"t": t, "nn": t.nn, "F": t.nn.functional, "copy": copy}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(call, names)  # noqa: S307
    except Exception as error:
        return type(error).__name__.lstrip("_")
    return "nothing"


def test_a_wrong_call_raises_pytorchs_type():
    ours = {call: raised(weft, call) for call in CALLS}
    theirs = {call: raised(torch, call) for call in CALLS}
    assert len(CALLS) > 300
    assert [call for call, error in theirs.items() if error == "nothing"] == []
    slips = {c for c, e in theirs.items() if e == "AttributeError" and ours[c] == "TypeError"}
    assert {c: e for c, e in ours.items() if e != theirs[c] and c not in slips} == {}


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("key", ["m", "(m, 0)", "(0, m)", "(slice(None), m)", "(m, [1])"])
def test_a_mask_without_dimensions_adds_one(mask, key):
    """Reading by a 0-d bool tensor dropped the dimension that True adds."""
    values = []
    for t in (weft, torch):
        x = t.arange(6.0).reshape(2, 3)
        index = eval(key, {"m": t.tensor(mask), "slice": slice})  # noqa: S307
        values.append((list(x[index].shape), x[index].flatten().tolist()))
        x[index] = 9
        values[-1] += (x.tolist(),)
    assert values[0] == values[1]


def test_integers_wrap_around():
    top = 2**63 - 1
    x = weft.tensor([top, -top - 1])
    assert (x + 1).tolist() == [-top - 1, -top]
    assert (x - 1).tolist() == [top - 1, top]
    assert (x * 2).tolist() == [-2, 0]
    assert (-x).tolist() == [-top, -top - 1]
    assert weft.tensor([top, 2]).sum().item() == -top
    assert weft.tensor([top, 2]).cumsum(0)[1].item() == -top
    assert (weft.tensor([[top, 2]]) @ weft.tensor([[2], [1]])).item() == 0
    assert weft.dot(weft.tensor([top, 1]), weft.tensor([2, 2])).item() == 0
    assert weft.diff(weft.tensor([-2, top])).item() == -top
    assert weft.trapezoid(weft.tensor([top, top])).item() == -1
    assert weft.cumprod(weft.tensor([top, 2, 2]), 0).tolist() == [top, -2, -4]
    assert (
        weft.addmm(weft.tensor([[top]]), weft.tensor([[top]]), weft.tensor([[2]])).item() == top - 2
    )


# The tensors' other names, the older orders of arguments, memory_format= and ints beyond 64 bits.
SPELLINGS = """
t.add(x1=x, x2=x); t.sum(a=x); t.sum(x=x, axis=0, keepdims=True); F.linear(x=x, weight=x)
x.add(x2=x); t.flip(x, axis=[0]); t.permute(x, axis=(1, 0)); t.add(tensor=x, other=x)
t.stack(tensor=x); t.split(tensor=x, split_size_or_sections=1); x.split(split_size=1)
t.sum(input=x, x=x)
t.add(x, 1, x); t.add(x, x, 2); x.add(2, x); x.sub(2, x); t.sub(x, 2, x); t.rsub(x, 2, x)
t.rsub(2, x, x); t.add(1, 2, x); t.addmm(2, x, 3, x, x); t.addmm(2, x, x, x); t.addmm(x, 2, x, x)
t.addmm(x, x, 2, x); x.addmm(2, 3, x, x); x.addmm(2, x, x); x.clone().addmm_(2, 3, x, x)
t.addcmul(x, 2, x, x); t.addcmul(2, x, x, x); t.addcmul(x, x, 2, x); x.clone().addcdiv_(2, x, x)
t.add(x, x, memory_format=t.channels_last); x.exp(memory_format=None)
t.clone(x, memory_format=t.preserve_format); x.clone(memory_format=t.channels_last)
t.zeros(2, memory_format=t.contiguous_format); t.ones_like(x, memory_format=t.preserve_format)
t.eye(2, memory_format=t.contiguous_format); t.linspace(0, 1, 3, memory_format=None)
t.zeros(2, non_blocking=False); t.zeros(2, layout=t.strided, device='cpu', pin_memory=False)
t.sum(x, B); t.sum(x, (B,)); t.sum(x, [0, B]); x.permute(B, 0); x.permute((B, 0)); x.flip(B)
x.flip((B,)); x.view(B); x.view((B,)); x.roll(B); x.roll((B,), (0,)); x.roll((1,), (B,))
x.squeeze((B,)); x.squeeze(B); x.mean((0, B)); x.amax((0, B)); x.expand(B, 2); x.repeat(B)
t.zeros(B); t.zeros((B,)); x.split((B,)); t.logsumexp(x, (B,)); t.logsumexp(x, B); x.all((B,))
"""


def test_every_way_to_pass_an_argument_is_pytorchs():
    def told(t, call):
        names = {"t": t, "F": t.nn.functional, "x": t.tensor([[1.0, 2.0], [3.0, 4.0]]), "B": 2**70}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an older order, which PyTorch tells once
                out = eval(call, names)  # noqa: S307
        except Exception as error:
            return type(error).__name__
        return [o.tolist() for o in (out if isinstance(out, tuple) else [out])]

    calls = [c.strip() for c in SPELLINGS.replace("\n", ";").split(";") if c.strip()]
    ours, theirs = ({c: told(t, c) for c in calls} for t in (weft, torch))
    assert {c: (v, theirs[c]) for c, v in ours.items() if v != theirs[c]} == {}
    with pytest.warns(UserWarning, match="alpha= by its name"):
        weft.ones(2).add_(2, weft.ones(2))
