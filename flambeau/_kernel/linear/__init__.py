"""Linear algebra besides products: elimination of small matrices, factors of larger ones, eigenvalues of small symmetric ones, Fourier
transforms, and LAPACK's routines as loops.
"""
