"""Tensors from nothing: constants, ranges, data, random numbers; and between dtypes, devices and Python."""
