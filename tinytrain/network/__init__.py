"""The model as a value: layers, weights, its file."""
