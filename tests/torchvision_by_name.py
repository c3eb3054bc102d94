"""torchvision's Python beside a PyTorch that its compiled part is not for."""

import importlib.util
import pathlib
import re


def with_operators():
    """Loads torchvision's compiled part; where that fails, names its operators.

    Its Python registers gradients and shapes for them while it is imported: then they are there by
    name only, as long as the library lives that is returned.
    """
    import torch

    home = pathlib.Path(importlib.util.find_spec("torchvision").origin).parent
    try:
        torch.ops.load_library(home / "_C.so")
        return None
    except OSError:
        texts = [(home / f"_{kind}_registrations.py").read_text() for kind in ("meta", "autograd")]
        named = re.findall(r'(?:torchvision::|register_meta\(")(\w+)', "".join(texts))
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in sorted(set(named)):
            library.define(f"{name}(Tensor x) -> Tensor")
        return library
