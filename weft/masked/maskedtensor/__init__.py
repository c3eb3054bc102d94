"""`MaskedTensor`: a tensor with a mask that tells which of its elements count."""
