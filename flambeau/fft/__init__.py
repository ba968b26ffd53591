"""Fourier transforms."""

from .._tensor.methods import install

install(globals(), "fft")
