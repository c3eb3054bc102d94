"""PyTorch's paths of what makes nested tensors."""
