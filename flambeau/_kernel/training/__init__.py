"""Kernels of training: losses that are more than programs along rows, and the steps of optimizers over all parameters at once."""
