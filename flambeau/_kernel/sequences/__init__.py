"""Kernels of layers over sequences: attention in blocks of keys, and of a few queries; the loop over time of recurrent layers."""
