"""Few-shot adaptation of small convolutional networks on the device itself."""

__version__ = "0.1.0"
