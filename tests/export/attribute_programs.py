"""Modules and records whose classes say what happens to attributes, and what a call does: see
test_attributes.py."""

import functools

import weft
from weft import nn


class Setter(nn.Module):
    def __init__(self):
        super().__init__()
        self._t = 1.0

    @property
    def temp(self):
        return self._t

    @temp.setter
    def temp(self, value):
        self._t = max(value, 0.3)

    def forward(self, x):
        self.temp = self.temp * 0.1
        self.temp += 1
        return x * self.temp, self._t


class NoSetter(Setter):
    @property
    def temp(self):
        return self._t

    def forward(self, x):
        self.temp = 1.0
        return x


class OwnSetattr(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 1

    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2 if name == "k" else value)

    def forward(self, x):
        self.k = self.k + 1
        return x * self.k


class Record:
    def __init__(self, most):
        self._v, self.most = 0, most

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, value):
        self._v = min(value, self.most)


class SetterOfRecord(nn.Module):
    def forward(self, x):
        r, other = Record(2), Record(9)
        r.v = 5
        other.v += 3
        return r.v, r._v, other.v


class Odd:
    def __init__(self):
        self.n = 1

    def __setattr__(self, name, value):
        super().__setattr__(name, value + 1)


class SetattrOfRecord(nn.Module):
    def forward(self, x):
        r = Odd()
        return x * r.n


class Descriptor:
    def __get__(self, holder, kind=None):
        return holder._v * 2

    def __set__(self, holder, value):
        holder._v = value + 100


class Described(nn.Module):
    v = Descriptor()

    def __init__(self):
        super().__init__()
        self._v = 1

    def forward(self, x):
        before = self.v
        self.v = 3
        return before, self.v, self._v


class Box:
    v = Descriptor()

    def __init__(self, v):
        self._v = v


class DescribedRecord(nn.Module):
    def forward(self, x):
        box = Box(x)
        first = box.v
        box.v = 3
        return first, box.v, box._v


class Child(nn.Module):
    def __call__(self, x, times=1):
        return super().__call__(x) * 10 * times

    def forward(self, x):
        return x + 1


class OwnCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = Child()
        self.several = nn.ModuleList([Child(), nn.ReLU()])

    def forward(self, x):
        for layer in self.several:
            x = layer(x)
        args = [x, 2]
        return self.c(x) + self.c(*args)


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    @functools.cached_property
    def big(self):
        return self.n + 10

    def forward(self, x):
        return self.big + x, self.big


class CachedOfWritten(Cached):
    def forward(self, x):
        self.n += 1
        return self.big + x, self.n


class CachedThroughMethod(Cached):
    def count(self):
        return self.n

    @functools.cached_property
    def big(self):
        return self.count() + 10

    def forward(self, x):
        first = self.big
        self.n += 1
        return first + x


class Parameters(nn.Module):
    """Parameters by keys and numbers that a run knows."""

    def __init__(self):
        super().__init__()
        self.by_name = nn.ParameterDict({k: nn.Parameter(weft.full((2,), v)) for k, v in
                                         [("a", 2.0), ("b", 3.0)]})  # fmt: skip
        self.in_order = nn.ParameterList([nn.Parameter(weft.ones(2) * k) for k in range(3)])

    def forward(self, x):
        k = 0
        while x.sum().item() < 5 and k < 3:
            x = x * self.by_name["a" if k % 2 else "b"].detach() + self.in_order[k].detach() + 1
            k += 1
        return x, self.in_order[-k].detach()


class EitherModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.act, self.other = nn.ReLU(), None

    def forward(self, x):
        act = self.act if x.sum() > 0 else self.other
        return x if act is None else act(x)


class ModuleOrNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x):
        act = self.act if x.sum() > 0 else 2
        return x if act == 2 else act(x)


class ModuleOfTheRun(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([EitherModule(), EitherModule()])

    def forward(self, x):
        k = 0
        while k < len(self.blocks):
            act = self.blocks[k].act
            if act is not None:
                x = act(x)
            k += 1
        return x


SAME = [
    Setter, SetterOfRecord, Described, DescribedRecord, OwnCall, Cached, Parameters, EitherModule,
]  # fmt: skip
REFUSED = {
    ModuleOrNumber: "would give. Hint: call it on the way that chooses it",
    ModuleOfTheRun: "a Module (ReLU) as a value. Hint: call it where it is read, or go through",
    NoSetter: "the attribute temp that is set, for which",
    OwnSetattr: "an attribute that is set where OwnSetattr has a __setattr__",
    SetattrOfRecord: "an object of Odd with __setattr__",
    CachedOfWritten: "the cached_property big, which reads n, which the program sets",
    CachedThroughMethod: "the cached_property big, which reads n, which the program sets",
}
