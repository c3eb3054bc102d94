"""Names that packages reach for: each has its meaning, or raises where it is used."""

import gc

import pytest

import weft
from weft.nn.attention import flex_attention as flex

SAME = """
t.serialization.DEFAULT_PROTOCOL
t.utils.checkpoint.get_device_states(t.ones(2))
t.utils.checkpoint.set_device_states([], [])
t.backends.mkldnn.enabled
importlib.import_module(t.__name__ + ".distributed.constants").default_pg_timeout
t.ops.aten._pin_memory(x)
isinstance(t.distributed.ReduceOp.SUM, t.distributed.ReduceOp.RedOpType)
t.backends.fp32_precision
t.backends.mps.is_macos_or_newer(13, 0)
t.nn.init._no_grad_uniform_(t.empty(3), 1.0, 1.0)
t.nn.common_types._size_2_t
t.nn.common_types._ratio_any_t
t.jit.interface(3)
t.utils.data.dataloader._DatasetKind.Map
t.utils.data._utils.collate.default_collate_err_msg_format.format("x")
t.utils.data._utils.collate.default_collate([1, 2])
t.utils.data._utils.collate.collate_float_fn([1.0, 2.0])
[m.value for m in importlib.import_module(t.__name__ + ".numa.binding").AffinityMode]
foreach._group_tensors_by_device_and_dtype([[x, x + 1], [d, d]], with_indices=True)
foreach._has_foreach_support([x], x.device)
foreach._get_fused_kernels_supported_devices()
dispatch.is_traceable_wrapper_subclass(x)
dispatch.return_and_correct_aliasing(t.ops.aten.add.Tensor, (x, 1), {}, x + 1)
t.distributed.algorithms.join.Join([])
F.grouped_mm(m, w, offs=o)
F.grouped_mm(w.transpose(1, 2), w)
F.grouped_mm(w.transpose(1, 2), t.ones(8, 8), offs=t.tensor([2, 8], dtype=t.int32))
F.grouped_mm(m, w)
F.grouped_mm(m, w.double(), offs=o)
F.grouped_mm(m, w, offs=o, bias=m)
t._grouped_mm(m, w, o)
t.nn.utils.stateless._reparametrize_module(lin, {"no": x}, strict=True).__enter__()
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", SAME)
def test_names_answer_as_pytorchs(torch, line):
    import importlib

    def answer(t):
        home = t.__name__
        for name in ("distributed.algorithms.join", "nn.common_types", "utils.data._utils.collate"):
            importlib.import_module(f"{home}.{name}")
        names = {
            "t": t, "F": t.nn.functional, "importlib": importlib, "x": t.ones(2),
            "d": t.ones(1, dtype=t.float64), "lin": t.nn.Linear(1, 1),
            "foreach": importlib.import_module(f"{home}.utils._foreach_utils"),
            "dispatch": importlib.import_module(f"{home}.utils._python_dispatch"),
            "m": t.arange(48.0).view(6, 8), "w": t.arange(128.0).view(2, 8, 8),
            "o": t.tensor([2, 6], dtype=t.int32),
        }  # fmt: skip
        try:
            return repr(eval(line, names)).replace(home, "torch")
        except Exception as error:
            return type(error).__name__

    assert answer(weft) == answer(torch)


MODS = {
    "none": None,
    "bias": lambda s, b, h, q, kv: s + (q - kv),
    "soft cap": lambda s, b, h, q, kv: 5 * (s / 5).tanh(),
    "heads": lambda s, b, h, q, kv: s - (q - kv).abs() * (h + 1),
}
MASKS = {
    "none": None,
    "causal": lambda b, h, q, kv: q >= kv,
    "window": lambda b, h, q, kv: (q - kv).abs() <= 3,
    "nothing early": lambda b, h, q, kv: (q > 4) & (q >= kv),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("mod", MODS)
def test_flex_attention_is_pytorchs(torch, mod, mask):
    from torch.nn.attention import flex_attention as theirs

    q, k, v = (weft.randn(2, 4, 10, 8, requires_grad=True) for _ in range(3))
    found = []
    for t, lib in ((weft, flex), (torch, theirs)):
        given = [t.tensor(x.tolist(), requires_grad=t is weft) for x in (q, k, v)]
        blocks = MASKS[mask] and lib.create_block_mask(
            MASKS[mask], None, None, 10, 10, device="cpu", BLOCK_SIZE=4
        )
        out, lse = lib.flex_attention(*given, MODS[mod], blocks, return_lse=True)
        found.append((out.tolist(), lse.tolist(), blocks and blocks.to_dense().tolist(),
                      blocks and round(blocks.sparsity(), 3)))  # fmt: skip
        if t is weft:
            out.sum().backward()
            assert all(weft.isfinite(x.grad).all() for x in given)
    for mine, other in zip(*found):
        weft.testing.assert_close(weft.tensor(mine or 0), weft.tensor(other or 0), equal_nan=True)


def test_flex_attention_checks_and_groups_heads():
    q, k = weft.randn(1, 4, 6, 8), weft.randn(1, 2, 6, 8)
    plain = weft.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    weft.testing.assert_close(flex.flex_attention(q, k, k, enable_gqa=True), plain)
    for call in (
        lambda: flex.flex_attention(q, k, k),
        lambda: flex.flex_attention(q[0], k, k),
        lambda: flex.flex_attention(k, k, k, kernel_options={"BLOCK_M": 1}),
        lambda: flex.flex_attention(k, k, k, block_mask=flex.create_block_mask(
            flex.noop_mask, None, None, 2, 2)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="flex_attention"):
            call()
    both = flex.and_masks(MASKS["causal"], MASKS["window"])
    either = flex.or_masks(MASKS["causal"], MASKS["window"])
    a, b = (flex.create_mask(MASKS[m], 1, 1, 9, 9) for m in ("causal", "window"))
    assert weft.equal(flex.create_mask(both, 1, 1, 9, 9), a & b)
    assert weft.equal(flex.create_mask(either, 1, 1, 9, 9), a | b)
    mask = flex.create_block_mask(MASKS["causal"], 2, 3, 9, 9, BLOCK_SIZE=4)
    assert mask[0:1, :, 1:2].to_dense().shape == (1, 3, 1, 3)
    assert weft.equal(mask.seen(), a.expand(2, 3, 9, 9))


def test_swapped_tensors_have_all_of_each_other():
    a, b = weft.nn.Parameter(weft.ones(2)), weft.nn.Parameter(weft.zeros(3, dtype=weft.float64))
    a.tag, a.grad = "a", weft.full((2,), 7.0)
    at_a, at_b = a, b
    weft.utils.swap_tensors(a, b)
    assert at_b.tag == "a" and not hasattr(at_a, "tag")
    assert at_b.grad.tolist() == [7, 7] and at_a.grad is None
    assert at_a.dtype is weft.float64 and at_a.shape == (3,) and at_b.shape == (2,)
    with pytest.raises(RuntimeError, match="Can't swap"):
        weft.utils.swap_tensors(a, b * 2)


def test_dictionaries_of_weak_tensors_forget():
    from weft.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

    known = WeakTensorKeyDictionary()
    x, y = weft.ones(2), weft.ones(2)
    known[x], known[y] = 1, 2
    assert known[x] == 1 and known[y] == 2 and len(known.copy()) == 2 and 3 not in known
    held = TensorWeakRef(x)
    del x
    gc.collect()
    assert held() is None and [*known.values()] == [2]


def test_types_of_results_are_those_that_functions_return(torch):
    x = weft.randn(3, 3)
    calls = {
        "max": weft.max(x, 0), "sort": weft.sort(x), "topk": x.topk(2), "aminmax": weft.aminmax(x),
        "linalg_svd": weft.linalg.svd(x), "linalg_qr": weft.linalg.qr(x), "mode": weft.mode(x),
    }  # fmt: skip
    for name, made in calls.items():
        assert type(made) is getattr(weft.return_types, name), name
    names = {t.__name__ for t in torch.return_types.all_return_types}
    lacking = [n for n in names if not n.endswith("_out") and not hasattr(weft.return_types, n)]
    assert lacking == []


def test_a_fetcher_by_kind_is_that_of_loaders():
    kind = weft.utils.data.dataloader._DatasetKind
    fetch = kind.create_fetcher(kind.Map, [3, 4, 5], True, list, False)
    assert fetch.fetch([0, 2]) == [3, 5]
    loader = weft.utils.data.DataLoader([1, 2])
    assert isinstance(iter(loader), weft.utils.data.dataloader._BaseDataLoaderIter)
