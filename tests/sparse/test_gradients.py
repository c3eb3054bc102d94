"""Gradients that are rows: what the engine, hooks, optimizers and clipping do with them."""

import pytest

import weft

torch = pytest.importorskip("torch")

LIBS = (weft, torch)


def both(run):
    left, right = (run(lib) for lib in LIBS)
    assert left == right


def shown(t):
    if t is None:
        return None
    if t.layout is not weft.strided and str(t.layout) != "torch.strided":
        return ("sparse", t._nnz(), t.is_coalesced(), t.to_dense().tolist())
    return ("dense", t.tolist())


def table(lib, rows=5):
    e = lib.nn.Embedding(rows, 2, sparse=True)
    with lib.no_grad():
        e.weight.copy_(lib.arange(2.0 * rows).reshape(rows, 2))
    return e


def test_rows_by_occurrence():
    def run(lib):
        e = table(lib)
        e(lib.tensor([[1, 3], [1, 4]])).sum().backward()
        return shown(e.weight.grad), e.weight.grad._indices().tolist()

    both(run)


def test_the_padding_row_has_no_place():
    def run(lib):
        e = lib.nn.Embedding(5, 2, sparse=True, padding_idx=1)
        e(lib.tensor([1, 3, 1])).sum().backward()
        return shown(e.weight.grad)

    both(run)


def test_several_uses_add_up_and_passes_too():
    def run(lib):
        e = table(lib)
        for _ in range(2):
            (e(lib.tensor([1, 3])).sum() + 2 * e(lib.tensor([0, 3])).sum()).backward()
        return shown(e.weight.grad)[3], shown(e.weight.grad)[0]

    both(run)


@pytest.mark.parametrize("first", [True, False])
def test_a_sparse_and_a_dense_use_give_a_dense_gradient(first):
    def run(lib):
        e = table(lib)

        def rows():
            return e(lib.tensor([1, 1])).sum()

        def all_of_it():
            return (e.weight * 3).sum()

        for f in (rows, all_of_it) if first else (all_of_it, rows):
            f().backward()
        one = shown(e.weight.grad)
        e.weight.grad = None
        (rows() + all_of_it()).backward()
        return one, shown(e.weight.grad)

    both(run)


def test_products_and_pieces_of_a_weight_that_is_a_table_too():
    """Sums of products and of parts in the engine meet rows."""

    def run(lib):
        e = table(lib)
        x = lib.ones(3, 2)
        out = lib.nn.functional.linear(x, e.weight).sum() + e(lib.tensor([2])).sum()
        (out + e.weight[1].sum() + e.weight[4].sum()).backward()
        return shown(e.weight.grad)

    both(run)


def test_grad_hooks_and_retained_graphs():
    def run(lib):
        e, seen = table(lib), []
        e.weight.register_hook(lambda g: seen.append(g.is_sparse))
        e.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.is_sparse))
        loss = e(lib.tensor([1, 2])).sum()
        (found,) = lib.autograd.grad(loss, e.weight, retain_graph=True)
        loss.backward(retain_graph=True)
        loss.backward()
        return seen, shown(found), shown(e.weight.grad)[3]

    both(run)


def test_a_hook_may_give_another_gradient():
    def run(lib):
        e = table(lib)
        e.weight.register_hook(lambda g: g * 2)
        e(lib.tensor([1, 2])).sum().backward()
        return shown(e.weight.grad)

    both(run)


def test_zero_grad():
    def run(lib):
        e = table(lib)
        e(lib.tensor([1, 2])).sum().backward()
        e.zero_grad(set_to_none=False)
        kept = e.weight.grad.to_dense().tolist(), e.weight.grad.is_sparse
        e.zero_grad()
        return kept, e.weight.grad

    both(run)


def test_an_op_before_the_table_raises():
    """PyTorch's rules are sparse there; ours would read what is not there."""
    w = weft.ones(3, 2, requires_grad=True)
    loss = weft.nn.functional.embedding(weft.tensor([1]), w * 2, sparse=True).sum()
    with pytest.raises(NotImplementedError, match="SparseCPU"):
        loss.backward()
    assert w.grad is None


def test_clip_grad_norm():
    e = table(weft)
    e(weft.tensor([1, 1, 3])).sum().backward()
    norm = weft.nn.utils.clip_grad_norm_(e.parameters(), 1.0)
    assert norm.item() == pytest.approx(10**0.5)
    assert e.weight.grad.to_dense().norm().item() == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bag(mode):
    def run(lib):
        e = lib.nn.EmbeddingBag(5, 2, mode=mode, sparse=True)
        bags = lib.tensor([1, 2, 2, 4]), lib.tensor([0, 3])
        e(*bags).sum().backward()
        return e.weight.grad.is_sparse, e.weight.grad.to_dense().tolist()

    both(run)


def test_embedding_bag_of_maxima_refuses():
    def run(lib):
        with pytest.raises(ValueError, match="max mode does not support sparse weights"):
            lib.nn.EmbeddingBag(5, 2, mode="max", sparse=True)(lib.tensor([[1]]))

    both(run)


