"""Kernels, from the bottom up: `building` makes machine code of text, `render` writes it, `loops` and `threads` go over elements, `math` has
functions of one; `native` calls kernels from Python. Families of kernels stand on these, and `cuda` on the families.
"""
