"""Classifiers of embeddings, and what they share. `tinytrain.heads.registry` lists all heads by name."""

# Name -> what it is, for help and completion, which must not import the heads themselves.
SUMMARIES = {
    "cosine": "similarity to the mean direction of each class",
    "lda": "the same, weighed by how images of a class vary",
    "mild-lda": "lda that is nearer to cosine",
    "slda": "lda of a stream of images (Deep SLDA)",
    "ridge": "ridge regression on the classes",
    "imprint": "cosine to which classes can be added with no change (Coral)",
    "knn": "nearest of a few prototypes, kept by condensing (TML-CD)",
    "rce": "neurons that say identified, uncertain or unknown (NeuroMem)",
    "softmax": "softmax layer trained image by image (TinyOL)",
    "oselm": "random hidden layer with exact updates (OS-ELM)",
    "oselm-ae": "an autoencoder for each class; also for normal images alone (ONLAD)",
}
