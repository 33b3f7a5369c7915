"""The offline stage: pre-training and meta-training of a backbone."""
