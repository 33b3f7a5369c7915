"""Data loaders, generated domains and episode samplers."""