OPTIMIZERS = [
    ("SGD", {"lr": 0.5}), ("SGD", {"lr": 0.5, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("Adagrad", {"lr": 0.5}), ("Adagrad", {"lr": 0.5, "lr_decay": 0.1}),
    ("SparseAdam", {"lr": 0.1}), ("SparseAdam", {"lr": 0.1, "betas": (0.5, 0.7)}),
    ("SparseAdam", {"lr": 0.1, "maximize": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), OPTIMIZERS)
def test_optimizers_step_by_rows(name, settings):
    def run(lib):
        e = table(lib)
        optimizer = getattr(lib.optim, name)(e.parameters(), **settings)
        for rows in ([1, 3, 1], [0, 3], [2, 2]):
            optimizer.zero_grad()
            (e(lib.tensor(rows)) ** 2).sum().backward()
            optimizer.step()
        return e.weight.detach().double().tolist()

    left, right = (run(lib) for lib in LIBS)
    for a, b in zip(left, right, strict=True):
        assert a == pytest.approx(b, rel=1e-5)


def test_a_group_of_sparse_and_dense_gradients():
    def run(lib):
        e, p = table(lib), lib.nn.Parameter(lib.ones(2))
        optimizer = lib.optim.SGD([e.weight, p], lr=0.5)
        (e(lib.tensor([1, 3])) * p).sum().backward()
        optimizer.step()
        return e.weight.tolist(), p.tolist()

    both(run)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop",
                                  "Adadelta", "Rprop", "ASGD"])  # fmt: skip
def test_other_optimizers_refuse_and_change_nothing(name):
    e = table(weft)
    dense = weft.nn.Parameter(weft.ones(2))
    optimizer = getattr(weft.optim, name)([dense, e.weight])
    (e(weft.tensor([1])) * dense).sum().backward()
    before = e.weight.tolist()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        optimizer.step()
    assert e.weight.tolist() == before and dense.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_weight_decay_refuses(name):
    for lib in LIBS:
        e = table(lib)
        optimizer = getattr(lib.optim, name)(e.parameters(), lr=0.1, weight_decay=0.1)
        e(lib.tensor([1])).sum().backward()
        with pytest.raises(RuntimeError):
            optimizer.step()


def test_sparse_adam_refuses_dense_gradients_and_parameters():
    for lib in LIBS:
        p = lib.nn.Parameter(lib.ones(2))
        p.grad = lib.ones(2)
        with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
            lib.optim.SparseAdam([p]).step()
        with pytest.raises(ValueError, match="SparseAdam requires dense parameter tensors"):
            lib.optim.SparseAdam([lib.eye(2).to_sparse().requires_grad_()])


def test_anomaly_mode_looks_at_values():
    e = table(weft)
    with weft.autograd.detect_anomaly():
        e(weft.tensor([1])).sum().backward()
    assert e.weight.grad.is_sparse
    with pytest.raises(RuntimeError, match="nan"), weft.autograd.detect_anomaly():
        (e(weft.tensor([1])) * 0.0).sqrt().mul(0.0).sum().backward()


def test_retain_grad_of_a_sparse_tensor():
    x = weft.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.to_dense().sum().backward()
    assert y.grad.is_sparse and y.grad.to_dense().tolist() == [1.0, 1.0, 0.0]
    assert x.grad.to_dense().tolist() == [2.0, 2.0, 0.0]


def test_batches_and_compiled_functions():
    e = table(weft)
    by_hand = e(weft.tensor([1, 2, 3])).sum()
    by_hand.backward()
    right = e.weight.grad.to_dense().tolist()
    e.zero_grad()
    rows = weft.autobatch(lambda i: e(i).sum())([weft.tensor([1, 2]), weft.tensor([3])])
    sum(rows).backward()
    assert e.weight.grad.is_sparse and e.weight.grad.to_dense().tolist() == right
    e.zero_grad()
    weft.compile(lambda i: e(i).sum())(weft.tensor([1, 2, 3])).backward()
    assert e.weight.grad.is_sparse and e.weight.grad.to_dense().tolist() == right


def test_who_watches_values_sees_no_nan_in_a_shell():
    e = table(weft)
    with weft.stop_when(nan=True), weft.record():
        (e(weft.tensor([1, 2])).sum() + e(weft.tensor([1])).sum()).backward()
    assert e.weight.grad.is_sparse


def test_a_class_that_would_lose_the_places_is_refused():
    """It would be a tensor of nan."""
    x = weft.eye(2).to_sparse()
    with pytest.raises(NotImplementedError, match="register_buffer"):
        weft.nn.Parameter(x)
    with pytest.raises(NotImplementedError):
        x.as_subclass(weft.Tensor)


def test_lbfgs_takes_all_elements():
    def run(lib):
        e = table(lib)
        optimizer = lib.optim.LBFGS(e.parameters(), lr=0.1, max_iter=2)

        def closure():
            optimizer.zero_grad()
            loss = (e(lib.tensor([1, 3])) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return [round(v, 4) for v in e.weight.detach().view(-1).tolist()]

    both(run)
