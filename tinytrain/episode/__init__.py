"""Episodes (support and query images) as values, image decoding and augmentation."""
