"""How the text of a kernel is written: `value` has the values of a kernel under construction, `symbols` the domain that formulas
are read with, `llvm` the renderer of LLVM assembly. On it stand vectors and tiles of them (`tiles`, `register_tiles`) and
stores past the caches (`streaming`). The renderer of CUDA text is in `cuda`.
"""
