"""Domains that are drawn by a formula, without any file; each has a module, loaded when it is asked for."""

from importlib import import_module

DOMAINS = ("signs", "glyphs", "textures", "leaves", "sketches", "solids", "toys", "meters")
CLIPS = ("sounds", "speech")


def domain(name: str):
    """The `camera.Domain` of a name in DOMAINS or CLIPS."""
    return getattr(import_module(f"{__name__}.{name}"), name)
