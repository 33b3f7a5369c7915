"""The command line: `main`, one module per command, and what several commands share."""
