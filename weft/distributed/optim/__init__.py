"""Optimizers over several processes; two are classes to ask `isinstance` of, which raise."""

from weft.base.absent import raising_class
from weft.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


def _absent(name: str) -> type:
    text = (
        f"[{name}] expected an optimizer of one process, got one over several. Hint: the "
        "optimizers of torch.optim work with DistributedDataParallel as they are"
    )
    doc = "An optimizer over several processes. Making one raises NotImplementedError."
    return raising_class(name, __name__, NotImplementedError, text, doc)


DistributedOptimizer = _absent("DistributedOptimizer")
PostLocalSGDOptimizer = _absent("PostLocalSGDOptimizer")
