"""(family special)"""
