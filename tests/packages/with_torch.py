"""Runs a script with PyTorch: python with_torch.py SITE script.py

SITE is the last place to look for PyTorch in, another environment's packages; "" for none.
"""

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

site, program = sys.argv[1:3]
sys.path[0] = str(Path(program).parent)
if site:
    sys.path.append(site)
if find_spec("torchvision") is not None:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from torchvision_by_name import with_operators

    sys.path.pop(0)
    operators = with_operators()
sys.argv = sys.argv[2:]
runpy.run_path(program, run_name="__main__")
