"""PyTorch's well-known sentences: programs and people search for them, so our messages have them.

sentences.txt is what users get wrong, a call a line: training loops, data loaders, saved states,
indices, shapes, dtypes, autograd, layers, losses, optimizers. Each raises PyTorch's type of
exception, and the message has PyTorch's first sentence, sizes and names included.
"""

import io
import pathlib
import re
import warnings

import pytest

import weft

torch = pytest.importorskip("torch")
CALLS = (pathlib.Path(__file__).parent / "sentences.txt").read_text().splitlines()

#: What PyTorch says worse, by its sentence: the error's type is the same, the words are ours.
LEFT = {
    "Could this error message be improved": ("t.bernoulli(t.tensor([2.]))",),
    # names of kernels, of which weft has others
    "not implemented for 'Float'": ("t.ones(2) << 1", "t.ones(2) & 1"),
    "not implemented for 'Long'": (
        "t.ones(2, dtype=t.int64).softmax(0)", "t.ones(2, dtype=t.int64).normal_()",
    ),
    "not implemented for 'ComplexFloat'": ("t.ones(2, dtype=t.complex64) > 1",),
    # overloads in PyTorch's way of writing them; weft lists its own
    "received an invalid combination of arguments": (
        "t.add(t.ones(2))", "t.sum()", "t.ones(2).view()", 't.clamp(t.ones(2), min="a")',
        "t.linspace(0, 1, 2, dtype=t.int64, foo=3)",
    ),
    # a size below 0 is called an overflow; one function is worded unlike all the others
    "numel: integer multiplication overflow": ("t.ones(2).resize_(-1)",),
    "Dimension size must be non-negative": ("t.zeros(-1)",),
    # the product within
    "first two dimensions of batch2 tensor": (
        "t.nn.functional.scaled_dot_product_attention(t.ones(1, 2, 3), t.ones(1, 2, 4), "
        "t.ones(1, 2, 3))",
    ),
    # the stride is not what is wrong
    "expected stride to be a single integer value": (
        "t.nn.functional.conv2d(t.ones(1, 3, 8, 8), t.ones(4, 3, 3))",
    ),
    # the elements of the tensor, over several lines
    "Expected 0D or 1D tensor in the tensor list but got": (
        't.meshgrid(t.ones(2, 2), indexing="ij")',
    ),
    # weft says so of slices as of all other indices
    "slice() cannot be applied to a 0-dim tensor": ("t.tensor(1.)[0:1]",),
    # complex tensors can
    "only Tensors of floating point dtype": ("t.ones(2, dtype=t.int64).requires_grad_()",),
}  # fmt: skip


def backward_twice(t):
    y = (t.ones(2, requires_grad=True) ** 2).sum()
    y.backward()
    y.backward()


def saved_is_written(t):
    z = (t.ones(2, requires_grad=True) * 2).exp()
    z.add_(1)
    z.sum().backward()


def operand_is_written(t):
    x, y = t.ones(2, requires_grad=True), t.ones(2)
    z = x * y
    y.add_(1)
    z.sum().backward()


def leaf_is_written(t):
    t.ones(2, requires_grad=True).add_(1)


def view_of_leaf_is_written(t):
    t.ones(2, requires_grad=True)[0] = 1


def parameter(t, grad):
    p = t.nn.Parameter(t.ones(1))
    p.grad = t.tensor([float(grad)])
    return p


def raised(t, call):
    """The type of the call's error and its words, or None."""
    names = {
        "t": t, "io": io, "backward_twice": backward_twice, "saved_is_written": saved_is_written,
        "operand_is_written": operand_is_written, "leaf_is_written": leaf_is_written,
        "view_of_leaf_is_written": view_of_leaf_is_written, "parameter": parameter,
    }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(call, names)  # noqa: S307
    except Exception as error:
        return type(error).__name__.lstrip("_"), str(error)
    return None


#: What C++ calls the dtypes, and what messages do.
DTYPES = {
    "float": "float32", "double": "float64", "long": "int64", "half": "float16",
    "complexfloat": "complex64",
}  # fmt: skip


def plain(words):
    """Without case, line breaks, the names of dtypes and the package's name before others."""
    words = re.sub(r"\s+", " ", words).strip().rstrip(".").lower()
    words = re.sub(r"\b(torch|weft)\.(?!tensor\b)", "", words)
    return re.sub(r"[a-z0-9_]+", lambda m: DTYPES.get(m[0], m[0]), words)


def first_sentence(words):
    return re.split(r"\. |\n", words)[0]


@pytest.mark.parametrize("call", CALLS)
def test_the_message_has_pytorchs_sentence(call):
    theirs, ours = raised(torch, call), raised(weft, call)
    assert theirs is not None and ours is not None
    assert ours[0] == theirs[0]
    assert plain(first_sentence(theirs[1])) in plain(ours[1])


def test_the_table_is_long():
    assert len(CALLS) == len(set(CALLS)) > 450


@pytest.mark.parametrize(
    ("sentence", "call"), [(sentence, call) for sentence, calls in LEFT.items() for call in calls]
)
def test_what_is_left_out_is_what_pytorch_says(sentence, call):
    theirs, ours = raised(torch, call), raised(weft, call)
    assert sentence in theirs[1] and ours[0] == theirs[0]
    assert call not in CALLS


def test_all_mistakes_of_a_saved_state_are_told_at_once():
    state = {"weight": 1, "extra": 2}
    messages = []
    for t in (torch, weft):
        given = {"weight": t.ones(3, 2), "extra": t.ones(1)}
        assert state.keys() == given.keys()
        with pytest.raises(RuntimeError) as told:
            t.nn.Linear(2, 2).load_state_dict(given)
        messages.append(str(told.value))
    assert messages[0] == messages[1]


def test_no_message_says_the_sentence_twice():
    """The words of ours that stand before PyTorch's are not its own."""
    for call in CALLS:
        theirs, ours = raised(torch, call), raised(weft, call)
        sentence = plain(first_sentence(theirs[1]))
        if len(sentence.split()) > 4:
            assert plain(ours[1]).count(sentence) == 1, call
