"""What programs ask of tensors and set for the process, beside PyTorch's answers."""

from __future__ import annotations

import pytest

import weft

ASKED = """
x.is_signed(); x.get_device(); x.is_neg(); x.is_pinned(); x.is_meta; x.is_mps; x.is_nested; x.name
x.is_distributed(); x.is_shared(); x.dense_dim(); x.sparse_dim(); x.to_dense(); x.is_set_to(x)
x.is_set_to(x.clone()); x[:1, :1].is_nonzero(); x.adjoint(); t.adjoint(x); t.is_signed(x.byte())
t.is_conj(x); t.resolve_conj(x); t.resolve_neg(x); t.is_neg(x); t.get_device(x); t.typename(x)
t.typename(3); t.typename(x.long()); t.is_storage(x); t.is_storage(x.untyped_storage())
t.range(1, 4); t.range(0, 2, 0.5)
t.range(3, 1, -1)
t.range(1, 4, dtype=t.int64); x.clone().apply_(lambda v: v * 2)
x.clone().map_(x + 1, lambda a, b: a * b)
x.new(2, 3).shape; x.new([1, 2]); x.new().shape; x.float(memory_format=t.preserve_format)
t.norm_except_dim(x, 2, 0); t.norm_except_dim(x, 2, -1); t.norm_except_dim(x, 1, 1)
t.frombuffer(bytearray(range(8)), dtype=t.int16); x.half(memory_format=t.contiguous_format)
t.frombuffer(bytearray(range(8)), dtype=t.uint8, count=2, offset=3); x.clone().conj_physical_()
t.frombuffer(bytearray(range(8)), dtype=t.int32, offset=4); (x + 1j).conj_physical_()
t.resize_as_(x.clone(), t.ones(3)).shape; t.get_default_device(); t.get_float32_matmul_precision()
t.are_deterministic_algorithms_enabled(); t.get_deterministic_debug_mode()
"""
WRONG = """
t.adjoint(t.ones(3)); t.range(1, 4, -1); t.range(1, 4, 0); x.float(memory_format=3)
t.frombuffer(bytearray(3), dtype=t.int16); t.frombuffer(bytearray(0), dtype=t.int16)
t.frombuffer(bytearray(4), dtype=t.int16, count=3); t.frombuffer(bytearray(4), dtype=t.int16, offset=4)
x.clone().requires_grad_().apply_(abs)
t.set_default_tensor_type('torch.LongTensor'); t.set_deterministic_debug_mode(3)
"""  # noqa: E501


def listed(text):
    return [c.strip() for c in text.replace("\n", ";").split(";") if c.strip()]


def asked(t, text):
    x = t.tensor([[1.5, -2.0, 0.25], [3.0, 0.0, -1.0]])
    return eval(text, {"t": t, "x": x})  # noqa: S307


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", listed(ASKED))
def test_the_answers_are_pytorchs(torch, text):
    assert repr(asked(weft, text)) == repr(asked(torch, text))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", listed(WRONG))
def test_errors_are_of_pytorchs_types(torch, text):
    kinds = []
    for t in (torch, weft):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            asked(t, text)
        kinds.append(type(caught.value))
    assert issubclass(kinds[1], kinds[0]), kinds


@pytest.mark.filterwarnings("ignore")
def test_settings_are_kept():
    try:
        weft.set_float32_matmul_precision("high")
        weft.use_deterministic_algorithms(True, warn_only=True)
        weft.set_float32_matmul_precision("low")
        assert weft.get_float32_matmul_precision() == "high"
        assert weft.is_deterministic_algorithms_warn_only_enabled()
        weft.set_deterministic_debug_mode("error")
        assert weft.are_deterministic_algorithms_enabled()
        weft.set_default_tensor_type(weft.DoubleTensor)
        assert weft.ones(1).dtype is weft.float64
    finally:
        weft.set_default_tensor_type("torch.FloatTensor")
        weft.use_deterministic_algorithms(False)
        weft.set_float32_matmul_precision("highest")
    weft.set_default_device("cpu")
    with pytest.raises(AssertionError, match="CUDA"):
        weft.set_default_device("cuda")
