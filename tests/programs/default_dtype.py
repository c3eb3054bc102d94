"""What the default dtype decides: tensors that are made without one, and how they print."""

import warnings

import torch


class Own(torch.Tensor):
    pass


def shown():
    made = {
        "sizes": torch.Tensor(2, 3), "list": torch.Tensor([1, 2]), "none": torch.Tensor(),
        "Size": torch.Tensor(torch.Size([2])), "nested": torch.Tensor([[0.1], [2.5]]),
        "tuple": torch.Tensor((1.5, 2)), "typed": torch.FloatTensor([2]), "own": Own([1, 2]),
        "own sizes": Own(2), "tensor": torch.tensor([1.5]), "zeros": torch.zeros(1),
        "parameter": torch.nn.Parameter(torch.Tensor(2)), "empty": torch.nn.Parameter(),
        "new": torch.ones(2, dtype=torch.float32).new(3), "double": torch.DoubleTensor(2),
    }  # fmt: skip
    for name, t in made.items():
        print(name, t.dtype, tuple(t.shape))
    print(made["list"], made["nested"], made["tuple"], made["typed"], made["none"])


shown()
torch.set_default_dtype(torch.float64)
shown()
torch.set_default_dtype(torch.float16)
print(torch.Tensor([1.5]), torch.Tensor(2).dtype)
torch.set_default_dtype(torch.float32)
shown()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.set_default_tensor_type(torch.DoubleTensor)
shown()
