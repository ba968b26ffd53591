"""From the text of a kernel to machine code: LLVM compiles it for a CPU (`llvm`, `target`, `cpus`), part by part (`modules`), or
it is found on disk (`cache`) or in what a wheel brings (`archives`); `elf` loads it, `jit` has the functions that everybody
else calls, and `ahead` compiles what will be needed soon.
"""
