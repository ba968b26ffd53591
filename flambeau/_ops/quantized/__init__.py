"""Tensors of integers with a scale, and rounding like theirs."""
