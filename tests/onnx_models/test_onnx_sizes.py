"""Sizes of what is cut off of free ones, and decisions by chance, against eager."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import weft  # noqa: E402

ROWS = weft.export.Dim("rows")


def mean_of_last(x: Any) -> Any:
    return x[-3:].sum(0) / x[-3:].shape[0]


def means_of_chunks(x: Any) -> Any:
    out = weft.zeros(2)
    for i in range(0, x.shape[0], 3):
        chunk = x[i : i + 3]
        out = out + chunk.sum(0) / len(chunk)
    return out


def branch_on_the_size(x: Any) -> Any:
    y = x[:3]
    return y.sum(0) if y.shape[0] == 3 else x[0] * 0


def size_of_diagonal(x: Any) -> Any:
    return x.diagonal().shape[0] + x.diagonal(1).shape[0]


def cut_by_a_size(x: Any) -> Any:
    return weft.tensor([1.0, 2.0])[: x.shape[0]].shape[0]


def sizes_as_sizes(x: Any) -> Any:
    return x[:3] + weft.zeros(x[:3].shape)


def as_many_turns(x: Any) -> Any:
    total = weft.zeros(2)
    for i in range(x[:3].shape[0]):
        total = total + x[i]
    return total


def cut_of_what_is_made(x: Any) -> Any:
    eye = weft.eye(x.shape[0])[:, :2]
    return eye.sum() / eye.shape[1] + eye.flatten().shape[0]


def rows_one_by_one(x: Any) -> Any:
    """A cut at a loop's counter has one row always, so squeeze is of ONNX."""
    total = weft.zeros(2)
    for i in range(x.shape[0]):
        total = total + x[i : i + 1].squeeze(0)
    return total


def branches_cut_on_other_sides(x: Any) -> Any:
    y = x[:2] if x.sum() > 3 else x[:2].t().reshape(-1, x[:2].shape[0])
    return y * 2


CUTS = [
    mean_of_last, means_of_chunks, branch_on_the_size, size_of_diagonal, cut_by_a_size,
    sizes_as_sizes, as_many_turns, cut_of_what_is_made, rows_one_by_one,
    branches_cut_on_other_sides,
]  # fmt: skip


@pytest.mark.parametrize("f", CUTS, ids=lambda f: f.__name__)
def test_what_is_cut_off_of_a_free_size_may_be_less(f: Callable[[Any], Any]) -> None:
    """Its size was that of the example, which had enough: of 2 rows x[:3] had 3."""
    made = weft.onnx.export(f, (weft.ones(5, 2),), dynamic_shapes={"x": {0: ROWS}})
    for rows in (1, 2, 3, 4, 7):
        x = weft.arange(2.0 * rows).view(rows, 2)
        got, expected = weft.as_tensor(made(x)[0]), weft.as_tensor(f(x))
        assert got.tolist() == expected.tolist(), rows


