"""Flash memory and its file systems when the power is cut."""
