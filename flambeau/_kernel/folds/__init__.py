"""Kernels along rows: folds of many elements into one (`reduce`, `sums`), programs of several folds (`rows`), running folds
(`scan`), orders (`sort`) and counts.
"""
