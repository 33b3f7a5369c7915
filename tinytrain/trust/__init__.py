"""Whose a delta is, and how little it shows: signatures, masks that cancel in a sum, noise."""
