"""Classifiers on embeddings."""
