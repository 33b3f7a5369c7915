"""The command line in this process."""

from tinytrain.cli.main import main


def tt(*arguments) -> int:
    """The exit code of ``tinytrain`` with these words."""
    return main([str(a) for a in arguments])
