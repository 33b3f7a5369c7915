"""Ways to compute and train a network. `tinytrain.program.backends.registry` lists all of them by name."""

# Name -> what it is, for help and completion, which must not import the backends themselves.
SUMMARIES = {
    "auto": "float32 if all that the policy chooses fits the budget, otherwise int8",
    "float32": "everything in float32",
    "int8": "weights, activations and cached features in 8 bits, for small budgets",
    "noisy": "float32 on weights that are off; noisy:0.03:7 says how far, and which array it is",
}
