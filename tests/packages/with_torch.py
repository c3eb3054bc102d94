"""Runs a script with PyTorch: python with_torch.py SITE script.py

SITE is where PyTorch lies among another environment's packages, of which nothing else is taken
(mpi4py looks for MPI beside its own interpreter); "" if it is in this environment.
"""

import runpy
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

OF_PYTORCH = {"torch", "torchgen", "functorch", "torchvision"}
site, program = sys.argv[1:3]


class InSite:
    """Finds the modules of PyTorch in SITE, after all else."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [site]) if name in OF_PYTORCH else None


sys.path[0] = str(Path(program).parent)
if site:
    sys.meta_path.append(InSite)
if find_spec("torchvision") is not None:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from torchvision_by_name import with_operators

    sys.path.pop(0)
    operators = with_operators()
sys.argv = sys.argv[2:]
runpy.run_path(program, run_name="__main__")
