"""Sparse attention: maps of blocks, the choice of a kernel, and the blocked kernels."""
