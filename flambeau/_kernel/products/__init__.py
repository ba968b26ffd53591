"""Products of matrices: packed panels and register tiles for floats (`gemm`), pairs of bfloat16 (`gemm_bf16`), bytes
(`gemm_int8`), and shapes that are no work for tiles (`dots`, `thin`).
"""
