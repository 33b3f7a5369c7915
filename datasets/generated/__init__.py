"""Domains that are drawn by a formula, without any file."""
