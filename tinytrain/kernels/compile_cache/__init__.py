"""Compiled kernels on disk: verified before numba may load one of them."""
