"""SparseUpdate's offline search: what each part of a network gains, then the best parts within a budget."""
