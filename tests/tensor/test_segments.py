"""`segment_reduce` and `fake_quantize_per_*_affine` beside PyTorch: values, gradients, errors."""

import pytest

import weft

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

# a call that gives a tensor; D has gradients
SEGMENTS = [
    f"T.segment_reduce(D, '{how}', initial={initial}, {given})"
    for how in ("sum", "mean", "max", "min", "prod")
    for initial in ("None", "1.", "2.5")
    for given in ("lengths=Z", "offsets=T.tensor([0, 2, 2, 5])", "lengths=Z.int()",
                  "lengths=T.tensor([1, 2]), unsafe=True")
]  # fmt: skip
SEGMENTS += [
    f"T.segment_reduce({data}, '{how}', {given})"
    for how in ("sum", "mean", "amax", "prod")
    for data, given in (
        ("D.t()", "lengths=T.tensor([[2, 3], [1, 4]]), axis=1"),
        ("D.t()", "offsets=T.tensor([[0, 2, 5], [0, 1, 5]]), axis=1"),
        ("D.half()", "lengths=Z"),
        ("D.double()[:0]", "lengths=T.tensor([0, 0])"),
        ("T.tensor([float('nan'), 1., 2.])", "lengths=T.tensor([2, 1])"),
        ("T.tensor([float('inf'), 1., 2.], requires_grad=True)", "lengths=T.tensor([2, 1])"),
    )
]
WRONG_SEGMENTS = """\
D, 'sum'; D, 'avg', lengths=Z; D, 'sum', lengths=Z[:2]; D, 'sum', lengths=Z, axis=1
D, 'sum', lengths=Z.float(); D.long(), 'sum', lengths=Z; D, 'sum', lengths=T.tensor([-1, 6])
D, 'sum', indices=Z; T.tensor(1.), 'sum', lengths=T.tensor([1])"""
PER_TENSOR = """\
X, 0.1, 0, 0, 255; X, 0.1, 10, -128, 127; X, 0.3, 3, 0, 15; X, T.tensor(0.1), T.tensor(0), 0, 255
X, T.tensor([0.1]), T.tensor([300]), 0, 255; X.double(), 0.1, 0, 0, 255; X.half(), 0.1, 0, 0, 255
X.bfloat16(), 0.1, 0, 0, 255; X, 0.1, T.tensor(0), 0, 255; T.ones(0, 3), .1, 0, 0, 3
X, T.tensor([0.1, 1.]), T.tensor([0, 1]), 0, 255; X, 0.1, 0, 255, 0; X, .1, 300, 0, 255
X, .1, 0, .5, 255; X, .1, 1.5, 0, 255; X.nan_to_num().long(), .1, 0, 0, 255
X, T.tensor(.1, requires_grad=True), T.tensor(0), 0, 3"""
PER_CHANNEL = """\
Y, S, P, 1, -2, 3; Y.half(), S, P, 1, 0, 3; Y.double(), S, P, 1, 0, 3
Y, S, P.float() + .5, 1, -2, 3
T.ones(0, 3), S, P, 1, 0, 3; Y, S, P, 0, 0, 3; Y, S, P, -1, 0, 3; Y, S, P, 2, 0, 3
Y, S, P.long(), 1, 0, 3; Y, S.double(), P, 1, 0, 3; Y, S, P[:2], 1, 0, 3; Y, S, P + 5, 1, 0, 3
Y, S, P, 1, 3, 0; Y, S[None], P, 1, 0, 3; Y, S, P[None], 1, 0, 3
Y, S.requires_grad_(), P, 1, 0, 3"""


def listed(function, text):
    return [f"T.{function}({call})" for call in text.replace("\n", "; ").split("; ")]


CALLS = [
    *SEGMENTS,
    *listed("segment_reduce", WRONG_SEGMENTS),
    *listed("fake_quantize_per_tensor_affine", PER_TENSOR),
    *listed("fake_quantize_per_channel_affine", PER_CHANNEL),
]


def outcome(lib, call):
    """The result and the gradients, or the type of the error."""
    numbers = [-3.0, -0.26, 0.05, 0.15, 0.25, 0.35, 1.0, 30.0, *map(float, ("nan", "inf", "-inf"))]
    leaves = {
        "D": [[1.0, 2.0], [1.0, 0.0], [3.0, 0.0], [4.0, 5.0], [4.0, 7.0]],
        "X": numbers,
        "Y": [[0.3, -0.7, 1.2], [0.11, 0.22, -0.33]],
    }
    names = {name: lib.tensor(data, requires_grad=True) for name, data in leaves.items()}
    grads = list(names.values())
    names |= {"T": lib, "Z": lib.tensor([2, 0, 3]), "S": lib.tensor([0.1, 0.2, 0.3]),
              "P": lib.tensor([0, 1, 2], dtype=lib.int32)}  # fmt: skip
    try:
        out = eval(call, names)  # noqa: S307
    except Exception as error:  # noqa: BLE001
        return next(t for t in type(error).__mro__ if t.__module__ == "builtins")
    if out.requires_grad:
        weights = lib.arange(1.0, 1 + out.numel()).view(out.shape)
        (out.nan_to_num(0, 0, 0) * weights).sum().backward()
    return [str(out.dtype), out.shape, out.double().tolist(),
            *(None if t.grad is None else t.grad.tolist() for t in grads)]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_beside_pytorch(call):
    got, expected = outcome(weft, call), outcome(torch, call)
    if isinstance(expected, type) or isinstance(got, type):
        assert isinstance(got, type) and issubclass(got, expected), (got, expected)
        return
    assert got[:2] == expected[:2]
    for a, b in zip(got[2:], expected[2:], strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            a, b = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
            assert torch.allclose(a, b, 1e-6, 1e-7, equal_nan=True), (a, b)


def test_they_can_be_differentiated_again_and_compiled():
    x = weft.tensor([0.12, 0.26, 9.0], dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradcheck(
        lambda t: weft.segment_reduce(t, "prod", lengths=weft.tensor([2, 1])), x
    )

    def f(t):
        return weft.fake_quantize_per_tensor_affine(t, 0.1, 0, 0, 15)

    assert weft.compile(f)(x).tolist() == f(x).tolist()
