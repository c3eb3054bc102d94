"""einsum's plans give what the general way gives: values, gradients, dtypes, refusals."""

import numpy as np
import pytest

import weft
from weft.composites import einsum as _einsum

SIZES = dict(zip("abcdehijklmn", (2, 3, 2, 4, 5, 3, 4, 5, 3, 2, 6, 3), strict=True))

EQUATIONS = """
i,i-> i,j->ij i,j->ji ij,ij-> ij,ji-> ij,ij->i ij,ij->j ij,ij->ij ij,ji->ij i,i->i ,i->i ,-> ij,->ji
id,de->ie id,ed->ie di,de->ie di,ed->ie id,de->ei de,id->ie bld,de->ble bld,ed->ble bld,de->leb
ij,j->i j,ij->i i,ij->j ij,i->j ijk,k->ij k,ijk->ij ijk,i->jk i,ijk->kj ijk,j->ik
bij,bjk->bik bij,bkj->bik bji,bjk->bik bji,bkj->bik bij,bjk->bki bij,jbk->kib bij,bij->b bij,bj->bi
bj,bij->bi bj,bjk->bk bi,bj->bij bi,bj->bji bi,bi->b bi,bi->i bi,ib->b bi,bij->bij bi,bij->jib
bhid,bhjd->bhij bhij,bhjd->bhid blhd,bmhd->bhlm bhlm,bmhd->blhd bhid,hde->bhie bld,dhe->blhe
bld,hed->blhe blhe,hed->bld blhe,dhe->bld bcij,bc->ij bc,bcij->ij bcij,ij->bc bcij,cb->ij
bc,ij->ijbc ni,kij->nkj nj,nkj->nk ni,kij,nj->nk bn,anm,bm->ba i,ij,j-> bd,de,be->b ij,jk,kl->il
ij,jk,kl->li i,j,k->kij ij,ij,ij->ij ij,ij,jk->k ij,jk,ki-> i,i,i->i
ij->ji ij-> ij->i ij->j ii-> ii->i iij->j iij->ij ii,i->i ii,ij->j ij,jj->i ij,kl->il ij,kl->
ijk,kl->l ik,kj ij ba ...ij,...jk->...ik ...ij,jk->...ik ij,...jk->...ik ...i,...i->...
...i->i... ...ij->j
""".split()  # fmt: skip


def operands(equation, dtype=weft.float64, sizes=SIZES, seed=0):
    draw = np.random.default_rng(seed).normal
    out = []
    for term in equation.split("->")[0].split(","):
        shape = [sizes[c] for c in term.replace("...", "bc" if len(term) % 2 else "c")]
        values = draw(size=shape) * (1 if dtype.is_floating_point or dtype.is_complex else 3)
        out.append(weft.tensor(values, dtype=weft.float64).to(dtype))
    return out


def agree(equation, tensors, tolerance=1e-11):
    leaves = [t.requires_grad_() if t.is_floating_point() or t.is_complex() else t for t in tensors]
    plain = _einsum.in_order(equation, tuple(leaves))
    planned = weft.einsum(equation, *leaves)
    assert planned.dtype == plain.dtype
    weft.testing.assert_close(planned, plain, rtol=tolerance, atol=tolerance)
    if not plain.requires_grad:
        return
    weight = weft.arange(1.0, plain.numel() + 1).to(plain.dtype).view(plain.shape)
    ours, theirs = (
        weft.autograd.grad((out * weight).sum(), leaves, weft.ones((), dtype=out.dtype))
        for out in (planned, plain)
    )
    for a, b in zip(ours, theirs, strict=True):
        weft.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_plans_give_what_steps_give(equation):
    agree(equation, operands(equation))
    agree(equation, [t.mT.contiguous().mT if t.dim() > 1 else t for t in operands(equation)])


@pytest.mark.parametrize("equation", EQUATIONS)
def test_pytorch_gives_the_same(torch, equation):
    tensors = operands(equation)
    theirs = torch.einsum(equation, *[torch.tensor(t.numpy()) for t in tensors])
    ours = weft.einsum(equation, *tensors)
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-11, 1e-11)


