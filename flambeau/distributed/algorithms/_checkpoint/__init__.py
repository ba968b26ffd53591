"""Modules that compute again in the backward pass what they did not keep."""
