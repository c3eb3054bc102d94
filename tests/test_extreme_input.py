"""Arguments at the edge of what a machine can count, and objects that change while they are read.

Each call must fail as PyTorch's does, or give what PyTorch's gives; none may wrap round, hang, or
touch memory that is not the tensor's. `make sanitize` looks closest.
"""

import pytest

import weft

WRONG = """
# sizes whose sum or product is beyond 64 bits
t.zeros(0, 2**62, 4)
t.zeros(2**62, 3)
t.cat([t.zeros(0, 2**62), t.zeros(0, 2**62)], 1)
t.zeros(0, 2**62).repeat(1, 4)
t.zeros(0, 3).repeat(2**62, 2**62)
t.nn.functional.pad(t.zeros(2), (2**62, 2**62))
t.nn.functional.pad(t.zeros(2), (2**63 - 1, 5))
t.nn.functional.pad(t.zeros(2), (-2**63, 0))
t.zeros(3).diag(2**63 - 1)
t.zeros(3).diag(-2**63)
t.zeros(3).diag_embed(-2**63)
t.zeros(3).repeat_interleave(2**62)
t.zeros(3).repeat_interleave(t.tensor([2**62, 2**62, 2**62]))
t.zeros(3).narrow(0, 1, 2**63 - 1)
t.zeros(3).split([2**63 - 1, -2**63 + 4])
t.zeros(3).split([2**62, 2**62, 3])
t.zeros(6).as_strided((2,), (2**62,))
t.combinations(t.zeros(40), 20)
# numbers beyond the dtype that would hold them
t.zeros(2, dtype=t.uint8).fill_(300)
t.zeros(2, dtype=t.uint8).fill_(-256)
t.zeros(2, dtype=t.int8).fill_(-129)
t.zeros(2, dtype=t.int16).fill_(1e5)
t.zeros(2, dtype=t.uint8).fill_(255.5)
t.zeros(2).fill_(1j)
t.full((2,), 300, dtype=t.uint8)
t.zeros(2, dtype=t.uint8).__setitem__(0, 300)
t.zeros(2).__setitem__(0, 1j)
t.zeros(2, dtype=t.int8).masked_fill_(t.tensor([True, False]), 200)
t.zeros(2, dtype=t.int8).index_fill_(0, t.tensor([0]), 200)
t.zeros(2, dtype=t.int8).scatter_(0, t.tensor([0]), 200)
t.zeros(2).uniform_(-3e38, 3e38)
# places outside
t.zeros(3).index_add_(0, t.tensor([5]), t.ones(1))
t.zeros(3).index_add_(0, t.tensor([-1]), t.ones(1))
t.zeros(2, 3).index_add_(1, t.tensor([3]), t.ones(2, 1))
t.nn.functional.embedding_bag(t.tensor([0, 1]), t.zeros(3, 2), t.tensor([0, -1]))
# not what the function takes
t.promote_types(1, 2)
t.can_cast(1, 2)
t.can_cast(t.float32, 'x')
t.result_type(None, 1)
t.is_floating_point(3)
t.is_complex(3)
t.numel(3)
t.finfo(3)
t.iinfo('x')
t.detach(3)
t.meshgrid(t.zeros(2), (1, 2))
t.chain_matmul()
'x' in t.zeros(3)
t.linalg.norm(t.zeros(2, 2, 2), 'fro')
# numbers before the tensors they do not scale
t.add(t.ones(2), t.ones(2), 2)
t.ones(2).add(t.ones(2), 2)
t.add(2, t.ones(2), 2, t.ones(2))
t.ones(2).mul(2, t.ones(2))
t.ones(2).addcmul(2, 2, t.ones(2), t.ones(2))
t.addmm(2, t.ones(2, 2), 3, 4, t.ones(2, 2), t.ones(2, 2))
""".strip().splitlines()

