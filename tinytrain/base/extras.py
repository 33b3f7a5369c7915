"""Packages that only some commands need: one wording of how to install them, for every message."""

DISTRIBUTION = "tinytrain-adapt"  # on the package index the plain name belongs to another project


def install(extra: str) -> str:
    """What to run for the packages of `extra`, an entry of ``[project.optional-dependencies]``."""
    return f"pip install '.[{extra}]' in a checkout, pip install '{DISTRIBUTION}[{extra}]' elsewhere"
