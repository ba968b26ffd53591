"""(family histogram)"""
