"""Studies whose figures the documentation quotes, each with its command."""
