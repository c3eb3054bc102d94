"""Models made without memory, filled from files, placed, hooked."""

import os
import tempfile

import torch
from accelerate import (
    dispatch_model,
    infer_auto_device_map,
    init_empty_weights,
    load_checkpoint_and_dispatch,
)
from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
from accelerate.utils import (
    compute_module_sizes,
    find_executable_batch_size,
    find_tied_parameters,
    offload_state_dict,
)
from safetensors.torch import save_file


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


torch.manual_seed(0)
real = Net()
x = torch.randn(2, 4)
with init_empty_weights():
    empty = Net()
with init_empty_weights(include_buffers=True):
    huge = torch.nn.Linear(10**6, 10**6)
print(empty.first.weight.device, huge.weight.shape, huge.weight.is_meta)
print(dict(compute_module_sizes(empty)))
print(infer_auto_device_map(real, max_memory={"cpu": 10**6}))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net.safetensors")
    save_file(real.state_dict(), path)
    filled = load_checkpoint_and_dispatch(empty, path, device_map={"": "cpu"})
    print(torch.equal(filled(x), real(x)), filled.first.weight.device)
    offload_state_dict(folder, real.state_dict())
    print(sorted(os.listdir(folder))[:3])
print(torch.equal(dispatch_model(real, {"": "cpu"})(x), filled(x)))


class Double(ModelHook):
    def pre_forward(self, module, *args, **kwargs):
        return tuple(2 * a for a in args), kwargs

    def post_forward(self, module, output):
        return output + 1


before = real.first(x)
add_hook_to_module(real.first, Double())
doubled = (before - real.first.bias) * 2 + real.first.bias + 1
print(torch.allclose(real.first(x), doubled, atol=1e-6))
remove_hook_from_module(real.first)
print(torch.equal(real.first(x), before))

tied = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)})
tied["b"].weight = tied["a"].weight
print(find_tied_parameters(tied))


@find_executable_batch_size(starting_batch_size=64)
def train(batch_size):
    if batch_size > 20:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
    return batch_size


print(train())