RIGHT = """
t.zeros(2**40, 0, 2**40).stride()
t.empty(0, 2**31, 2**31).transpose(0, 1).contiguous().shape
t.empty(2**40, 0).sort().values.shape
t.empty(2**40, 0).argsort().shape
t.ones(3, 3).tril(2**63 - 1)
t.ones(3, 3).tril(-2**63)
t.ones(3, 3).triu(2**63 - 1)
t.ones(3, 3).triu(-2**63)
t.ones(3)[1::2**62]
t.ones(3, 2)[1::2**61]
t.ones(4).unfold(0, 2, 2**62)
t.zeros(3, 3).diagonal(2**63 - 1)
t.combinations(t.ones(3), 7)
t.full((2,), -1, dtype=t.uint8)
t.zeros(2, dtype=t.uint8).fill_(-255)
t.zeros(2, dtype=t.uint8).fill_(t.tensor(300))
t.zeros(2).fill_(3 + 0j)
t.zeros(2, dtype=t.bool).fill_(300)
t.zeros(2, dtype=t.uint8).masked_fill(t.tensor([True, False]), -1)
t.zeros(2, dtype=t.int8).index_fill(0, t.tensor([0]), t.tensor(127, dtype=t.int8))
t.add(M(2), 2, M(2))
M(2).add(3, M(2))
M(2).add_(-3, M(2))
t.sub(M(2), 2, M(2))
t.addmm(2, M(2, 2), M(2, 2), M(2, 2))
t.addmm(2, M(2, 2), 3, M(2, 2), M(2, 2))
M(2, 2).addmm(2, 3, M(2, 2), M(2, 2))
M(2, 2).addmm_(2, M(2, 2), M(2, 2))
M(2).addcmul(2, M(2), M(2))
M(2).addcdiv_(2, M(2), M(2))
t.addcmul(M(2), 2, M(2), M(2))
""".strip().splitlines()


@pytest.mark.parametrize("text", [line for line in WRONG if not line.startswith("#")])
def test_wrong(beside, text):
    beside.error(text)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", RIGHT)
def test_right(torch, beside, text):
    (ours, *_), _ = beside.make(weft, text)
    (theirs, *_), _ = beside.make(torch, text)
    assert str(ours) == str(theirs)


def test_a_number_before_its_tensor_warns():
    with pytest.warns(UserWarning, match="alpha="):
        assert weft.ones(2).add_(-2, weft.ones(2)).tolist() == [-1, -1]


class Shrinking:
    """A number that empties the list in which it stands when it is read."""

    def __init__(self, home):
        self.home = home

    def read(self):
        self.home.clear()
        return 1

    __index__ = __int__ = read

    def __float__(self):
        return float(self.read())


def shrinking():
    home = []
    home.extend(Shrinking(home) for _ in range(64))
    return home


@pytest.mark.parametrize(
    "use",
    [
        lambda home: weft.tensor(home),
        lambda home: weft.tensor(home, dtype=weft.float64),
        lambda home: weft.tensor([home, home]),
        lambda home: weft.zeros(3)[home],
        lambda home: weft.zeros(3).__setitem__(home, 1),
        lambda home: weft.zeros(64).__setitem__(slice(None), home),
    ],
)
def test_a_list_that_shrinks_while_it_is_read(use):
    with pytest.raises(ValueError, match="keeps its length"):
        use(shrinking())


def test_sizes_that_shrink_while_they_are_read():
    assert weft.zeros(shrinking()).shape == (1,)
    assert weft.ones(2).sum(shrinking()[:0]).item() == 2
    param = weft.zeros(1, requires_grad=True)
    param.grad = weft.ones(1)
    adam = weft.optim.Adam([param])
    adam.param_groups[0]["betas"] = shrinking()
    with pytest.raises(TypeError, match="settings"):
        adam.step()


def test_a_list_inside_itself():
    loop = [1]
    loop.append(loop)
    for use in (weft.tensor, weft.zeros(3).__getitem__, lambda x: weft.zeros(3).__setitem__(0, x)):
        with pytest.raises(TypeError, match="self-referential"):
            use(loop)
    with pytest.raises(TypeError, match="self-referential"):
        weft.tensor([[1, 2], loop])
    param = weft.zeros(1, requires_grad=True)
    param.grad = weft.ones(1)
    adam = weft.optim.Adam([param])
    adam.param_groups[0]["betas"] = loop
    with pytest.raises(TypeError):
        adam.step()


def test_more_parts_than_memory():
    for use in (
        lambda: weft.zeros(3).tensor_split(2**40),
        lambda: weft.zeros(0).chunk(2**40),
        lambda: weft.empty(2**40, 0).unbind(),
        lambda: weft.empty(2**40, 0).split(1),
    ):
        with pytest.raises(RuntimeError, match="parts"):
            use()
