"""Automatic differentiation: kernel calls of forward and backward passes, emitted before anything runs."""
