"""What is written as CUDA text: `render` is the renderer for bodies and kernels of all other rooms, the other files are kernels
that a GPU computes in a way of its own.
"""
