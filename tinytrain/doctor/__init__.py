"""The checks of ``tinytrain doctor``."""
