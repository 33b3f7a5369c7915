"""A page in a browser, and a small HTTP interface, for all that happens in the folder of a project."""
