"""Settings of PyTorch's compiler that programs write: none has an effect.

There is no limit of compilations to raise, no error to suppress, and no shape to assume.
"""

__all__ = [
    "accumulated_recompile_limit", "assume_static_by_default", "automatic_dynamic_shapes",
    "cache_size_limit", "capture_dynamic_output_shape_ops", "capture_scalar_outputs",
    "recompile_limit", "suppress_errors", "verbose",
]  # fmt: skip

accumulated_recompile_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
recompile_limit = 8
suppress_errors = False
verbose = False
