"""Checkpoints of models that lie on several processes."""
