"""The oracle of the tests of weft.vision: torchvision, whose Python part is enough."""

import importlib.util
import pathlib
import re

import pytest


@pytest.fixture(scope="session")
def torchvision(torch):
    """torchvision as it is, or, where its compiled part is for another PyTorch, without that.

    Its Python registers gradients and shapes for the operators of that part while it is imported:
    then they are there by name only.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None:
        pytest.skip("torchvision is not installed")
    home = pathlib.Path(spec.origin).parent
    try:
        torch.ops.load_library(home / "_C.so")
    except OSError:
        texts = [(home / f"_{kind}_registrations.py").read_text() for kind in ("meta", "autograd")]
        named = re.findall(r'(?:torchvision::|register_meta\(")(\w+)', "".join(texts))
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in sorted(set(named)):
            library.define(f"{name}(Tensor x) -> Tensor")
    import torchvision

    yield torchvision  # the names are there as long as the library is
