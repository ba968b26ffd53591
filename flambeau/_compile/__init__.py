"""Compilation: operations captured as a list, to be replayed or turned into native code."""
