"""The pool of native threads that loops hand parts of their range to: `pool` for Python, `pool_functions` in machine code."""
