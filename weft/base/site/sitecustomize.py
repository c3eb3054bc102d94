"""Installs the finder of `weft run` in a process that starts: see Note [torch is weft].

Python imports this file in place of a `sitecustomize` that lies further on its path, which
runs after it.
"""

import os
import sys


def _install() -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    name = "weft.base.alias"
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = spec_from_file_location(name, os.path.join(folder, "alias.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.install()


def _run_next() -> None:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _here]
if os.environ.get("WEFT_AS_TORCH") == "1":
    _install()
_run_next()
