"""Linear algebra besides products: elimination of small matrices, factors of larger ones, Fourier transforms, and LAPACK's
routines as loops.
"""
