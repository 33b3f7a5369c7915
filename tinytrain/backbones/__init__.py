"""Backbones by name, and the readers of published checkpoints and ONNX models."""
