"""What a command says on stderr beside its errors: notices and progress. Nothing of it with --quiet."""

import logging


class Notices:
    """`quiet` is true while a command with ``--quiet`` runs."""

    def __init__(self):
        self.quiet = False

    def begin(self, quiet: bool = False) -> None:
        """Start the next command of this process."""
        self.quiet = quiet
        logging.getLogger("tinytrain").setLevel(logging.ERROR if quiet else logging.NOTSET)


NOTICES = Notices()
