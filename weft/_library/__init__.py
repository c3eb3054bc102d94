"""What is behind `torch.library`: operators that programs define, and those of `torch.ops.aten`."""
