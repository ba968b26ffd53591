"""Convolutions of arrays: one description (`description.py`), and the ways to compute it, each in a file of its own.

A way says whether it suits a description and a role, and has a function for each role. The first that suits is taken.
"""

from . import columns, groups, lanes, library, lines, matrices, patches, volumes, winograd
from .description import WAYS

WAYS[:] = [
    library,  # the device's own, if it has one
    patches,  # large windows side by side: one copy and one product
    lines,  # one dimension: as images with one row or one column
    volumes,  # three dimensions: slices below a window are channels of images
    groups,  # few channels in a group: plane by plane
    winograd,  # windows of 3x3 in steps of one: Winograd's tiles
    lanes,  # single precision, two dimensions: channels side by side
    columns,  # whatever else has kernels: products with windows laid out
    matrices,  # anything
]
