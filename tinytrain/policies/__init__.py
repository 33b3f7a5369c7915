"""One paper per file; `tinytrain.policies.registry` lists them by name."""
