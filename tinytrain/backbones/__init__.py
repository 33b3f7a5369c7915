"""Backbones by name, and importers of published checkpoints and ONNX models."""
