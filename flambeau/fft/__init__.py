"""Fourier transforms."""

from .._methods import install

install(globals(), "fft")
