"""How to install optional packages: one wording for all messages."""

DISTRIBUTION = "tinytrain-adapt"  # on the package index, "tinytrain" belongs to another project


def install(extra: str) -> str:
    """The command that installs `extra`, an entry of ``[project.optional-dependencies]``."""
    return f"pip install '.[{extra}]' in a checkout, pip install '{DISTRIBUTION}[{extra}]' elsewhere"
