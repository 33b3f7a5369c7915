"""What a command says on stderr beside its errors: notices and progress. Nothing of it with --quiet."""


class Notices:
    """`quiet` is true while a command with ``--quiet`` runs."""

    def __init__(self):
        self.quiet = False

    def begin(self, quiet: bool = False) -> None:
        """Start the next command of this process."""
        if quiet != self.quiet:
            import logging

            logging.getLogger("tinytrain").setLevel(logging.ERROR if quiet else logging.NOTSET)
        self.quiet = quiet


NOTICES = Notices()
