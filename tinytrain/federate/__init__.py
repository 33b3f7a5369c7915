"""Rounds in which several devices learn together: what a client does, and a server by Flower's strategies."""

HEADS = ("lda", "mild-lda", "slda", "ridge")  # those of sums
STRATEGIES = ("average", "median", "trimmed", "krum")