# Cuts of rows and columns that are free, and at values that are read; w has 8 rows and 3 columns.
DRAWN = [
    "x[a : a + 1]", "x[: a + 2]", "x[a:]", "x[-a:]", "x[b - a - 1 : n // 2]", "x[:1]", "x[-1:]",
    "x[::3]", "x[1 : n - 1 : 2]", "x[n - 1 :]", "x[max(n - 2, 0) :]", "x[: min(a, n)]",
    "w[a : a + 1]", "w[:, a : a + 2]", "w[: a - 3]", "w[min(a, n) : min(a, n) + 1]", "w[:, : n]",
    "w[n : n + 2]", "w[:, -n:]", "x[a : a + 1].squeeze(0)", "w[:, a : a + 1].squeeze(1)",
    "x[:1].squeeze()", "x[:-2:3].squeeze(0)", "x.narrow(0, n // 2, n - n // 2)",
    "w.narrow(0, a, 2)", "w.narrow(1, 0, min(a, 3))", "w.chunk(3)[-1][a:]", "w.split(3)[1][:n]",
    "x.split([n // 2, n - n // 2])[0]", "w.split([a, 8 - a])[1]", "x.select(1, 1)[a:]",
    "x.diagonal()", "x.diagonal(1)", "x[: a + 1].diagonal(-1)", "x[x[:, 0] > 3]", "x[x > 3]",
    "weft.cat([x, x[:1]])", "weft.cat([w[a : a + 1, :2], x[:2]])", "w[weft.arange(min(n, 4))]",
    "weft.zeros(a + 2, 2)", "weft.ones(max(a, 1), n)", "weft.arange(n + a)",
    "x.unsqueeze(0)[:, a:]", "x[:, None][: a + 1]", "x[:1].expand(2, 2)",
    "weft.nn.functional.one_hot(x[:, 0].long() // 3)", "w.repeat_interleave(k.abs().repeat(4), 0)",
    "x.view(n, 2)[1:].reshape(-1)", "x.view(-1)[:2].view(-1, 2)", "x[:, 1][:4].view(2, -1)",
]  # fmt: skip
READ = "v.shape[0], len(v), v.numel(), v.dim(), v * 2, v.sum(0) / v.shape[0], turns(v), below(v)"


def turns(v: Any) -> Any:
    total = weft.zeros(())
    for i in range(v.shape[0]):
        total = total + i + v[i].sum()
    return total


def below(v: Any) -> Any:
    return v.sum() * 5 if v.shape[-1] < 2 else v.sum()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[..., Any]]:
    """The programs, in a file: an export reads their source."""
    text = "import weft\nw = weft.arange(24.0).view(8, 3)\n"
    for k, cut in enumerate(DRAWN):
        text += f"def f{k}(x, k):\n    a, b, n = k[0].item(), k[1].item(), x.shape[0]\n"
        text += f"    v = {cut}\n    return [{READ}]\n"
    path = tmp_path_factory.mktemp("drawn") / "cuts.py"
    path.write_text(text)
    names: dict[str, Any] = {"turns": turns, "below": below}
    exec(compile(text, str(path), "exec"), names)
    return {cut: names[f"f{k}"] for k, cut in enumerate(DRAWN)}


@pytest.mark.parametrize("cut", DRAWN)
def test_cuts_have_the_sizes_that_a_run_gives_them(
    cut: str, drawn: dict[str, Callable[..., Any]]
) -> None:
    """`x[a : a + 1].shape[0]` was 1 behind the last row, and `x[:1]` of no rows had one. Where the
    model takes a size for 1, a run with another one raises."""
    f, example = drawn[cut], (weft.arange(10.0).view(5, 2), weft.tensor([1, 3]))
    made = weft.onnx.export(f, example, dynamic_shapes={"x": {0: ROWS}})
    compared = 0
    for rows in (0, 1, 2, 3, 7):
        for k in ([1, 3], [0, 2], [5, 1], [2, 9], [-2, 1]):
            given = weft.arange(2.0 * rows).view(rows, 2), weft.tensor(k)
            try:
                want = list(map(weft.as_tensor, f(*given)))
            except (RuntimeError, ValueError, IndexError):
                continue  # a graph checks nothing
            try:
                got = made(*given)
            except Exception as error:  # ONNX Runtime's own
                assert ".squeeze" in cut and "Squeeze" in str(error), (rows, k, error)
                continue
            weft.testing.assert_close(got, want, equal_nan=True, msg=f"{cut} of {rows} rows, {k}")
            compared += 1
    assert compared >= 5


def test_a_row_that_goes_says_so_where_it_is_none() -> None:
    """Its size alone was read, so nothing of the model looked whether there is a row to take."""

    def f(x: Any, k: Any) -> Any:
        a = k.item()
        return x[a : a + 1].squeeze(0).shape[0]

    made = weft.onnx.export(f, (weft.ones(4, 3), weft.tensor(2)))
    assert int(made(weft.ones(4, 3), weft.tensor(3))[0]) == 3
    with pytest.raises(Exception, match="must be 1 instead of 0"):
        made(weft.ones(4, 3), weft.tensor(4))


