"""What an adaptation trains. `tinytrain.policies.registry` lists all policies by name."""

# Name -> what is trained, for help and completion, which must not import the policies themselves.
SUMMARIES = {
    "tinytrain": "channels chosen for these images (the default)",
    "tinytrain_published": "TinyTrain as published",
    "full": "everything",
    "last_layer": "the last convolution",
    "bias_only": "biases of the last blocks, as many as --macs allows",
    "lora": "LoRA: pairs of low rank beside layers of a transformer",
    "tinytl": "TinyTL: all biases, and a small added module per block",
    "adapterdrop_25": "AdapterDrop: TinyTL without the first 25 % of modules",
    "adapterdrop_50": "the same without 50 %",
    "adapterdrop_75": "the same without 75 %",
    "sparse_update": "SparseUpdate as published for this backbone, at 100 kB",
    "sparse_update_50kb": "the same at 50 kB",
    "sparse_update_75kb": "the same at 75 kB",
    "sparse_update_125kb": "the same at 125 kB",
    "sparse_update_150kb": "the same at 150 kB",
    "trady": "TraDy: random input channels, drawn anew in every epoch",
    "transductive": "everything, also with the unlabelled images to be judged",
    "l2": "as tinytrain_published, but the largest channels",
    "random": "as tinytrain_published, but random channels",
    "none": "nothing but the classifier",
    "none_lda": "the same, with the classifier of the default policy",
}
