"""The sections of the page of an adaptation, one kind a file."""
