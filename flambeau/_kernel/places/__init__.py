"""Kernels that bring elements to other places: by index (`elements`), as rows of tables (`embedding`), from matrices that lie the
other way round (`turning`).
"""
