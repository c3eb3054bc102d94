"""Training that Ray places on machines and that goes on when one of them is lost.

>>> ray = weft.distributed.ray
>>> ray.FailureConfig(max_failures=2)
FailureConfig(max_failures=2)

`run` trains with several workers, `search` tries the values of a space. What they call tells of
itself by `report`, and asks by `get_checkpoint` where it stopped:

```python
def train(config):
    net = weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(10, 1))
    begin = 0
    if (state := ray.get_checkpoint()) is not None:
        net.load_state_dict(state["net"])
        begin = state["epoch"] + 1
    for epoch in range(begin, config["epochs"]):
        loss = one_epoch(net, epoch)
        ray.report({"loss": loss}, checkpoint={"net": net.state_dict(), "epoch": epoch})

result = ray.run(train, workers=4, config={"epochs": 10}, checkpoint="/shared/run")
```

Ray is the extra `weft[ray]`.
"""

from weft.distributed.ray.running import FailureConfig as FailureConfig
from weft.distributed.ray.running import Result as Result
from weft.distributed.ray.running import run as run
from weft.distributed.ray.searching import search as search
from weft.distributed.ray.session import get_checkpoint as get_checkpoint
from weft.distributed.ray.session import report as report

__all__ = ["FailureConfig", "Result", "get_checkpoint", "report", "run", "search"]