def random_equation(rng):
    lengths = rng.integers(0, 5, size=rng.integers(1, 4))
    terms = ["".join(rng.choice(list("ijklm"), size=n)) for n in lengths]
    used = sorted(set("".join(terms)))
    result = "".join(rng.permutation([c for c in used if rng.random() < 0.5]))
    return ",".join(terms) + "->" + result


def test_random_equations():
    rng = np.random.default_rng(0)
    for n in range(400):
        equation = random_equation(rng)
        sizes = {c: int(rng.integers(0 if n % 7 == 0 else 1, 4)) for c in "ijklm"}
        agree(equation, operands(equation, sizes=sizes, seed=n))


@pytest.mark.parametrize("dtype", ["int64", "float16", "bfloat16", "float32", "complex128"])
def test_dtypes(dtype):
    tolerance = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-5}.get(dtype, 1e-11)
    for equation in EQUATIONS:
        agree(equation, operands(equation, getattr(weft, dtype)), tolerance)


@pytest.mark.parametrize("equation", [e for e in EQUATIONS if "," in e and "..." not in e])
def test_sizes_of_one_broadcast_and_others_are_refused(equation):
    terms = equation.split("->")[0].split(",")
    for k, term in enumerate(terms):
        for d, c in enumerate(term):
            one, more = operands(equation), operands(equation)
            one[k] = one[k].narrow(d, 0, 1)
            if term.count(c) == 1:
                agree(equation, one)
            more[k] = weft.cat([more[k], more[k]], d)
            if "".join(terms).count(c) > 1:
                with pytest.raises(RuntimeError, match=r"\[einsum\] expected equal sizes"):
                    weft.einsum(equation, *more)


def test_a_plan_is_of_the_ranks_too():
    a, b = weft.ones(2, 3), weft.ones(4, 2, 3)
    for t in (a, b, a):
        assert weft.einsum("...i->...", t).shape == t.shape[:-1]
        with pytest.raises(RuntimeError, match="a subscript for every dimension"):
            weft.einsum("ijkl->i", t)


def test_many_equations_are_forgotten():
    x = weft.ones(2)
    for n in range(2 * _einsum._PLANS_KEPT):
        weft.einsum(" " * n + "i->i", x)
    assert _einsum._plan.cache_info().currsize <= _einsum._PLANS_KEPT


def batches(f, examples):
    report = weft.explain(f, examples)
    for a, b in zip(report.outputs, [f(x) for x in examples], strict=True):
        weft.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    return [(b["op"], b["calls"]) for b in report.flushes[0]["batches"]][1:]


@pytest.mark.parametrize(
    ("equation", "shape", "op"),
    [
        ("id,de->ie", (4, 4), "mm"), ("id,ed->ie", (4, 4), "linear"), ("de,id->ie", (4, 4), "mm"),
        ("bid,de->bie", (4, 4), "mm"), ("id,dhe->ihe", (4, 2, 3), "mm"),
        ("id,hed->ihe", (2, 3, 4), "linear"), ("id,d->i", (4,), "mv"),
    ],
)  # fmt: skip
def test_a_weight_makes_one_product_of_all_rows(equation, shape, op):
    w = weft.randn(*shape, dtype=weft.float64, requires_grad=True)
    examples = [weft.randn(n, 4, dtype=weft.float64) for n in (3, 1, 5)]

    def f(x):
        x = x.tanh()
        if equation.startswith("de"):
            return weft.einsum(equation, w, x)
        return weft.einsum(equation, x[None] if equation[0] == "b" else x, w)

    assert batches(f, examples) == [(op, 3)]


@pytest.mark.parametrize("equation", ["i,ij->j", "ji,i->j", "i,ji->j"])
def test_vectors_with_each_examples_own_matrix_are_one_batch(equation):
    def f(pair):
        v, m = pair[0].tanh(), pair[1]
        return weft.einsum(equation, *((v, m) if equation.startswith("i,") else (m, v)))

    pairs = [(weft.randn(4), weft.randn(4, 4)) for _ in range(3)]
    assert batches(f, pairs) == [("mv", 3)]
