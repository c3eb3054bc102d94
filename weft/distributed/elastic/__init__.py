"""What programs that a launch started take from PyTorch's elastic launcher."""