def padded(x: Any, y: Any) -> Any:
    return weft.nn.utils.rnn.pad_sequence([x, y, x[:2]], batch_first=True)


def padded_on_the_left(x: Any, y: Any) -> Any:
    return weft.nn.utils.rnn.pad_sequence([y, x], padding_value=-1.0, padding_side="left")


def similar(x: Any, y: Any) -> Any:
    return weft.nn.functional.cosine_similarity(x[:, None], y[None] + 1, dim=-1)


def similar_to_the_first(x: Any, y: Any) -> Any:
    return weft.nn.functional.cosine_similarity(x, y[:1] + 1)


def wider_on_one_way(x: Any, y: Any) -> Any:
    if x.shape[0] < y.shape[0]:
        x = weft.cat([x, weft.zeros(max(y.shape[0] - x.shape[0], 0), 3)])
    return x[: y.shape[0]] + y


def split_by_a_choice(x: Any, y: Any) -> Any:
    n = 1 if x.shape[0] > 2 else 2
    a, b = weft.arange(5.0).split([n, 5 - n])
    return a.shape[0] * 10 + b.shape[0] + weft.arange(n, 4).shape[0] * 100


@pytest.mark.parametrize("rows", [(5, 3), (3, 5), (4, 4), (4, 8)], ids=str)
@pytest.mark.parametrize(
    "f",
    [
        padded, padded_on_the_left, similar, similar_to_the_first, wider_on_one_way,
        split_by_a_choice,
    ],
)  # fmt: skip
def test_two_free_sizes(f: Callable[[Any, Any], Any], rows: tuple[int, int]) -> None:
    """What a branch over them gave had the size of one way, whichever the example took, so what the
    ways made alike was not: refused, and said to raise."""

    def given(m: int, n: int) -> tuple[Any, Any]:
        return weft.arange(3.0 * m).view(m, 3), weft.arange(3.0 * n).view(n, 3)

    free = {"x": {0: ROWS}, "y": {0: weft.export.Dim("others")}}
    made = weft.onnx.export(f, given(*rows), dynamic_shapes=free)
    for m in (1, 2, 3, 7):
        for n in (1, 2, 4, 7):
            want = weft.as_tensor(f(*given(m, n)))
            weft.testing.assert_close(made(*given(m, n))[0], want)


def test_sizes_that_do_not_fit_are_told_from_what_raises() -> None:
    def side_by_side(x: Any, y: Any) -> Any:
        return weft.cat([x, y], 1)

    def wrong(x: Any, y: Any) -> Any:
        return x.view(5, 5)

    def wrong_on_one_way(x: Any, y: Any) -> Any:
        return x.view(5, 5) if x.sum() < 0 else y

    free = {"x": {0: ROWS}}
    for f, text in [
        (side_by_side, "a call that fits the example, and raises .* Hint: .* one Dim"),
        (wrong, "what raises RuntimeError"),
        (wrong_on_one_way, "what may raise RuntimeError"),
    ]:
        with pytest.raises(weft.onnx.NotOnnx, match=text):
            weft.onnx.export(f, (weft.ones(4, 3), weft.ones(4, 3)), dynamic_shapes=free)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.bernoulli(0.9),
        lambda x: weft.bernoulli(x * 0.9),
        lambda x: weft.nn.functional.dropout1d(x[None, :, None], 0.1, True) != 0,
        lambda x: weft.nn.functional.alpha_dropout(x, 0.1, True) > 0,
    ],
)
def test_decisions_are_not_the_opposite(f: Callable[[Any], Any]) -> None:
    """ONNX Runtime has no kernel of Bernoulli's, and its definition gave 0 for 1."""
    made = weft.onnx.export(f, (weft.ones(4000),))
    for out in (made(weft.ones(4000))[0], f(weft.ones(4000))):
        assert 0.85 < out.float().mean() < 0.95
