"""Loops around bodies: around the formula of an element (`pointwise`, with `chains` and `gathering`), written out in a small
language over arrays (`lang`), or over words in memory (`dialect`); `ufunc` makes NumPy's functions of them.
"""
