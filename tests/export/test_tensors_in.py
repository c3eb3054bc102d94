"""What is no plain memory with strides is refused where it would enter a program, by name; it was
read as the core's stand-in for it: nan, or the values without their places."""

import io
from collections import OrderedDict

import pytest

import weft
from weft import nn

SPARSE = weft.eye(3).to_sparse()
OTHERS = {
    "coo": SPARSE,
    "csr": weft.eye(3).to_sparse_csr(),
    "nested": weft.nested.nested_tensor([weft.ones(2, 3), weft.ones(1, 3)], layout=weft.jagged),
}


class Doubles(nn.Module):
    def forward(self, x, more=None):
        return x * 2


class Product(nn.Module):
    def __init__(self, adjacent):
        super().__init__()
        self.register_buffer("adjacent", adjacent)

    def forward(self, x):
        return self.adjacent @ x


class Sets(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", weft.eye(3))

    def forward(self, x):
        self.last = self.last + x
        return self.last


def loaded(module):
    file = io.BytesIO()
    weft.jit.save(weft.jit.script(module), file)
    file.seek(0)
    return weft.jit.load(file)


@pytest.mark.parametrize("kind", OTHERS)
def test_an_argument(kind):
    x = OTHERS[kind]
    program, exported = loaded(Doubles()), weft.export.export(Doubles(), (weft.eye(3),)).module()
    again = loaded(weft.onnx.load(weft.onnx.export(lambda x: x * 2, (weft.eye(3),))))
    for _ in range(3):  # as a plan too
        for run in (program, exported, again):
            assert weft.equal(run(weft.eye(3)), weft.eye(3) * 2)
            with pytest.raises(TypeError, match="dense tensors.*(Sparse|Nested)Tensor.*Hint: pass"):
                run(x)
    for more in ([x], {"a": (x,)}):
        with pytest.raises(TypeError, match="dense tensors"):
            program(weft.ones(2), more)
    with pytest.raises(TypeError, match=r"at args\[0\]"):
        weft.export.export(Doubles(), (x,))
    with pytest.raises(TypeError, match="onnx.export.*dense tensors.*at x"):
        weft.onnx.export(Doubles(), (x,))


def test_a_buffer():
    with pytest.raises(weft.export.NotExportable, match="'adjacent' of SparseTensor"):
        loaded(Product(SPARSE))
    for module in (loaded(Product(weft.eye(3))), loaded(Sets())):
        (name,) = module.state_dict()
        setattr(module, name, SPARSE)
        with pytest.raises((TypeError, weft.export.NotExportable), match="SparseTensor"):
            module(weft.eye(3))
        setattr(module, name, weft.eye(3))
        assert module(weft.eye(3)).shape == (3, 3)


def test_tensors_that_stay():
    class Mine(weft.Tensor):
        pass

    program = loaded(Doubles())
    assert program(weft.ones(2).as_subclass(Mine)).tolist() == [2, 2]
    assert program(nn.Parameter(weft.ones(2))).tolist() == [2, 2]
    assert program(weft.ones(2, device="meta")).is_meta


def test_a_dict_of_another_class_is_refused_with_a_way_out():
    with pytest.raises(TypeError, match="got collections.OrderedDict. Hint: dict"):
        loaded(Doubles())(weft.ones(2), OrderedDict(a=1))
