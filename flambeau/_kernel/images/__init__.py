"""Kernels over images and volumes: convolutions of windows (`conv`), of groups of few channels (`conv_groups`), by Winograd's
transforms, with channels side by side (`lanes`) or as columns of a matrix; pooling, resampling, and sampling at the points of a
grid.
"""
