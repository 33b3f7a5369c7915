"""Ways to compute and train a network. `tinytrain.program.backends.registry` lists all of them by name."""

# Name -> what it is, for help and completion, which must not import the backends themselves.
SUMMARIES = {
    "auto": "float32 if all that the policy chooses fits, otherwise int8",
    "float32": "everything in float32",
    "int8": "weights, activations, cached features in 8 bits: fits small budgets",
    "noisy": "float32 on weights that are off: noisy:0.03:7, by 3 % on array 7",
}
