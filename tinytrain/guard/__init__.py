"""Decide whether an adaptation is kept."""
