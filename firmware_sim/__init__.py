"""Simulated boards and the flash in them."""
