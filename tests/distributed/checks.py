"""Runs in each rank: every `check_*` function of a module, and says which failed.

`weft launch -n 2 checks.py MODULE`; rank 0 writes one JSON line, {check: error or null}.
"""

import datetime
import importlib
import json
import sys
import traceback
import warnings
from pathlib import Path

import weft

dist = weft.distributed


def main(module):
    sys.path.insert(0, str(Path(__file__).parent))
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    found = {}
    for name, check in list(vars(importlib.import_module(module)).items()):
        if not name.startswith("check_"):
            continue
        try:
            check(dist.get_rank(), dist.get_world_size())
            error = None
        except Exception:
            error = f"rank {dist.get_rank()}: {traceback.format_exc()}"
            print(name, error, file=sys.stderr)  # should the others not come to the exchange below
        errors = [None] * dist.get_world_size()
        dist.all_gather_object(errors, error)
        found[name] = "\n".join(e for e in errors if e) or None
    if dist.get_rank() == 0:
        print("FOUND" + json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
