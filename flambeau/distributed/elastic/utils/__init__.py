"""Helpers of programs that are started again."""
