"""Mixed precision: products in bfloat16, losses in float32, weights as they are."""

from weft.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from weft.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
