"""The data as a value: support and query images, and how they are decoded."""
