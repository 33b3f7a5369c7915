"""Errors, units, safe files, safetensors, schema checks, console, random streams, cache folder."""
