"""MultiheadAttention and the Transformer modules: PyTorch's values, gradients, masks, dropout."""

import numpy as np
import pytest

import weft

torch = pytest.importorskip("torch")


def numbers(lib, *shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return lib.tensor(values.tolist(), dtype=lib.float64).reshape(shape).requires_grad_()


def filled(lib, module):
    rng = np.random.default_rng(1)
    module = module.double()
    with lib.no_grad():
        for p in module.parameters():
            p.copy_(lib.tensor(rng.normal(size=tuple(p.shape)).tolist()) * 0.5)
    return module


def both(program, tolerance=1e-10):
    results = []
    for lib in (weft, torch):
        lib.manual_seed(5)
        outputs, leaves = program(lib)
        outputs = [t for t in outputs if t is not None]
        sum((t * numbers(lib, *t.shape, seed=7).detach()).sum() for t in outputs).backward()
        grads = [leaf.grad for leaf in leaves]
        results.append([None if t is None else t.detach().numpy() for t in [*outputs, *grads]])
    assert len(results[0]) == len(results[1])
    for got, want in zip(*results):
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def hide(lib, *shape):
    mask = np.random.default_rng(2).random(shape) < 0.3
    mask[..., 0] = False
    return lib.tensor(mask.tolist())


ATTENTION = [
    {}, {"bias": False}, {"batch_first": True}, {"kdim": 3, "vdim": 5}, {"add_bias_kv": True},
    {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True, "kdim": 3, "vdim": 3},
]  # fmt: skip
CALLS = [
    lambda lib: {},
    lambda lib: {"need_weights": False},
    lambda lib: {"average_attn_weights": False},
    lambda lib: {"attn_mask": hide(lib, 4, 5)},
    lambda lib: {"attn_mask": numbers(lib, 6, 4, 5, seed=4).detach(), "need_weights": False},
    lambda lib: {"key_padding_mask": hide(lib, 3, 5), "attn_mask": hide(lib, 4, 5)},
    lambda lib: {"key_padding_mask": numbers(lib, 3, 5, seed=4).detach(), "need_weights": False},
]


@pytest.mark.parametrize("call", range(len(CALLS)))
@pytest.mark.parametrize("options", ATTENTION, ids=str)
def test_multihead_attention(options, call):
    def program(lib):
        m = filled(lib, lib.nn.MultiheadAttention(8, 2, **options))
        widths = (8, options.get("kdim", 8), options.get("vdim", 8))
        q, k, v = (numbers(lib, n, 3, w, seed=w) for n, w in zip((4, 5, 5), widths))
        given = (q, k, v)
        if options.get("batch_first"):
            given = tuple(t.transpose(0, 1) for t in given)
        return m(*given, **CALLS[call](lib)), [q, k, v, *m.parameters()]

    both(program)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(batched, causal):
    def program(lib):
        m = filled(lib, lib.nn.MultiheadAttention(8, 4))
        x = numbers(lib, *((5, 2, 8) if batched else (5, 8)))
        options = {}
        if causal:
            mask = lib.nn.Transformer.generate_square_subsequent_mask(5, dtype=lib.float64)
            options = {"attn_mask": mask, "is_causal": True, "need_weights": False}
        return m(x, x, x, **options), [x, *m.parameters()]

    both(program)


LAYERS = [
    {}, {"norm_first": True}, {"activation": "gelu", "batch_first": True}, {"bias": False},
    {"norm_first": True, "batch_first": True, "dropout": 0.4},
]  # fmt: skip


@pytest.mark.parametrize("options", LAYERS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_the_whole(options, masked):
    options = {"dropout": 0.0} | options

    def program(lib):
        m = filled(lib, lib.nn.Transformer(8, 2, 2, 2, 16, **options))
        src, tgt = numbers(lib, 5, 3, 8), numbers(lib, 4, 3, 8, seed=1)
        masks = {}
        if masked:
            causal = lib.nn.Transformer.generate_square_subsequent_mask(4, dtype=lib.float64)
            masks = {"tgt_mask": causal, "src_key_padding_mask": hide(lib, 3, 5),
                     "memory_key_padding_mask": hide(lib, 3, 5)}  # fmt: skip
        given = (src, tgt)
        if options.get("batch_first"):
            given = tuple(t.transpose(0, 1) for t in given)
        return [m(*given, **masks)], [src, tgt, *m.parameters()]

    both(program)


def test_the_same_seed_gives_the_same_parameters():
    for make in (
        lambda nn: nn.Transformer(8, 2, 1, 2, 16),
        lambda nn: nn.MultiheadAttention(8, 2, add_bias_kv=True, kdim=4),
        lambda nn: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, nn.LayerNorm(8)),
    ):
        named = []
        for lib in (weft, torch):
            lib.manual_seed(3)
            named.append({n: p.detach().numpy() for n, p in make(lib.nn).named_parameters()})
        assert list(named[0]) == list(named[1])
        for name, value in named[0].items():
            np.testing.assert_allclose(value, named[1][name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("make", [
    lambda nn: nn.MultiheadAttention(8, 2),
    lambda nn: nn.TransformerEncoderLayer(8, 2, 16, norm_first=True),
    lambda nn: nn.TransformerDecoderLayer(8, 2, 16, activation="gelu"),
    lambda nn: nn.Transformer(8, 2, 1, 1, 16),
])  # fmt: skip
def test_repr(make):
    assert repr(make(weft.nn)) == repr(make(torch.nn))


BAD = [
    lambda lib: lib.nn.MultiheadAttention(8, 3),
    lambda lib: lib.nn.MultiheadAttention(0, 1),
    lambda lib: lib.nn.TransformerEncoderLayer(8, 2, activation="tanh"),
    lambda lib: attend(lib, lib.ones(3, 2, 7)),
    lambda lib: attend(lib, lib.ones(3)),
    lambda lib: attend(lib, lib.ones(3, 2, 8), attn_mask=lib.ones(2, 2)),
    lambda lib: attend(lib, lib.ones(3, 2, 8), key_padding_mask=lib.ones(3, 2)),
    lambda lib: attend(lib, lib.ones(3, 2, 8), is_causal=True),
    lambda lib: attend(lib, lib.ones(3, 2, 8), attn_mask=lib.ones(3, 3).long()),
    lambda lib: lib.nn.Transformer(8, 2, 1, 1, 16)(lib.ones(3, 2, 8), lib.ones(3, 1, 8)),
    lambda lib: lib.nn.Transformer(8, 2, 1, 1, 16)(lib.ones(3, 2, 7), lib.ones(3, 2, 7)),
]


def attend(lib, x, **options):
    return lib.nn.MultiheadAttention(8, 2)(x, x, x, **options)


@pytest.mark.parametrize("program", BAD)
def test_bad_input(program):
    with pytest.raises(Exception) as expected:
        program(torch)
    with pytest.raises(expected.type):
        program(weft)


def test_blocks_may_be_overridden():
    """Subclasses override `_sa_block` and the like, or call them from a `forward` of their own; the
    layers had their blocks inline, and took no notice."""

    def program(lib):
        class Shown(lib.nn.TransformerEncoderLayer):
            def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
                x, self.weights = self.self_attn(
                    x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask
                )
                return self.dropout1(x)

        class Halved(lib.nn.TransformerDecoderLayer):
            def forward(self, tgt, memory, tgt_mask=None, memory_mask=None,
                        tgt_key_padding_mask=None, memory_key_padding_mask=None, **causal):
                x = self._sa_block(tgt, tgt_mask, tgt_key_padding_mask)
                x = self._mha_block(x, memory, memory_mask, memory_key_padding_mask, False)
                return x + 0.5 * self._ff_block(x)

        class Whole(lib.nn.Transformer):
            def _reset_parameters(self):
                for p in self.parameters():
                    lib.nn.init.constant_(p, 0.125)

        x, y = numbers(lib, 3, 2, 4), numbers(lib, 5, 2, 4, seed=1)
        shown = filled(lib, Shown(4, 2, 8, dropout=0.0))
        memory = lib.nn.TransformerEncoder(shown, 2, enable_nested_tensor=False)(x)
        halved = filled(lib, Halved(4, 2, 8, dropout=0.0))
        whole = Whole(4, 2, 1, 1, 8, dropout=0.0).double()
        return [memory, shown(x), shown.weights, halved(y, memory), whole(x, y)], [x, y]

    both(program)


def test_an_embedding_fills_its_padding():
    for lib in (weft, torch):
        layer = lib.nn.Embedding(3, 2, padding_idx=1)
        lib.nn.init.ones_(layer.weight)
        layer._fill_padding_idx_with_zero()
        assert layer.weight.tolist() == [[1, 1], [0, 0], [1, 1]]
