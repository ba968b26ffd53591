"""Functions of elements as bodies of kernels: branch-free polynomials for exp, log, sin, erf, gamma, Bessel's and others, and what
divides, rounds and is complex. `symbols` finds them by name.
"""
