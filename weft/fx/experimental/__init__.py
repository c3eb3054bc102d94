"""`torch.fx.experimental`: what packages ask it while they run."""
