"""Comparisons with PyTorch, in speed and in results."""
