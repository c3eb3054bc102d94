"""What Modules say they have, in programs: `next(self.parameters())` and the like."""

import pytest
from python_programs import saved
from test_closing import agrees

import weft
from weft import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Sequential(nn.Linear(2, 2), nn.ReLU())


class Dtype(Net):
    def forward(self, x):
        return self.first(x.to(next(self.parameters()).dtype))


class Device(Net):
    def forward(self, x):
        p = next(self.parameters())
        return self.first(x.to(p.device)) + p.sum(), p.requires_grad, tuple(p.shape)


class OfIter(Net):
    def forward(self, x):
        return x * next(iter(self.parameters())).sum()


class Named(Net):
    def forward(self, x):
        name, p = next(self.named_parameters())
        return name, x * p.sum(), next(self.named_children())[1](x)


class Children(Net):
    def forward(self, x):
        return next(self.children())(x)


class Chosen(Net):
    def forward(self, x):
        return next(m for m in self.modules() if isinstance(m, nn.Sequential))(x)


class Twice(Net):
    """An iterator with a name goes on where it was: it began anew."""

    def forward(self, x):
        them = self.parameters()
        first, second = next(them), next(them)
        return first.sum() * x, second, len(list(them)), len(list(them))


class Ended(Net):
    def forward(self, x):
        return next(self.buffers(), x), next(iter(self.first.children()), None) is None


class Looped(Net):
    def forward(self, x):
        for p in self.parameters():
            x = x + p.sum()
        total = sum(p.square().sum() for p in self.parameters())
        return x, total, [p.shape[0] for p in self.parameters()], len(list(self.children()))


class Got(Net):
    """The rows of the parameter, and the parts of the Module, came in their place."""

    def forward(self, x):
        return self.get_parameter("first.weight"), self.get_submodule("second")(x)


@pytest.mark.parametrize(
    "kind", [Dtype, Device, OfIter, Named, Children, Chosen, Twice, Ended, Looped, Got]
)
def test_a_program_goes_through_a_module_as_python_does(kind):
    """`next(self.parameters())` was saved, and raised in each run."""
    net = kind()
    agrees(lambda x: net(x), (weft.ones(1, 2),))
    loaded, x = saved(net), weft.randn(3, 2)
    assert str(loaded(x)) == str(net(x))


def test_next_of_no_parameter_raises_when_it_runs():
    class Empty(nn.Module):
        def forward(self, x):
            return next(self.parameters())

    with pytest.raises(StopIteration):
        saved(Empty())(weft.ones(1))


def test_a_tuple_of_modules_is_no_iterator():
    class Pair(Net):
        def forward(self, x):
            return next((self.first, self.second))(x)

    with pytest.raises(weft.export.NotExportable, match="next"):
        saved(Pair())
