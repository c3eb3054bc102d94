"""Settings of PyTorch's compiler backend that programs write: none has an effect.

There are no kernels to tune: programs run on weft's own.
"""

from types import SimpleNamespace

__all__ = [
    "conv_1x1_as_mm", "coordinate_descent_check_all_directions", "coordinate_descent_tuning", "cpp",
    "epilogue_fusion", "force_fuse_int_mm_with_mul", "freezing", "fx_graph_cache", "max_autotune",
    "triton", "use_mixed_mm",
]  # fmt: skip

conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp = SimpleNamespace(threads=-1)
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
max_autotune = False
triton = SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)
use_mixed_mm = True
