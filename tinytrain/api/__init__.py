"""Python as people write it: names, paths and arrays where the packages below take their own values."""
