"""Modules whose activations are computed again, or put away, while they train."""
